package pii_test

import (
	"fmt"

	"weir/internal/pii"
)

// All addresses of a text are replaced: each search goes on behind the match before.
func Example() {
	text := "Write to ann@example.com or bob@example.org, not to me@home."
	var out string
	from := 0
	for {
		start, end := pii.FindEmail(text, from)
		if start < 0 {
			break
		}
		out += text[from:start] + "[email]"
		from = end
	}
	fmt.Println(out + text[from:])
	// Output:
	// Write to [email] or [email], not to me@home.
}

// Numbers are told apart by their check digits.
func ExampleIsCard() {
	fmt.Println(pii.IsCard("4111 1111 1111 1111"), pii.IsCard("4111 1111 1111 1112"))
	fmt.Println(pii.IsIBAN("DE89 3704 0044 0532 0130 00"), pii.IsIBAN("DE88 3704 0044 0532 0130 00"))
	// Output:
	// true false
	// true false
}
