package notation_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
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

// Read takes either notation: a clock's time in Lark's, and the same in GBNF.
func Example() {
	for _, text := range []string{
		"start: HOUR \":\" MINUTE\nHOUR: /[01][0-9]|2[0-3]/\nMINUTE: /[0-5][0-9]/\n",
		"root ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]\n",
	} {
		b := grammar.NewBuilder(grammar.Limits{})
		start, err := notation.Read(b, text)
		if err != nil {
			fmt.Println(err)
			return
		}
		g, err := b.Compile(start)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(accepts(g, "23:59"), accepts(g, "24:00"))
	}
	_, err := notation.GBNF(grammar.NewBuilder(grammar.Limits{}), "root ::= [0-9")
	fmt.Println(err)
	// Output:
	// true false
	// true false
	// the grammar is not valid: line 1, column 14: the grammar ends inside a literal or a class
}
