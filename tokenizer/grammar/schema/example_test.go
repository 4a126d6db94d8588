package schema_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// lets reports whether a grammar lets a text through, byte by byte.
func lets(g *grammar.Grammar, text string) bool {
	bytes := make([][]byte, 256)
	for b := range bytes {
		bytes[b] = []byte{byte(b)}
	}
	vocabulary := grammar.NewVocabulary(bytes, nil)
	m, err := g.Matcher(vocabulary)
	if err != nil {
		return false
	}
	for _, b := range []byte(text) {
		if m.Accept(int32(b)) != nil {
			return false
		}
	}
	end, err := m.Mask(make([]uint64, vocabulary.Words()))
	return end && err == nil
}

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
		fmt.Println(answer, lets(g, answer))
	}
	for _, ignored := range report.Ignored {
		fmt.Println(ignored.Pointer, ignored.Reason)
	}
	_, _, err = schema.Add(grammar.NewBuilder(grammar.Limits{}), text, schema.Served(true))
	fmt.Println(err)
	// Output:
	// {"mail": "ä@ö.de", "age": 7} true
	// {"age": -7} false
	// {"mail": "ä@ö.de"} false
	// /properties/mail/format the format "idn-email" is not enforced; use pattern, or leave it out
	// json schema: "/properties/mail/format" (keyword "format"): the format "idn-email" is not enforced; use pattern, or leave it out
}
