package schema_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// An answer has to be an object that fits a schema. What cannot be enforced is reported, or refused with Strict.
func Example() {
	text := []byte(`{"type": "object", "required": ["age"], "properties": {
		"mail": {"type": "string", "format": "idn-email"}, "age": {"type": "integer", "minimum": 0}}}`)
	b := grammar.NewBuilder(grammar.Limits{})
	start, report, err := schema.Add(b, text, schema.Served(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := b.Compile(start)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, answer := range []string{`{"mail": "ä@ö.de", "age": 7}`, `{"age": -7}`, `{"mail": "ä@ö.de"}`} {
		accepted, err := g.Accepts(answer)
		fmt.Println(answer, accepted, err)
	}
	for _, ignored := range report.Ignored {
		fmt.Println(ignored.Pointer, ignored.Reason)
	}
	_, _, err = schema.Add(grammar.NewBuilder(grammar.Limits{}), text, schema.Served(true))
	fmt.Println(err)
	// Output:
	// {"mail": "ä@ö.de", "age": 7} true <nil>
	// {"age": -7} false <nil>
	// {"mail": "ä@ö.de"} false <nil>
	// /properties/mail/format the format "idn-email" is not enforced; use pattern, or leave it out
	// json schema: "/properties/mail/format" (keyword "format"): the format "idn-email" is not enforced; use pattern, or leave it out
}
