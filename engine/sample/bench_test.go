package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/inference"
)

// vocabulary is that of Llama 3.
const vocabulary = 128256

// distributions are rows of logits as models give them and as they should not.
func distributions() map[string][]float32 {
	r := rand.New(rand.NewPCG(5, 6))
	peaky, flat, coarse := make([]float32, vocabulary), make([]float32, vocabulary), make([]float32, vocabulary)
	for i := range peaky {
		peaky[i] = float32(2.5*r.NormFloat64() - 2)
		flat[i] = float32(r.NormFloat64())
		coarse[i] = math.Float32frombits(math.Float32bits(flat[i]) &^ 0xffff) // bfloat16, full of ties
	}
	for i := range 60 { // a few tokens hold nearly all
		peaky[r.IntN(vocabulary)] = 18 - 2.2*float32(math.Log2(float64(i+1)))
	}
	return map[string][]float32{"peaky": peaky, "flat": flat, "coarse": coarse, "equal": make([]float32, vocabulary)}
}

func BenchmarkSample(b *testing.B) {
	prompt := make([]inference.TokenID, 4096)
	for i := range prompt {
		prompt[i] = inference.TokenID(i * 31 % vocabulary)
	}
	rows := distributions()
	for _, setting := range []struct {
		name string
		edit func(*Params)
	}{
		{"greedy", func(p *Params) { p.Temperature = 0 }},
		{"plain", nil},
		{"top_p", func(p *Params) { p.Temperature, p.TopP = 0.7, 0.9 }},
		{"top_k", func(p *Params) { p.TopK = 40 }},
		{"top_k_1000", func(p *Params) { p.TopK = 1000 }},
		{"min_p", func(p *Params) { p.MinP = 0.05 }},
		{"all", func(p *Params) { p.Temperature, p.TopK, p.TopP, p.MinP = 0.7, 40, 0.9, 0.05 }},
		{"typical", func(p *Params) { p.TypicalP = 0.9 }},
		{"penalties", func(p *Params) { p.RepetitionPenalty, p.PresencePenalty = 1.1, 0.5 }},
	} {
		for _, name := range []string{"peaky", "flat", "coarse", "equal"} {
			b.Run("setting="+setting.name+"/row="+name, func(b *testing.B) {
				s, w, logits := New(params(setting.edit), prompt), &Scratch{}, slices.Clone(rows[name])
				s.must(logits, w)
				b.ReportAllocs()
				for b.Loop() {
					copy(logits, rows[name]) // ten microseconds or so of the result
					s.must(logits, w)
				}
			})
		}
	}
}

func BenchmarkLogprob(b *testing.B) {
	for _, name := range []string{"peaky", "flat", "coarse", "equal"} {
		row := distributions()[name]
		b.Run("row="+name, func(b *testing.B) {
			w := &Scratch{}
			for b.Loop() {
				w.Logprob(row, 7, 5)
			}
		})
	}
}

func BenchmarkFinite(b *testing.B) {
	row, w := distributions()["flat"], &Scratch{}
	for b.Loop() {
		w.Finite(row)
	}
}
