package llm

import (
	"fmt"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/reference"
	"weir/kvcache"
	"weir/scheduler"
)

// slider computes sequences as the engine does where windows pass: blocks behind a window go back to the pool, others overwrite them, and
// the table has the null block in their place.
type slider struct {
	t     *testing.T
	m     *model
	c     *kernel.CPU
	kv    *attend.Pages
	shape cacheShape
	next  kvcache.BlockID
	b     batch
}

const slidBlock = 16 // tokens

func newSlider(t *testing.T, m *model, level isa.Level, typ attend.KVType, threads, tokens int) *slider {
	t.Helper()
	shape := m.cacheShape.whole(typ, slidBlock, 4*tokens)
	kv, err := attend.NewPages(shape.Tables)
	if err != nil {
		t.Fatal(err)
	}
	s := &slider{t: t, m: m, c: kernel.NewCPU(threads, level), kv: kv, shape: shape, next: 1}
	m.formKeys(s.c, kv, tokens)
	for b := 1; b < shape.blocks(); b++ {
		s.spoil(kvcache.BlockID(b))
	}
	return s
}

func (s *slider) close() {
	s.c.Close()
	_ = s.kv.Close()
}

// spoil overwrites a block with what is no number in any type.
func (s *slider) spoil(b kvcache.BlockID) {
	page := s.kv.Page(b)
	for i := range page {
		page[i] = 0xff
	}
}

// tables are new block tables for so many tokens.
func (s *slider) tables(tokens int) [][]kvcache.BlockID {
	lists := make([][]kvcache.BlockID, len(s.shape.Tables))
	for i := range lists {
		lists[i] = s.grow(nil, tokens)
	}
	return lists
}

func (s *slider) grow(list []kvcache.BlockID, tokens int) []kvcache.BlockID {
	for len(list)*slidBlock < tokens {
		list, s.next = append(list, s.next), s.next+1
	}
	return list
}

// pass gives back what no row from rows on sees.
func (s *slider) pass(tables [][]kvcache.BlockID, rows int) {
	for i, w := range s.shape.windows {
		for k := 0; w > 0 && k < (rows-w+1)/slidBlock; k++ {
			if b := tables[i][k]; b != 0 {
				s.spoil(b)
				tables[i][k] = 0
			}
		}
	}
}

// step computes rows [from, to) of tokens, beside others if there are any, and leaves the logits in out.
func (s *slider) step(tokens []int32, from, to int, tables, others [][]kvcache.BlockID, out []float32) {
	m, b := s.m, &s.b
	b.reset()
	if others != nil {
		beside := slices.Clone(tokens[:to])
		slices.Reverse(beside)
		b.add(beside[from:], from, slidBlock, others...)
		s.pass(others, from)
	}
	row := b.add(tokens[from:to], from, slidBlock, tables...)
	for i := range to - from {
		b.output = append(b.output, row+i)
	}
	m.forward(s.c, s.kv, b)
	m.logits(s.c, out[from*m.vocab:], b.hidden, to-from)
}

// logits are those of all tokens: the first hit of them computed by another sequence, whose blocks a second one takes over as far as
// its windows see them, the last one by copying its rows.
func (s *slider) logits(tokens []int32, hit, chunk int, crowd bool) []float32 {
	out := make([]float32, len(tokens)*s.m.vocab)
	var others [][]kvcache.BlockID
	if crowd {
		others = s.tables(len(tokens))
	}
	tables := s.tables(hit)
	if hit > 0 {
		s.step(tokens, 0, hit, tables, nil, out)
		s.pass(tables, hit)
		for i := range tables {
			if cut := hit % slidBlock; cut > 0 {
				last := &tables[i][hit/slidBlock]
				s.kv.Table(i).CopyRows(*last, s.next, cut)
				s.spoil(*last)
				*last, s.next = s.next, s.next+1
			}
		}
	}
	for i := range tables {
		tables[i] = s.grow(tables[i], len(tokens))
	}
	for lo := hit; lo < len(tokens); lo += chunk {
		s.pass(tables, lo)
		s.step(tokens, lo, min(lo+chunk, len(tokens)), tables, others, out)
	}
	return out
}

