package sample

import "weir/internal/inference"

// counts tells how often each token was seen. The list is what a penalty walks
// for each token of output; the map finds a token in it.
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
