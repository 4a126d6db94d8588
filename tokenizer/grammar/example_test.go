package grammar_test

import (
	"fmt"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
)

// An answer has to be yes or no, and a reason: of each token the matcher says whether it may come next.
func Example() {
	b := grammar.NewBuilder(grammar.Limits{})
	start, err := notation.GBNF(b, `root ::= ("yes" | "no") ", " [a-z]+ "."`)
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := b.Compile(start)
	if err != nil {
		fmt.Println(err)
		return
	}
	pieces := []string{"yes", "ye", "s", "maybe", ", ", "since", "."}
	var vocabulary [][]byte
	for _, p := range pieces {
		vocabulary = append(vocabulary, []byte(p))
	}
	m, err := g.Matcher(grammar.NewVocabulary(vocabulary, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []int32{1, 2, 4, 5, 6} { // what a model samples
		var allowed []string
		for next := range pieces {
			if m.Allows(int32(next)) {
				allowed = append(allowed, pieces[next])
			}
		}
		fmt.Printf("%q allowed, %q sampled\n", allowed, pieces[id])
		if err := m.Accept(id); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("complete:", m.Done())
	// Output:
	// ["yes" "ye"] allowed, "ye" sampled
	// ["s"] allowed, "s" sampled
	// [", "] allowed, ", " sampled
	// ["yes" "ye" "s" "maybe" "since"] allowed, "since" sampled
	// ["yes" "ye" "s" "maybe" "since" "."] allowed, "." sampled
	// complete: true
}

// Tokens of a draft are tried, and taken back from the first on that the model would not have said.
func ExampleMatcher_Rollback() {
	b := grammar.NewBuilder(grammar.Limits{})
	digit := b.Define("digit", []grammar.Symbol{b.Literal("0")}, []grammar.Symbol{b.Literal("1")})
	g, err := b.Compile(b.Repeat(digit, 3, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := g.Matcher(grammar.NewVocabulary([][]byte{[]byte("0"), []byte("1"), []byte("x")}, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Accept(0), m.Accept(1), m.Accept(2) != nil)
	m.Rollback(1)
	fmt.Println(m.Tokens(), m.Allows(1))
	// Output:
	// <nil> <nil> true
	// 1 true
}