// compareWindows runs tokens through a model whose windows pass, in chunks, behind hits and beside another sequence; the logits
// must have the bits of those that are computed whole.
func compareWindows(t *testing.T, m *model, level isa.Level, tokens []int32) {
	t.Helper()
	for _, typ := range []attend.KVType{attend.KVF32, attend.KVF16, attend.KVQ8, attend.KVQ4} {
		if m.cacheShape.sized(typ, slidBlock, 2).Check() != nil {
			continue // heads that the type cannot store
		}
		want := allLogits(t, m, level, tokens, typ, slidBlock, len(tokens), 2)
		for i, chunk := range []int{1, 7, 64, 65} {
			if chunk != 7 && shortAt(level) {
				continue
			}
			for _, hit := range []int{0, 37, 48} {
				if hit != 37 && (shortAt(level) || typ != attend.KVF32) {
					continue
				}
				s := newSlider(t, m, level, typ, 1+i%3, len(tokens))
				got := s.logits(tokens, hit, chunk, i%2 == 0)
				s.close()
				if !slices.Equal(got, want) {
					t.Errorf("%v, kv %v, chunks of %d after a hit of %d, beside others %v: other bits than whole%s", level, typ, chunk, hit, i%2 == 0,
						firstDifference(got, want, m.vocab))
				}
			}
		}
	}
}

// Layers that read another layer's keys have none to store, so that rows that are not wanted do not pass them: the others have the
// same bits.
func TestRowsBeforeSharedKeysAreLeftOut(t *testing.T) {
	dir := reference.Path(t, "architectures")
	m, tokens := openReference(t, dir, "gemma4-E"), readTokens(t, dir)
	if last := m.lastKeys(); last != len(m.layers)-3 {
		t.Fatalf("layer %d of %d is the last with keys of its own; the file shares those of two", last, len(m.layers))
	}
	for _, threads := range []int{1, 2} {
		whole := allLogits(t, m, isa.Best(), tokens, attend.KVF16, slidBlock, len(tokens), threads)
		s := newSlider(t, m, isa.Best(), attend.KVF16, threads, len(tokens))
		tables := s.tables(len(tokens))
		got := make([]float32, m.vocab)
		for _, part := range [][2]int{{0, 70}, {70, 71}, {71, len(tokens)}} {
			s.b.reset()
			s.b.add(tokens[part[0]:part[1]], part[0], slidBlock, tables...)
			s.b.output = append(s.b.output, part[1]-part[0]-1)
			m.forward(s.c, s.kv, &s.b)
			m.logits(s.c, got, s.b.hidden, 1)
			if !slices.Equal(got, whole[(part[1]-1)*m.vocab:part[1]*m.vocab]) {
				t.Errorf("%d threads: row %d has other bits where it is the only one", threads, part[1]-1)
			}
		}
		s.close()
	}
}

func firstDifference(got, want []float32, vocab int) string {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("; row %d first", i/vocab)
		}
	}
	return ""
}

// A sequence that goes on and on holds the blocks of its windows, and all of its rows only where a layer sees them.
func TestASequenceHoldsItsWindows(t *testing.T) {
	const window, prompt, output = 21, 20, 200
	m := tiny{arch: "gemma3", typ: gguf.TypeQ8_0, seed: 9, layers: 7, tied: true, norms: true, post: true, edit: windowOf("gemma3", window)}
	s := newStepper(t, m, Options{BlockTokens: slidBlock, Scheduler: scheduler.Config{PrefillChunk: slidBlock}})
	s.submit(t, greedy(repetitive(1, prompt), output))
	shape := s.model.cacheShape
	whole, windowed := 0, 0 // tables
	for _, w := range shape.windows {
		if w > 0 {
			windowed++
		} else {
			whole++
		}
	}
	if windowed == 0 || whole == 0 {
		t.Fatalf("%d tables see all, %d a window", whole, windowed)
	}
	rows := prompt
	for ; s.turn(); rows++ {
		covering := func(n int) int { return (n + slidBlock - 1) / slidBlock }
		if most := whole*(covering(rows)+1) + windowed*(covering(window-1)+2); s.pool.Stats().Referenced > most {
			t.Fatalf("after %d rows the sequence holds %d blocks, want at most %d", rows, s.pool.Stats().Referenced, most)
		}
	}
	if rows < prompt+output-10 {
		t.Errorf("the sequence ended after %d rows", rows)
	}
}
