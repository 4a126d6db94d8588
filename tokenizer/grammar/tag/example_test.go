package tag_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/tag"
)

// Text is free up to the trigger. What follows it is a call whose arguments fit a schema.
func Example() {
	text := `{"structures": [{"begin": "<f=add>", "schema": {"type": "array", "items": {"type": "integer"}}, "end": "</f>"}], "triggers": ["<f="]}`
	b := grammar.NewBuilder(grammar.Limits{})
	start, ignored, err := tag.Add(b, []byte(text), tag.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := b.Compile(start)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("not enforced:", len(ignored))
	for _, answer := range []string{"Let me add: <f=add>[1, 2]</f> Done.", "3 < 4", "<f=add>one</f>", "<f=sub>[1]</f>"} {
		accepted, err := g.Accepts(answer)
		fmt.Println(accepted, err, answer)
	}
	// Output:
	// not enforced: 0
	// true <nil> Let me add: <f=add>[1, 2]</f> Done.
	// true <nil> 3 < 4
	// false <nil> <f=add>one</f>
	// false <nil> <f=sub>[1]</f>
}
