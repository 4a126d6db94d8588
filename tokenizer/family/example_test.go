package family_test

import (
	"fmt"

	"weir/tokenizer/chat"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// template writes the calls of earlier answers in the form of Hermes and Qwen.
const template = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}`

// A template tells how its model marks calls. The parser reads an answer as it comes.
func Example() {
	t, err := chat.Parse(template, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	f := family.Detect(t)
	fmt.Println("family:", f.Name)
	p := f.NewParser(family.Options{Tools: []family.Tool{{Name: "weather"}}, Choice: family.Choice{Mode: family.Auto}})
	var parts []family.Part
	show := func() {
		for _, part := range parts {
			switch part.Kind {
			case family.Content, family.Reasoning, family.CallArguments:
				fmt.Printf("%q\n", part.Bytes)
			case family.CallStart:
				fmt.Println("call of", part.Name)
			case family.CallEnd:
				fmt.Println("the arguments are complete")
			}
		}
	}
	for _, piece := range []string{"Let me look.", "<tool", "_call>\n{\"name\": \"weather\", \"argu", "ments\": {\"city\": \"Ulm\"}}\n</tool_call>"} {
		parts = p.Append(parts[:0], []byte(piece), false)
		show()
	}
	parts = p.Close(parts[:0])
	show()
	// Output:
	// family: hermes
	// "Let me look."
	// call of weather
	// "{\"city\": \"Ulm\"}"
	// the arguments are complete
}

// The same family gives the grammar of answers that call tools with arguments of their schemas.
func ExampleFamily_Grammar() {
	t, err := chat.Parse(template, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := grammar.NewBuilder(grammar.Limits{})
	start, err := family.Detect(t).Grammar(b, family.Rules{
		Tools:  []family.Tool{{Name: "day", Parameters: []byte(`{"type": "object"}`), Strict: true}},
		Choice: family.Choice{Mode: family.Required},
		Schema: func(b *grammar.Builder, text []byte, strict bool) (grammar.Symbol, error) {
			s, _, err := schema.Add(b, text, schema.Served(strict))
			return s, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := b.Compile(start)
	if err != nil {
		fmt.Println(err)
		return
	}
	pieces := []string{"Monday", "<tool_call>\n", `{"name": "day", "arguments": `, `{}`, "}\n</tool_call>"}
	var vocabulary [][]byte
	for _, p := range pieces {
		vocabulary = append(vocabulary, []byte(p))
	}
	m, err := g.Matcher(grammar.NewVocabulary(vocabulary, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("text:", m.Allows(0))
	for id := int32(1); id < 5; id++ {
		fmt.Printf("%q: %v\n", pieces[id], m.Accept(id))
	}
	// Output:
	// text: false
	// "<tool_call>\n": <nil>
	// "{\"name\": \"day\", \"arguments\": ": <nil>
	// "{}": <nil>
	// "}\n</tool_call>": <nil>
}
