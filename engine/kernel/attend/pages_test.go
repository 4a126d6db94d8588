package attend

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/reference"
	"weir/kvcache"
)

// Tables of other heads share pages, and none sees what the others store: each gives the bits of a store of its own.
func TestTablesOfOtherHeadsSharePages(t *testing.T) {
	const length, heads = 70, 4
	for _, typ := range kvTypes {
		shapes := Tables{{Layers: 3, KVHeads: 1, HeadDim: 128}, {Layers: 4, KVHeads: 2, HeadDim: 32}, {Layers: 1, KVHeads: 2, HeadDim: 256}}.Sized(typ, 16, 16)
		p, err := NewPages(shapes)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i := range p.data {
			p.data[i] = 0xff
		}
		if got, want := p.PageBytes(), 2*shapes[2].tileBytes(); got != want {
			t.Errorf("%v: pages of %d bytes, want those of the largest table, %d", typ, got, want)
		}
		c := newDevice(2, isa.Auto)
		defer c.Close()
		r, last := rand.New(rand.NewPCG(1, 2)), 15
		attend := func(kv *KV, layer int, s *sequence, q []float32) []float32 {
			out := make([]float32, len(q))
			c.Attend(Query{Out: out, Q: q, KV: kv, Layer: layer, Heads: heads, Scale: 0.1, Spans: []Span{{Count: length, Blocks: s.blocks}}})
			return out
		}
		var check []func() bool
		for i, shape := range shapes {
			kv, alone, layer := p.Table(i), newKV(t, typ, 16, 16, shape.KVHeads, shape.HeadDim), shape.Layers-1
			s, q := newSequence(r, kv, length, last), randoms(r, length*heads*shape.HeadDim)
			places := make([]Place, length)
			for pos := range places {
				places[pos] = Place{s.blocks[pos/16], pos % 16, pos}
			}
			c.Store(kv, layer, s.k, s.v, places)
			c.Store(alone, 0, s.k, s.v, places)
			check = append(check, func() bool { return slices.Equal(attend(kv, layer, s, q), attend(alone, 0, s, q)) })
			last -= len(s.blocks)
		}
		for i, same := range check {
			if !same() {
				t.Errorf("%v: table %d gives other bits than a store of its own", typ, i)
			}
		}
	}
}

func TestTablesThatCannotSharePagesAreRefused(t *testing.T) {
	good := KVShape{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 32, BlockTokens: 16, Blocks: 4}
	other := func(change func(s *KVShape)) Tables {
		s := good
		change(&s)
		return Tables{good, s}
	}
	for want, tables := range map[string]Tables{
		"no table":      {},
		"in q8_0":       other(func(s *KVShape) { s.Type = KVQ8 }),
		"of 32 tokens":  other(func(s *KVShape) { s.BlockTokens = 32 }),
		"has 5 blocks":  other(func(s *KVShape) { s.Blocks = 5 }),
		"of 0 values":   other(func(s *KVShape) { s.HeadDim = 0 }),
		"with -1 heads": other(func(s *KVShape) { s.KVHeads = -1 }),
	} {
		if _, err := NewPages(tables); !errors.Is(err, ErrKVShape) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// Blocks behind the window of a chunk's first row are given back: the table has the null block there, and what the blocks hold then
// is of others. Rows have the bits that they have where all is kept, whatever the chunks and workers.
func TestWhatIsBehindAWindowIsNotRead(t *testing.T) {
	reference.Slow(t)
	const heads, kvHeads, dim, length, blockTokens = 4, 2, 32, 1300, 16
	for _, level := range isa.Levels() {
		reaches := []int{1, 90, 511, 800}
		if level != isa.Best() && !reference.Long() {
			reaches = reaches[1:2] // whatever the level, the same code plans
		}
		for _, typ := range kvTypes {
			r := rand.New(rand.NewPCG(5, 7))
			n := (length + blockTokens - 1) / blockTokens
			kv := newKV(t, typ, blockTokens, n+1, kvHeads, dim)
			clear(kv.data[:kv.pageSize])
			s, q := newSequence(r, kv, length, n), randoms(r, length*heads*dim)
			if typ.rounds() {
				kv.SetKeyForm(0, KeyForm{Centers: randoms(r, 6*kvHeads*dim)})
			}
			for _, reach := range reaches {
				run := func(threads, chunk int, slide bool) []float32 {
					c := newDevice(threads, level)
					defer c.Close()
					s.place(kv, n)
					s.store(c, kv)
					got := make([]float32, len(q))
					for lo := 0; lo < length; lo += chunk {
						for i := 0; slide && i < (lo-reach)/blockTokens; i++ {
							s.spoil(kv, i)
						}
						c.Attend(Query{Out: got, Q: q, KV: kv, Heads: heads, Scale: 0.2, Reach: reach, Spans: []Span{
							{Row: lo, Count: min(chunk, length-lo), Start: lo, Blocks: s.blocks},
						}})
					}
					return got
				}
				want := run(1, length, false)
				for _, cut := range [][2]int{{1, 700}, {2, 65}, {8, 333}} {
					if !slices.Equal(run(cut[0], cut[1], true), want) {
						t.Errorf("%v %v, a window of %d, %d threads, chunks of %d: other bits", level, typ, reach+1, cut[0], cut[1])
					}
				}
			}
		}
	}
}

// spoil gives a block back, and overwrites it.
func (s *sequence) spoil(kv *KV, i int) {
	if b := s.blocks[i]; b != 0 {
		page := kv.data[int(b)*kv.pageSize:][:kv.pageSize]
		for k := range page {
			page[k] = 0xff
		}
		s.blocks[i] = 0
	}
}

// A row costs the segments that its window touches.
func TestSegmentsBehindAWindowAreNotPlanned(t *testing.T) {
	kv := newKV(t, KVF16, 16, 2, 1, 32)
	for _, c := range []struct{ start, count, reach, from, to int }{
		{10000, 1, 0, 0, 20}, {10000, 1, 511, 18, 20}, {10000, 1, 100, 19, 20}, {10000, 600, 511, 18, 21}, {100, 1, 511, 0, 1},
	} {
		j := attendJob{Query: Query{KV: kv, Reach: c.reach}, group: 1}
		tile := Span{Start: c.start, Count: c.count, Blocks: make([]kvcache.BlockID, 700)}
		if from, to := j.segments(tile); from != c.from || to != c.to {
			t.Errorf("%+v: segments %d to %d", c, from, to)
		}
		j.plan([]Span{tile}, 1)
		first, last := j.parts[0], j.parts[len(j.parts)-1]
		if first.from != c.from || last.to != c.to {
			t.Errorf("%+v: parts from %d to %d", c, first.from, last.to)
		}
	}
}
