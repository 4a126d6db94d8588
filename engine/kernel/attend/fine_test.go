package attend

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/kvcache"
)

// A sequence that is kept finely in the pages of a store that rounds has the bits of a store of float16, and leaves the others alone.
func TestFineBlocksHaveTheBitsOfF16(t *testing.T) {
	const kvHeads, heads, dim, length, chunk = 2, 4, 64, 1100, 300
	for _, c := range []struct {
		typ    KVType
		tokens int
	}{{KVQ8, 16}, {KVQ8, 32}, {KVQ8, 48}, {KVQ4, 16}, {KVQ4, 48}, {KVF16, 16}} {
		p, err := NewPages(Tables{{Type: c.typ, Layers: 2, KVHeads: kvHeads, HeadDim: dim, BlockTokens: c.tokens, Blocks: 8*length/c.tokens + 9}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i := range p.data {
			p.data[i] = 0xff // not finite, whatever it is taken for
		}
		coarse, fine, plain := p.Table(0), p.Finely().Table(0), newKV(t, KVF16, 16, length/16+2, kvHeads, dim)
		if s := (Tables{coarse.KVShape}).Finely()[0]; s != fine.KVShape || s.Type != KVF16 || fine.blockSize > coarse.blockSize {
			t.Errorf("%v: fine blocks have the shape %+v", c.typ, s)
		}
		d := newDevice(3, isa.Auto)
		defer d.Close()
		r := rand.New(rand.NewPCG(1, 2))
		near := newSequence(r, coarse, 2*c.tokens, coarse.Blocks-1)
		s := newSequence(r, fine, length, coarse.Blocks-3)
		near.store(d, coarse)
		before := slices.Clone(p.Page(near.blocks[0]))
		s.store(d, fine)
		for i, b := range s.blocks { // moved to other blocks, as a row copy does
			to := kvcache.BlockID(i + 1)
			fine.CopyRows(b, to, min(fine.BlockTokens, length-i*fine.BlockTokens))
			s.blocks[i] = to
		}
		own := *s
		own.place(plain, plain.Blocks-1)
		own.store(d, plain)
		if !slices.Equal(before, p.Page(near.blocks[0])) {
			t.Errorf("%v of %d tokens: a neighbour's block was written", c.typ, c.tokens)
		}
		for first := 0; first < length; first += chunk {
			n := min(chunk, length-first)
			q := randoms(r, n*heads*dim)
			look := func(kv *KV, layer int, blocks []kvcache.BlockID) []float32 {
				out := make([]float32, len(q))
				d.Attend(Query{Out: out, Q: q, KV: kv, Layer: layer, Heads: heads, Scale: 0.1, Spans: []Span{{Count: n, Start: first, Blocks: blocks}}})
				return out
			}
			if !slices.Equal(look(fine, 0, s.blocks), look(plain, 0, own.blocks)) {
				t.Errorf("%v of %d tokens: rows from %d on have other bits than those of f16", c.typ, c.tokens, first)
			}
		}
	}
}

// TestKeptTilesChangeNoBits: sequences that begin with the same blocks get the same bits whether or not workers keep what they joined of it, and what
// is stored at their places later is seen under another number.
func TestKeptTilesChangeNoBits(t *testing.T) {
	const kvHeads, heads, dim, shared, length, threads = 2, 6, 32, 700, 740, 3
	p, err := NewPages(Tables{{Type: KVQ8, Layers: 2, KVHeads: kvHeads, HeadDim: dim, BlockTokens: 16, Blocks: 6*length/8 + 9}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	kv := p.Finely().Table(0)
	d := newDevice(threads, isa.Auto)
	defer d.Close()
	r := rand.New(rand.NewPCG(5, 6))
	first := newSequence(r, kv, length, kv.Blocks-1)
	first.store(d, kv)
	forks := [][]kvcache.BlockID{first.blocks}
	for i := range 3 { // of other blocks behind the shared ones
		fork := newSequence(r, kv, length, kv.Blocks-1-(i+1)*len(first.blocks))
		fork.store(d, kv)
		forks = append(forks, slices.Concat(first.blocks[:shared/kv.BlockTokens], fork.blocks[shared/kv.BlockTokens:]))
	}
	look := func(reads uint64, start, n int) []float32 {
		var spans []Span
		for i, blocks := range forks {
			spans = append(spans, Span{Row: i * n, Count: n, Start: start, Blocks: blocks})
		}
		q := randoms(rand.New(rand.NewPCG(7, 8)), len(forks)*n*heads*dim)
		out := make([]float32, len(q))
		d.Attend(Query{Out: out, Q: q, KV: kv, Heads: heads, Scale: 0.1, Reads: reads, Spans: spans})
		return out
	}
	for reads := uint64(1); reads <= 3; reads++ {
		k, v := randoms(r, len(first.k)), randoms(r, len(first.v)) // others at the same places than under the number before
		const seen = 30
		width := kvHeads * dim
		copy(first.k, k[:seen*width])
		copy(first.v, v[:seen*width])
		first.store(d, kv)
		for i, rows := range []struct{ start, n int }{{seen - 3, 3}, {490, 30}, {shared - 5, 9}, {shared, 40}, {shared, 40}} {
			if i == 1 { // rows behind those that were looked at are stored after that
				first.k, first.v = k, v
				first.store(d, kv)
			}
			if !slices.Equal(look(reads, rows.start, rows.n), look(0, rows.start, rows.n)) {
				t.Errorf("number %d: rows from %d on have other bits where tiles are kept", reads, rows.start)
			}
		}
	}
}
