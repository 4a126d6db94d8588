package sample

import "weir/internal/inference"

// counts holds how often each token was seen. Penalties walk the list for each
// sampled token; the map gives a token's index in the list.
type counts struct {
	list []count
	at   map[inference.TokenID]int32
}

type count struct {
	id inference.TokenID
	n  int32
}

func (c *counts) add(id inference.TokenID) {
	i, seen := c.at[id]
	if seen {
		c.list[i].n++
		return
	}
	if c.at == nil {
		c.at = make(map[inference.TokenID]int32)
	}
	c.at[id] = int32(len(c.list))
	c.list = append(c.list, count{id, 1})
}
