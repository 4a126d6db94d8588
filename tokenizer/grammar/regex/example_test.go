package regex_test

import (
	"fmt"

	"weir/tokenizer/grammar/regex"
)

// An expression is put together: a word of small letters that is no keyword. It is read byte by byte as an automaton.
func Example() {
	word, err := regex.Parse("[a-z]+", regex.RE2)
	if err != nil {
		fmt.Println(err)
		return
	}
	name := regex.And(word, regex.Not(regex.Words("if", "else")))
	for _, text := range []string{"if", "iffy", "If"} {
		matches, err := name.Matches([]byte(text))
		fmt.Println(text, matches, err)
	}

	a, nodes, err := regex.NewAutomaton(name)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := nodes[0]
	for _, b := range []byte("ify") {
		if n, err = a.Derive(n, b); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%c: may end here: %v\n", b, a.Nullable(n))
	}
	// Output:
	// if false <nil>
	// iffy true <nil>
	// If false <nil>
	// i: may end here: true
	// f: may end here: false
	// y: may end here: true
}

// A schema's pattern may match anywhere in a text, others have to match the whole.
func ExampleParse() {
	for _, f := range []regex.Flavor{regex.JavaScript, regex.RE2} {
		r, err := regex.Parse("b+", f)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Matches([]byte("abbc")))
	}
	_, err := regex.Parse(`(?<=a)b`, regex.RE2)
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// the pattern has what is not served: a lookbehind at byte 2 of "(?<=a)b"
}

// The same texts as they stand between the quotes of a JSON string.
func ExampleSpelling() {
	s := regex.NewSpelling(func(b byte) string {
		if b == '"' || b == '\\' {
			return `\` + string(b)
		}
		return string([]byte{b})
	})
	r := s.Regex(regex.Literal(`say "a"`))
	fmt.Println(r.Text())
	// Output:
	// say \"a\" true
}
