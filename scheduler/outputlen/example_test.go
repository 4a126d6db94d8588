package outputlen_test

import (
	"fmt"

	"weir/scheduler/outputlen"
)

// Most answers of a tenant had 80 tokens, far fewer than it allowed.
func Example() {
	l := outputlen.NewLengths()
	acme := l.Of("acme")
	const limit = 4096 // max_tokens
	fmt.Println("of what nothing is known:", l.Expected(acme, limit, 0))
	for range 90 {
		l.Learn("acme", limit, 80)
	}
	for range 10 {
		l.Learn("acme", limit, 500)
	}
	fmt.Println("of a new answer:", l.Expected(acme, limit, 0))
	fmt.Println("of one that has 100 tokens already:", l.Expected(acme, limit, 100))
	fmt.Println("of one that may have 10:", l.Expected(acme, 10, 0))
	means := l.Means()
	mean, _ := means.Of(limit)
	fmt.Printf("on average: %.0f\n", mean)
	// Output:
	// of what nothing is known: 256
	// of a new answer: 95
	// of one that has 100 tokens already: 511
	// of one that may have 10: 10
	// on average: 122
}
