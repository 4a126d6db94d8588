package llm

import (
	"fmt"
	"slices"
	"testing"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/reference"
	"weir/kvcache"
)

// twoSteps computes three prompts in one step and the token after each in a second one, and
// returns the hidden states of the first step's wanted rows and of the second step. On
// several threads the first step's rows pass through the layers in blocks.
func twoSteps(t *testing.T, m *model, level isa.Level, kvType attend.KVType, threads int, wanted []int) (first, second []float32) {
	t.Helper()
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	kv := smallKV(t, m, kvType)
	defer kv.Close()
	var b, after batch
	next := kvcache.BlockID(1)
	for s, n := range []int{181, 1, 213} {
		tables := make([][]kvcache.BlockID, len(m.cacheShape.Tables))
		for t := range tables {
			for range n/16 + 1 {
				tables[t], next = append(tables[t], next), next+1
			}
		}
		tokens := make([]int32, n+1)
		for i := range tokens {
			tokens[i] = int32(i*i*7+i+11*s) % tinyVocab
		}
		b.add(tokens[:n], 0, 16, tables...)
		after.add(tokens[n:], n, 16, tables...)
		after.output = append(after.output, s)
	}
	b.output = wanted
	m.forward(c, kv, &b)
	m.forward(c, kv, &after)
	return b.hidden, after.hidden
}

func smallKV(t *testing.T, m *model, typ attend.KVType) *attend.Pages {
	t.Helper()
	kv, err := attend.NewPages(m.cacheShape.sized(typ, 16, 32*len(m.cacheShape.Tables)).Tables)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// texts is a batch of texts of which every row sees all.
func texts(lengths ...int) *batch {
	var b batch
	next := kvcache.BlockID(1)
	for s, n := range lengths {
		var blocks []kvcache.BlockID
		for range n/16 + 1 {
			blocks, next = append(blocks, next), next+1
		}
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(i*i*5+i+13*s) % tinyVocab
		}
		for r := b.addText(tokens, nil, false, 16, blocks); r < len(b.tokens); r++ {
			b.output = append(b.output, r)
		}
	}
	return &b
}

// A block whose rows see all of their text waits for all of it.
func TestBlocksOfTextsSeeAllOfThem(t *testing.T) {
	m := load(t, families[0].file(t))
	var want []float32
	for _, threads := range []int{1, 2, 3} {
		c, kv, b := kernel.NewCPU(threads, isa.Auto), smallKV(t, m, attend.KVF16), texts(9, 150, 200, 30)
		m.forward(c, kv, b)
		c.Close()
		_ = kv.Close()
		if want == nil {
			want = b.hidden
			continue
		}
		if !slices.Equal(b.hidden, want) {
			t.Errorf("%d threads: other bits than on one", threads)
		}
		for i, last := range b.line.needs {
			r := b.blocks[i]
			for _, s := range b.spans() {
				if s.Row < r.hi && s.Row+s.Count > r.lo && b.blocks[last].hi < s.Row+s.Count {
					t.Errorf("%d threads: block %v waits for %v, its text ends at %d", threads, r, b.blocks[last], s.Row+s.Count)
				}
			}
		}
	}
}

// No task writes to a block of the cache that is read: blocks of rows wait for all that write there.
func TestBlocksWaitForWhatTheyRead(t *testing.T) {
	b := batch{blocks: []block{{0, 12}, {12, 24}, {24, 36}, {36, 60}, {60, 72}}}
	b.tables = []tableRows{{spans: []attend.Span{{Row: 0, Count: 30, Start: 7}, {Row: 30, Count: 1, Start: 50}, {Row: 31, Count: 19, Whole: 19}, {Row: 50, Count: 22, Start: 100}}}}
	// Positions of the blocks' last rows: 18, 30, 36 (its text's end), all of 19, 121; the cache's blocks have 16 tokens.
	if got, want := b.needs(nil, 16), []int{2, 2, 3, 4, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Rounds that end early, because somebody else wants the pool all the time, go on where they ended, and each of them gets on.
func TestPausedBlocksGoOn(t *testing.T) {
	m := load(t, families[0].file(t))
	c, kv, b, plain := kernel.NewCPU(2, isa.Auto), smallKV(t, m, attend.KVF16), texts(400), texts(400)
	defer c.Close()
	defer kv.Close()
	m.forward(c, kv, plain)
	m.begin(c, b, len(b.tokens))
	b.cut(m, c)
	j := &pipeline{}
	j.begin(m, c, kv, b, len(m.layers))
	j.wanted = func() bool { return true }
	rounds := 0
	for ; j.next < j.end; rounds++ {
		before := j.next
		if j.round(); j.next == before {
			t.Fatal("a round did nothing")
		}
	}
	m.hiddenStates(c, b)
	if rounds < len(m.layers) || !slices.Equal(b.hidden, plain.hidden) {
		t.Errorf("%d rounds of %d stages of blocks, the same bits: %v", rounds, j.end, slices.Equal(b.hidden, plain.hidden))
	}
}

// A panic in one block ends the round, also of workers that wait for the block, and a later step is sound.
func TestAPanicEndsThePipeline(t *testing.T) {
	m := load(t, families[0].file(t))
	c, kv := kernel.NewCPU(3, isa.Auto), smallKV(t, m, attend.KVF16)
	defer c.Close()
	defer kv.Close()
	want, b := texts(400), texts(400)
	m.forward(c, kv, want)
	blocks := b.spans()[0].Blocks
	b.spans()[0].Blocks = blocks[:3] // attention runs out of them
	func() {
		defer func() {
			if recover() == nil {
				t.Error("rows beyond their blocks attended")
			}
		}()
		m.forward(c, kv, b)
	}()
	b.spans()[0].Blocks = blocks
	if m.forward(c, kv, b); !slices.Equal(b.hidden, want.hidden) {
		t.Error("other bits after a panic")
	}
}

// A row's hidden state has the same bits whichever others are wanted, and rows that are not wanted
// leave the same keys and values; in blocks on several threads as without. Models take turns with the types of caches, but in long runs.
func TestRowsThatNoOneWantsChangeNothing(t *testing.T) {
	reference.Slow(t)
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
	for i, f := range families {
		m := load(t, f.file(t))
		for _, level := range levels() {
			types, cases := types, cases
			if shortAt(level) || i%3 != 0 && !reference.Long() {
				cases = cases[:3]
			}
			if shortAt(level) && level == isa.Portable {
				cases = cases[1:2]
			}
			if !reference.Long() {
				types = types[i%2:][:1]
			}
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

// Every row is in one block, and there are enough blocks for all workers.
func TestBlocksCoverTheRows(t *testing.T) {
	m := load(t, families[0].file(t))
	for _, threads := range []int{2, 3} {
		c := kernel.NewCPU(threads, isa.Auto)
		defer c.Close()
		least := 2 * threads * leastBlockRows
		if m.apart(c, least-1) || !m.apart(c, least) {
			t.Fatalf("%d threads: %d rows pass in blocks, %d do not", threads, least-1, least)
		}
		for rows := least; rows <= 600; rows += 7 {
			b := batch{tokens: make([]int32, rows)}
			b.cut(m, c)
			at := 0
			for _, r := range b.blocks {
				if r.lo != at || r.rows() < 1 || r.rows() > mostBlockRows {
					t.Fatalf("%d rows on %d threads: blocks %v", rows, threads, b.blocks)
				}
				at = r.hi
			}
			if at != rows || len(b.blocks) < 2*threads {
				t.Fatalf("%d rows on %d threads: blocks %v", rows, threads, b.blocks)
			}
		}
	}
}
