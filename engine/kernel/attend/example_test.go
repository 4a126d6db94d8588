package attend_test

import (
	"fmt"

	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/kvcache"
)

// Two tokens of a sequence are stored in block 3. The query looks like the first one's key, and so gets its value mostly.
func Example() {
	const dim = 32
	pages, err := attend.NewPages(attend.Tables{{Type: attend.KVF16, Layers: 1, KVHeads: 1, HeadDim: dim, BlockTokens: 16, Blocks: 4}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = pages.Close() }()
	kv := pages.Table(0)
	keys, values := make([]float32, 2*dim), make([]float32, 2*dim)
	keys[0], keys[dim+1] = 1, 1
	values[0], values[dim] = 100, 200
	a := attend.New(pool.Alone(), isa.Best())
	a.Store(kv, 0, keys, values, []attend.Place{{Block: 3, Token: 0, Position: 0}, {Block: 3, Token: 1, Position: 1}})

	q, out := make([]float32, dim), make([]float32, dim)
	q[0] = 3
	a.Attend(attend.Query{
		Out: out, Q: q, KV: kv, Heads: 1, Scale: 1,
		Spans: []attend.Span{{Count: 1, Start: 1, Blocks: []kvcache.BlockID{3}}}, // the row at position 1 sees both
	})
	fmt.Printf("%.0f\n", out[0])
	fmt.Println(kv.TokenBytes(), "bytes a token")
	// Output:
	// 105
	// 128 bytes a token
}
