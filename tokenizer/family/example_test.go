package family_test

import (
	"fmt"

	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// A template tells how its model marks calls. The parser reads an answer as it comes.
func Example() {
	t, err := chat.Parse(`{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}`, chat.Options{})
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
