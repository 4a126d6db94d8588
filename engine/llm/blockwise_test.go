package llm

import (
	"fmt"
	"slices"
	"testing"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/kvcache"
)

// twoSteps computes three prompts in one step and the token after each in a second one, and
// returns the hidden states of the first step's wanted rows and of the second step. On
// several threads the first step's rows, leastApart and more, pass through the layers in blocks.
func twoSteps(t *testing.T, m *model, level isa.Level, kvType attend.KVType, threads int, wanted []int) (first, second []float32) {
	t.Helper()
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	kv, err := attend.NewKV(attend.KVShape{Type: kvType, Layers: m.depth, KVHeads: m.kvHeads, HeadDim: m.headDim, BlockTokens: 16, Blocks: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	var b, after batch
	next := kvcache.BlockID(1)
	for s, n := range []int{181, 1, 213} {
		var blocks []kvcache.BlockID
		for range n/16 + 1 {
			blocks, next = append(blocks, next), next+1
		}
		tokens := make([]int32, n+1)
		for i := range tokens {
			tokens[i] = int32(i*i*7+i+11*s) % tinyVocab
		}
		b.add(tokens[:n], 0, blocks, 16)
		after.add(tokens[n:], n, blocks, 16)
		after.output = append(after.output, s)
	}
	b.output = wanted
	m.forward(c, kv, &b)
	m.forward(c, kv, &after)
	return b.hidden, after.hidden
}

// A row's hidden state has the same bits whichever others are wanted, and rows that nobody wants
// leave the same keys and values; in blocks on several threads as without.
func TestRowsThatNobodyWantsChangeNothing(t *testing.T) {
	all := make([]int, 395)
	for i := range all {
		all[i] = i
	}
	some := []int{3, 4, 6, 180, 181, 182, 394}
	types := []attend.KVType{attend.KVQ8, attend.KVF16}
	cases := []struct {
		wanted  []int
		threads int
	}{{some, 1}, {some, 2}, {all, 2}, {nil, 2}, {nil, 1}, {all[1:], 1}, {all[1:], 2}}
	if testing.Short() {
		types, cases = types[:1], cases[:3]
	}
	for _, f := range families {
		m := load(t, f.file(t))
		for _, level := range isa.Levels() {
			for _, kvType := range types {
				want, next := twoSteps(t, m, level, kvType, 1, all)
				for _, c := range cases {
					t.Run(fmt.Sprint(f.arch, f.typ, level, kvType, len(c.wanted), c.threads), func(t *testing.T) {
						got, after := twoSteps(t, m, level, kvType, c.threads, c.wanted)
						for i, r := range c.wanted {
							if !slices.Equal(got[i*m.width:(i+1)*m.width], want[r*m.width:(r+1)*m.width]) {
								t.Errorf("row %d has other bits", r)
							}
						}
						if !slices.Equal(after, next) {
							t.Error("the tokens after have other bits")
						}
					})
				}
			}
		}
	}
}

// Every row is in one block, and no block is much larger than a panel where rows end.
func TestBlocksCoverTheRows(t *testing.T) {
	m := load(t, families[0].file(t))
	for _, threads := range []int{2, 3} {
		c := kernel.NewCPU(threads, isa.Auto)
		defer c.Close()
		if !m.apart(c, leastApart) {
			t.Fatalf("no rows pass in blocks on %d threads", threads)
		}
		for rows := leastApart; rows <= 600; rows += 7 {
			b := batch{tokens: make([]int32, rows)}
			b.cut(m, c)
			at := 0
			for _, r := range b.blocks {
				if r.lo != at || r.rows() < 1 || r.rows() > blockRows {
					t.Fatalf("%d rows on %d threads: blocks %v", rows, threads, b.blocks)
				}
				at = r.hi
			}
			if at != rows || len(b.blocks) < threads {
				t.Fatalf("%d rows on %d threads: blocks %v", rows, threads, b.blocks)
			}
		}
	}
}
