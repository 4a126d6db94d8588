package kvevent_test

import (
	"fmt"
	"slices"

	"weir/router/kvevent"
	"weir/router/prefix"
)

// An engine stores two blocks and removes the second one. What it calls them is its own matter: the index gets keys of their tokens.
func Example() {
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	domain := kvevent.Domain(8, "")
	keys := domain.Chain(nil, tokens, 8) // of a prompt with the same tokens
	l := kvevent.NewLedger("llama", 1000)
	for _, e := range []kvevent.Event{
		{Kind: kvevent.Stored, Blocks: []kvevent.ID{{7}, {8}}, Tokens: tokens, BlockTokens: 8},
		{Kind: kvevent.Removed, Blocks: []kvevent.ID{{8}}},
	} {
		changes, err := l.Take(nil, &e)
		for _, c := range changes {
			fmt.Printf("stored: %v, key %d of the prompt\n", c.Kind == prefix.Stored, slices.Index(keys, c.Key)+1)
		}
		fmt.Println(l.Blocks(), "held:", err)
	}
	// Output:
	// stored: true, key 1 of the prompt
	// stored: true, key 2 of the prompt
	// 2 held: <nil>
	// stored: false, key 2 of the prompt
	// 1 held: <nil>
}
