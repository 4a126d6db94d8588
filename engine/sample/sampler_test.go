package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/inference"
)

func params(edit func(*Params)) Params {
	p := Params{Sampling: inference.DefaultSampling()}
	if edit != nil {
		edit(&p)
	}
	return p
}

// shares draws n tokens from fixed logits and returns each token's share.
func shares(t *testing.T, p Params, logits []float32, n int) []float64 {
	t.Helper()
	s, w, got := New(p, nil), &Scratch{}, make([]float64, len(logits))
	for range n {
		got[s.must(slices.Clone(logits), w)] += 1 / float64(n)
	}
	return got
}

func logs(probs ...float64) []float32 {
	out := make([]float32, len(probs))
	for i, p := range probs {
		out[i] = float32(math.Log(p))
	}
	return out
}

func TestGreedyTakesTheLowestOfEquals(t *testing.T) {
	s := New(params(func(p *Params) { p.Temperature = 0 }), nil)
	nan := float32(math.NaN())
	for _, c := range []struct {
		logits []float32
		want   inference.TokenID
	}{
		{[]float32{1, 3, 3, 2}, 1},
		{[]float32{nan, -5, nan}, 1},
		{[]float32{float32(math.Inf(-1)), -1}, 1},
	} {
		if got := s.must(slices.Clone(c.logits), &Scratch{}); got != c.want {
			t.Errorf("%v: token %d, want %d", c.logits, got, c.want)
		}
	}
}

func TestSharesFollowTheFilters(t *testing.T) {
	probs := []float64{0.1, 0.4, 0.2, 0.3}
	for _, c := range []struct {
		name string
		edit func(*Params)
		want []float64
	}{
		{"plain", nil, probs},
		{"temperature", func(p *Params) { p.Temperature = 0.5 }, []float64{1. / 30, 16. / 30, 4. / 30, 9. / 30}},
		{"top_k", func(p *Params) { p.TopK = 2 }, []float64{0, 4. / 7, 0, 3. / 7}},
		{"top_p", func(p *Params) { p.TopP = 0.75 }, []float64{0, 4. / 9, 2. / 9, 3. / 9}},
		{"top_p boundary", func(p *Params) { p.TopP = 0.39 }, []float64{0, 1, 0, 0}},
		{"min_p", func(p *Params) { p.MinP = 0.6 }, []float64{0, 4. / 7, 0, 3. / 7}},
		{"typical_p", func(p *Params) { p.TypicalP = 0.25 }, []float64{0, 0, 0, 1}},
		{"logit_bias", func(p *Params) { p.LogitBias = []inference.TokenBias{{ID: 1, Bias: -100}} },
			[]float64{1. / 6, 0, 2. / 6, 3. / 6}},
		{"top_k above vocabulary", func(p *Params) { p.TopK = 99 }, probs},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shares(t, params(c.edit), logs(probs...), 40000)
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 0.015 {
					t.Errorf("token %d: share %.3f, want %.3f", i, got[i], c.want[i])
				}
			}
		})
	}
}

func TestSeedFixesTheDraws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([][]float32, 50)
	for i := range rows {
		rows[i] = make([]float32, 300)
		for j := range rows[i] {
			rows[i][j] = float32(r.NormFloat64())
		}
	}
	run := func(seed uint64, choice int, w *Scratch) (out []inference.TokenID) {
		s := New(params(func(p *Params) { p.Seed, p.Choice, p.TopP = seed, choice, 0.95 }), nil)
		for _, row := range rows {
			out = append(out, s.must(slices.Clone(row), w))
		}
		return out
	}
	w := &Scratch{}
	if a, b := run(7, 0, w), run(7, 0, &Scratch{}); !slices.Equal(a, b) {
		t.Errorf("same seed, other text:\n%v\n%v", a, b)
	}
	if a, b := run(7, 0, w), run(8, 0, w); slices.Equal(a, b) {
		t.Error("seeds 7 and 8 drew the same 50 tokens")
	}
	if a, b := run(7, 1, w), run(8, 0, w); !slices.Equal(a, b) {
		t.Error("choice 1 of seed 7 is not choice 0 of seed 8")
	}
}

