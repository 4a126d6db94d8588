package sample

import "weir/internal/inference"

// counts tells how often each token was seen.
type counts map[inference.TokenID]int32

func (c *counts) add(id inference.TokenID) {
	if *c == nil {
		*c = make(counts)
	}
	(*c)[id]++
}
