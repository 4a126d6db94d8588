package notation_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
)

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
		for _, time := range []string{"23:59", "24:00"} {
			fmt.Println(g.Accepts(time))
		}
	}
	_, err := notation.GBNF(grammar.NewBuilder(grammar.Limits{}), "root ::= [0-9")
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
	// false <nil>
	// the grammar is not valid: line 1, column 14: the grammar ends inside a literal or a class
}
