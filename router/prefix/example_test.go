package prefix_test

import (
	"fmt"
	"strings"
	"time"

	"weir/router/prefix"
)

// A router keys each prompt, asks which replica holds most of it, and notes where it sends it.
func Example() {
	ix, err := prefix.New(prefix.Config{Replicas: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	root := prefix.NewRoot("llama-3", "acme")
	keys := func(question string) []prefix.Key {
		c := root.Begin(nil)
		c.Part("system", strings.Repeat("You answer questions about ships. ", 30))
		c.Part("user", strings.Repeat(question+" ", 20))
		return c.Keys()
	}

	first := keys("What is a weir?")
	ix.Put(2, first, 0, 0, time.Minute) // replica 2 has been given it
	ix.Confirm(2, first)                // and has begun to answer: it has computed the prompt

	second := keys("What is a lock?")
	for _, m := range ix.Lookup(make([]prefix.Match, 0, 2), second, 0) {
		fmt.Printf("replica %d holds %d of %d keys\n", m.Replica, m.Depth, len(second))
	}
	fmt.Println(ix.Check())
	// Output:
	// replica 2 holds 4 of 5 keys
	// <nil>
}

// A replica tells what it holds by events with numbers. Where some are missing, the error says which.
func ExampleIndex_Apply() {
	ix, err := prefix.New(prefix.Config{Replicas: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := prefix.NewRoot("llama-3", "acme").Begin(nil)
	c.Part("user", strings.Repeat("Once upon a time. ", 40))
	keys := c.Keys()

	fmt.Println(ix.Apply(0, prefix.Event{Epoch: 7, Seq: 1, Kind: prefix.Stored, Key: keys[0]}))
	fmt.Println(ix.Apply(0, prefix.Event{Epoch: 7, Seq: 4, Kind: prefix.Stored, Key: keys[1], Parent: keys[0]}))
	fmt.Println("held:", ix.Depth(0, keys))
	// Output:
	// <nil>
	// events of replica 0: number 4 came after 1: fetch epoch=7&after=1
	// held: 1
}
