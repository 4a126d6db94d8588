package family

import (
	"testing"

	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// TestAnsweringClosesNoThoughtThatIsNone: an empty thought is for models whose template knows of thoughts. Others would read markers that they never
// saw, in every question of a decision.
func TestAnsweringClosesNoThoughtThatIsNone(t *testing.T) {
	const turns = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
	const history = "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1] }}{% endif %}{% endfor %}"
	for _, tc := range []struct {
		name, template, reasoning, want string
		switched                        bool
	}{
		{name: "no thoughts", template: turns + "{% endif %}", want: ""},
		{name: "thoughts by the server's setting", template: turns + "{% endif %}", reasoning: "qwen3", want: "<think>\n\n</think>\n\n"},
		{name: "thoughts in the history", template: history + turns + "{% endif %}", want: "<think>\n\n</think>\n\n"},
		{name: "a switch that is off", template: history + turns + "{% endif %}", switched: true, want: ""},
		{name: "a thought that is begun", template: turns + "<think>\n{% endif %}", want: "\n</think>\n\n"},
		{name: "a thought that is empty", template: turns + "<think>\n\n</think>\n\n{% endif %}", want: ""},
	} {
		parsed, err := chat.Parse(tc.template, chat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Named(parsed, "", tc.reasoning)
		if err != nil {
			t.Fatal(err)
		}
		var prompt []tokenizer.Span
		if prompt, err = parsed.Render(chat.Input{Messages: chat.Messages(chat.Message{Role: "user", Content: "x"}), AddGenerationPrompt: true}); err != nil {
			t.Fatal(err)
		}
		if got := f.Answering(prompt, tc.switched); got != tc.want {
			t.Errorf("%s: %q follows the prompt, want %q", tc.name, got, tc.want)
		}
	}
}
