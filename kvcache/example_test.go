package kvcache_test

import (
	"fmt"

	"weir/internal/inference"
	"weir/kvcache"
)

// A sequence takes blocks for its rows, publishes the full ones and leaves them in the prefix cache, where the next
// sequence with the same prefix finds them.
func Example() {
	p, err := kvcache.New(kvcache.Config{Blocks: 9, BlockTokens: 4, ModelDigest: "sha256:…", KVType: "f16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := p.Domain("alice")
	ids := []inference.TokenID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	var copies []kvcache.Copy // row copies that the engine executes before it computes
	for range 2 {
		var t kvcache.Table
		p.Begin(&t, d)
		hit := p.Match(d, ids, len(ids)-1) // one row is left to compute
		if !p.Grow(&t, len(ids), hit, &copies) {
			fmt.Println("no blocks")
			return
		}
		fmt.Printf("rows %d to %d are computed, in blocks %v\n", t.Tokens(), len(ids), t.Blocks(0))
		p.Commit(&t, ids, len(ids))
		p.Release(&t)
	}
	fmt.Println(p.FreeNow(), "of", p.Usable(), "blocks may be handed out:", p.Check())
	// Output:
	// rows 0 to 10 are computed, in blocks [1 2 3]
	// rows 8 to 10 are computed, in blocks [1 2 3]
	// 8 of 8 blocks may be handed out: <nil>
}

// Prefixes are shared within a domain only.
func ExamplePool_Match() {
	p, err := kvcache.New(kvcache.Config{Blocks: 9, BlockTokens: 4, ModelDigest: "sha256:…", KVType: "f16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var t kvcache.Table
	var copies []kvcache.Copy
	ids := []inference.TokenID{1, 2, 3, 4, 5}
	p.Begin(&t, p.Domain("alice"))
	p.Grow(&t, len(ids), kvcache.Hit{}, &copies)
	p.Commit(&t, ids, len(ids))
	for _, tenant := range []string{"alice", "bob"} {
		fmt.Println(tenant, p.Match(p.Domain(tenant), ids, 4).Tokens)
	}
	p.Release(&t)
	// Output:
	// alice 4
	// bob 0
}

// The two choices of a request share their prompt's blocks. Each gets a copy of the last block, which is not full, when
// it writes to it.
func ExamplePool_Fork() {
	p, err := kvcache.New(kvcache.Config{Blocks: 9, BlockTokens: 4, ModelDigest: "sha256:…", KVType: "f16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var first, second kvcache.Table
	var copies []kvcache.Copy
	ids := []inference.TokenID{1, 2, 3, 4, 5, 6}
	p.Begin(&first, p.Domain("alice"))
	p.Grow(&first, 6, kvcache.Hit{}, &copies)
	p.Commit(&first, ids, 6)
	p.Fork(&second, &first)
	p.Grow(&second, 7, kvcache.Hit{}, &copies)
	fmt.Println(first.Blocks(0), second.Blocks(0), "copies:", len(copies))
	// Output:
	// [1 2] [1 3] copies: 1
}
