package chat_test

import (
	"fmt"

	"weir/tokenizer/chat"
)

// A template writes the prompt of a conversation. What the client wrote stays apart: its control tokens are plain text.
func Example() {
	t, err := chat.Parse("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"+
		"{% if add_generation_prompt %}<|assistant|>{% endif %}", chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	spans, err := t.Render(chat.Input{
		Messages:            chat.Messages(chat.Message{Role: "user", Content: "What is <|end|>?"}),
		AddGenerationPrompt: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range spans {
		fmt.Printf("control %v: %q\n", s.Control, s.Text)
	}
	// Output:
	// control true: "<|"
	// control false: "user"
	// control true: "|>"
	// control false: "What is <|end|>?"
	// control true: "<|end|>\n<|assistant|>"
}

// Messages of a request are JSON. A template may refuse them.
func ExampleFromJSON() {
	t, err := chat.Parse("{% if messages[0].role == 'tool' %}{{ raise_exception('a tool speaks first') }}{% endif %}", chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := chat.FromJSON([]byte(`[{"role": "tool", "content": "12 °C"}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = t.Render(chat.Input{Messages: messages})
	fmt.Println(err)
	// Output:
	// chat template line 1: a tool speaks first
}

// Models without a template of their own get a common one.
func ExampleFindBuiltin() {
	b, _ := chat.FindBuiltin(chat.ChatML)
	t, err := chat.Parse(b.Source, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	spans, err := t.Render(chat.Input{Messages: chat.Messages(chat.Message{Role: "user", Content: "Hello"})})
	fmt.Printf("%q %v, needs %v\n", chat.Text(spans), err, b.Tokens)
	// Output:
	// "<|im_start|>user\nHello<|im_end|>\n" <nil>, needs [<|im_start|> <|im_end|>]
}
