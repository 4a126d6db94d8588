package tag_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/tag"
)

// accepts reports whether a grammar lets a text through, byte by byte.
func accepts(g *grammar.Grammar, text string) bool {
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
		fmt.Println(accepts(g, answer), answer)
	}
	// Output:
	// not enforced: 0
	// true Let me add: <f=add>[1, 2]</f> Done.
	// true 3 < 4
	// false <f=add>one</f>
	// false <f=sub>[1]</f>
}