func TestPenalties(t *testing.T) {
	greedy := func(edit func(*Params), prompt []inference.TokenID, logits []float32) (out []inference.TokenID) {
		s := New(params(func(p *Params) { p.Temperature = 0; edit(p) }), prompt)
		for range 3 {
			out = append(out, s.must(slices.Clone(logits), &Scratch{}))
		}
		return out
	}
	for _, c := range []struct {
		name string
		got  []inference.TokenID
		want []inference.TokenID
	}{
		{"repetition counts the prompt", greedy(func(p *Params) { p.RepetitionPenalty = 2 }, []inference.TokenID{0},
			[]float32{3, 2, -1}), []inference.TokenID{1, 0, 0}},
		{"repetition lowers what is negative",
			greedy(func(p *Params) { p.RepetitionPenalty = 2 }, []inference.TokenID{0}, []float32{-1, -1.5, -1.9}),
			[]inference.TokenID{1, 2, 0}},
		{"presence counts once", greedy(func(p *Params) { p.PresencePenalty = 1 }, []inference.TokenID{0}, []float32{3, 2.5, 0}),
			[]inference.TokenID{0, 1, 0}},
		{"frequency adds up", greedy(func(p *Params) { p.FrequencyPenalty = 1 }, nil, []float32{3, 1.5, 0}),
			[]inference.TokenID{0, 0, 1}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestMinTokensMasksTheEnd(t *testing.T) {
	s := New(params(func(p *Params) { p.Temperature, p.MinTokens, p.End = 0, 2, []inference.TokenID{1} }), nil)
	var got []inference.TokenID
	for range 3 {
		got = append(got, s.must([]float32{0, 5, 1}, &Scratch{}))
	}
	if want := []inference.TokenID{2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestBestEqualsSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		c := make([]candidate, 1+r.IntN(200))
		for i := range c {
			c[i] = candidate{id: inference.TokenID(i), rank: float64(r.IntN(8))}
		}
		r.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		want := slices.Clone(c)
		slices.SortFunc(want, better)
		k := 1 + r.IntN(len(c))
		best(c, k)
		if !slices.Equal(c[:k], want[:k]) {
			t.Fatalf("best %d of %d: %v, want %v", k, len(c), c[:k], want[:k])
		}
	}
}

func TestLogprobs(t *testing.T) {
	logits := []float32{1, 3, 3, 2, -1}
	for i := range logits {
		logits[i] += 100 // the norm takes care
	}
	lp, top := (&Scratch{}).Logprob(logits, 3, 3)
	sum := math.Exp(1) + 2*math.Exp(3) + math.Exp(2) + math.Exp(-1)
	if want := 2 - math.Log(sum); math.Abs(float64(lp)-want) > 1e-5 {
		t.Errorf("logprob %v, want %v", lp, want)
	}
	if len(top) != 3 || top[0].ID != 1 || top[1].ID != 2 || top[2].ID != 3 {
		t.Errorf("top %v, want tokens 1, 2, 3", top)
	}
	if _, top := (&Scratch{}).Logprob(logits, 0, 0); top != nil {
		t.Errorf("top %v, want none", top)
	}
	if _, top := (&Scratch{}).Logprob(logits, 0, 20); len(top) != 5 {
		t.Errorf("%d alternatives of 5 tokens", len(top))
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	for name, edit := range map[string]func(*Params){
		"greedy":  func(p *Params) { p.Temperature = 0 },
		"plain":   nil,
		"top_p":   func(p *Params) { p.TopP, p.TopK, p.MinP = 0.9, 50, 0.01 },
		"typical": func(p *Params) { p.TypicalP = 0.9 },
	} {
		s, w := New(params(edit), nil), &Scratch{}
		row, logits := make([]float32, 1000), make([]float32, 1000)
		for i := range row {
			row[i] = float32(i%37) / 10
		}
		s.must(slices.Clone(row), w)
		if n := testing.AllocsPerRun(50, func() { copy(logits, row); s.must(logits, w) }); n > 0 {
			t.Errorf("%s: %v allocations per token", name, n)
		}
	}
}

func FuzzSample(f *testing.F) {
	f.Add([]byte{1, 2, 3}, float32(0.8), 3, float32(0.9), float32(0.1), float32(0.9))
	f.Add([]byte{255, 0}, float32(1e-30), 0, float32(1), float32(0), float32(1))
	f.Fuzz(func(t *testing.T, raw []byte, temp float32, k int, topP, minP, typical float32) {
		if len(raw) == 0 {
			return
		}
		logits := make([]float32, len(raw))
		for i, b := range raw {
			switch b {
			case 255:
				logits[i] = float32(math.Inf(1))
			case 254:
				logits[i] = float32(math.Inf(-1))
			case 253:
				logits[i] = float32(math.NaN())
			default:
				logits[i] = float32(b) - 100
			}
		}
		s := New(params(func(p *Params) {
			p.Temperature, p.TopK, p.TopP, p.MinP, p.TypicalP = temp, k, topP, minP, typical
		}), nil)
		for _, level := range isa.Levels() {
			if id := s.must(slices.Clone(logits), &Scratch{Level: level}); int(id) < 0 || int(id) >= len(logits) {
				t.Fatalf("token %d of %d", id, len(logits))
			}
		}
	})
}
