package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/internal/inference"
	"weir/internal/reference"
)

// masked reports by definition whether a token may not be sampled next: it reads
// the whole output and tries every rule.
func masked(p Params, output []inference.TokenID, id inference.TokenID) bool {
	if len(p.AllowedTokens) > 0 && !slices.Contains(p.AllowedTokens, id) {
		return true
	}
	if len(output) < p.MinTokens && slices.Contains(p.End, id) {
		return true
	}
	next := append(slices.Clone(output), id)
	return slices.ContainsFunc(p.BadWords, func(word []inference.TokenID) bool {
		return len(word) <= len(next) && slices.Equal(word, next[len(next)-len(word):])
	})
}

// someMasks picks ids from few tokens, so that words overlap and are met, and
// rules contradict one another now and then.
func someMasks(r *rand.Rand, vocabulary int) (allowed []inference.TokenID, words [][]inference.TokenID) {
	some := func(n int) (ids []inference.TokenID) {
		for range n {
			ids = append(ids, r.Int32N(int32(min(vocabulary, 12))))
		}
		return ids
	}
	if r.IntN(2) == 0 {
		allowed = some(1 + r.IntN(5))
		if r.IntN(2) == 0 {
			allowed = append(allowed, r.Int32N(int32(vocabulary)))
		}
	}
	for range r.IntN(6) {
		words = append(words, some(1+r.IntN(4)))
	}
	return allowed, words
}

// A sampler with masks draws what one without them draws from a row that was
// masked by definition.
func TestMasksEqualTheDefinition(t *testing.T) {
	for _, level := range isa.Levels() {
		r, w := rand.New(rand.NewPCG(31, 32)), &Scratch{Level: level}
		completions, nothingLeft := 0, 0
		for round := range reference.Repeats(100, 400, 400) {
			vocabulary := 2 + r.IntN(30)
			if round%4 == 0 {
				vocabulary = 2 + r.IntN(3*vector.ReduceBlock)
			}
			p := someParams(r)
			p.AllowedTokens, p.BadWords = someMasks(r, vocabulary)
			p.Seed, p.MinTokens, p.End = r.Uint64(), r.IntN(4), []inference.TokenID{0, 1}
			if r.IntN(3) == 0 {
				p.Temperature = 0
			}
			if r.IntN(3) == 0 {
				p.RepetitionPenalty, p.PresencePenalty = 1.2, 0.3
			}
			bare := p
			bare.AllowedTokens, bare.BadWords, bare.MinTokens = nil, nil, 0
			got, want := New(p, nil), New(bare, nil)
			var output []inference.TokenID
			for range 24 {
				row := make([]float32, vocabulary)
				for i := range row {
					row[i] = float32(3 * r.NormFloat64())
				}
				if r.IntN(5) == 0 {
					row[r.IntN(vocabulary)] = float32(math.NaN())
				}
				reference, left := slices.Clone(row), 0
				for i, l := range row {
					if masked(p, output, inference.TokenID(i)) {
						reference[i] = float32(math.Inf(-1))
						completions++
					} else if l == l {
						left++
					}
				}
				a, b := got.must(row, w), want.must(reference, w)
				if left == 0 {
					nothingLeft++
					if len(p.AllowedTokens) > 0 && !slices.Contains(p.AllowedTokens, a) {
						t.Fatalf("%v, round %d: token %d, of which none is left, is not among the allowed %v", level, round, a, p.AllowedTokens)
					}
					break // the two go different ways from here
				}
				if a != b || masked(p, output, a) {
					t.Fatalf("%v, round %d, after %v: token %d, want %d; allowed %v, bad words %v, %+v",
						level, round, output, a, b, p.AllowedTokens, p.BadWords, p.Sampling)
				}
				output = append(output, a)
			}
		}
		if completions < 1000 || nothingLeft == 0 {
			t.Errorf("%v: %d tokens masked, %d rows with nothing left: too few to show anything", level, completions, nothingLeft)
		}
	}
}

// Masks cost no memory once the scratch has grown.
func TestMasksDoNotAllocate(t *testing.T) {
	const vocabulary = 4000
	p := params(func(p *Params) {
		p.TopP = 0.9
		for i := range inference.TokenID(300) {
			p.AllowedTokens = append(p.AllowedTokens, 7*i)
			p.BadWords = append(p.BadWords, []inference.TokenID{7 * i, 14, 21})
		}
	})
	s, w, logits := New(p, nil), &Scratch{}, make([]float32, vocabulary)
	step := func() {
		for i := range logits {
			logits[i] = float32(i % 17)
		}
		s.must(logits, w)
	}
	step()
	if n := testing.AllocsPerRun(200, step); n > 0 {
		t.Errorf("%v allocations per token", n)
	}
}

// What masks cost beside a plain draw: a pass over the row at most.
func BenchmarkMasks(b *testing.B) {
	rows := distributions()
	for _, allowed := range []int{0, 100, 10000} {
		for _, words := range []int{0, 100} {
			b.Run(fmt.Sprintf("allowed=%d/words=%d", allowed, words), func(b *testing.B) {
				p := params(func(p *Params) {
					for i := range inference.TokenID(allowed) {
						p.AllowedTokens = append(p.AllowedTokens, 11*i)
					}
					for i := range inference.TokenID(words) {
						p.BadWords = append(p.BadWords, []inference.TokenID{i, i + 1, i + 2})
					}
				})
				s, w, logits := New(p, nil), &Scratch{}, slices.Clone(rows["peaky"])
				s.must(logits, w)
				b.ReportAllocs()
				for b.Loop() {
					copy(logits, rows["peaky"])
					s.must(logits, w)
				}
			})
		}
	}
}
