package sample

import (
	"cmp"
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

// defined filters weights as the filters are defined, by sorting all of them:
// the kept ids in rising order.
func defined(weights []float32, p Params) []inference.TokenID {
	var cand []candidate
	for i, x := range weights {
		if x > 0 && x >= min(p.MinP, 1) {
			cand = append(cand, candidate{inference.TokenID(i), x, float64(x)})
		}
	}
	slices.SortFunc(cand, better)
	if p.TopK > 0 {
		cand = cand[:min(p.TopK, len(cand))]
	}
	total := func() (sum float64) {
		for _, c := range cand {
			sum += c.rank
		}
		return sum
	}
	until := func(share float32) {
		goal, sum := total()*float64(share), 0.0
		for i, c := range cand {
			if sum += float64(c.weight); sum >= goal {
				cand = cand[:i+1]
				return
			}
		}
	}
	if p.TypicalP < 1 {
		all, entropy := total(), 0.0
		for _, c := range cand {
			entropy -= c.rank / all * math.Log(c.rank/all)
		}
		odd := func(c candidate) float64 { return math.Abs(-math.Log(float64(c.weight)/all) - entropy) }
		slices.SortFunc(cand, func(a, b candidate) int { return cmp.Or(cmp.Compare(odd(a), odd(b)), cmp.Compare(a.id, b.id)) })
		until(p.TypicalP)
		slices.SortFunc(cand, better)
	}
	if p.TopP < 1 {
		until(p.TopP)
	}
	ids := make([]inference.TokenID, len(cand))
	for i, c := range cand {
		ids[i] = c.id
	}
	slices.Sort(ids)
	return ids
}

// someRow is a row of a length and kind that r picks: from one token to more
// than windows and blocks, peaky to flat, with ties, masked tokens and NaN.
func someRow(r *rand.Rand) []float32 {
	n := 1 + r.IntN(40)
	if r.IntN(2) == 0 {
		n = 1 + r.IntN(12*vector.ReduceBlock)
	}
	x, spread := make([]float32, n), math.Pow(10, 3*r.Float64()-2)
	grain := []float64{0, 0, 0.01, 0.5, 5}[r.IntN(5)]
	for i := range x {
		v := r.NormFloat64() * spread
		if grain > 0 {
			v = math.Round(v/grain) * grain
		}
		if x[i] = float32(v); i > 0 && r.IntN(30) == 0 {
			x[i] = []float32{float32(math.Inf(-1)), float32(math.NaN()), -100, x[i-1]}[r.IntN(4)]
		}
	}
	return x
}

// someParams switches each filter on half of the time.
func someParams(r *rand.Rand) Params {
	return params(func(p *Params) {
		p.Temperature = []float32{1, 0.7, 0.01, 2, 50}[r.IntN(5)]
		if r.IntN(2) == 0 {
			p.TopK = 1 + r.IntN([]int{5, 100, 8000}[r.IntN(3)])
		}
		if r.IntN(2) == 0 {
			p.TopP = r.Float32()
		}
		if r.IntN(3) == 0 {
			p.MinP = r.Float32() * r.Float32() * r.Float32()
		}
		if r.IntN(3) == 0 {
			p.TypicalP = r.Float32()
		}
	})
}

// What the filters keep is what they keep by sorting everything, whatever the
// row, and its weights and sums are untouched.
func TestFiltersEqualSortingEverything(t *testing.T) {
	for _, level := range isa.Levels() {
		r, w := rand.New(rand.NewPCG(21, 22)), &Scratch{Level: level}
		for round := range reference.Repeats(120, 500, 1500) {
			logits, p := someRow(r), someParams(r)
			top := w.top(logits)
			if math.IsInf(float64(top), 0) {
				continue
			}
			vector.BlockWeights(level, w.sums, logits, top, p.Temperature)
			weights := slices.Clone(logits)
			New(p, nil).filter(logits, w, top)
			var got []inference.TokenID
			sum := 0.0
			for i, x := range logits {
				if x >= w.least {
					got = append(got, inference.TokenID(i))
					if sum += float64(x); x != weights[i] {
						t.Fatalf("%v, round %d: weight %g of token %d became %g", level, round, weights[i], i, x)
					}
				}
			}
			if want := defined(weights, p); !slices.Equal(got, want) {
				t.Fatalf("%v, round %d: %d tokens, %+v: kept %d, want %d\n%v\n%v",
					level, round, len(logits), p.Sampling, len(got), len(want), brief(got), brief(want))
			}
			if p.TopK+int(1/p.TopP)+int(1/p.TypicalP) > 2 && math.Abs(w.total()-sum) > 1e-12*sum {
				t.Fatalf("%v, round %d: sums %g, want %g", level, round, w.total(), sum)
			}
		}
	}
}

func brief(ids []inference.TokenID) string {
	if len(ids) > 40 {
		return fmt.Sprint(ids[:20], "...", ids[len(ids)-20:])
	}
	return fmt.Sprint(ids)
}

// A draw by u takes the token at which the probabilities, computed in float64
// and added up by id, reach u.
func TestDrawsFollowTheProbabilities(t *testing.T) {
	for _, level := range isa.Levels() {
		r, w := rand.New(rand.NewPCG(23, 24)), &Scratch{Level: level}
		for round := range reference.Repeats(50, 200, 600) {
			logits, p := someRow(r), someParams(r)
			if p.TypicalP = 1; round%3 == 0 {
				p.TopK, p.TopP, p.MinP = 0, 1, 0
			}
			top := w.top(logits)
			if math.IsInf(float64(top), 0) {
				continue
			}
			weights := slices.Clone(logits)
			vector.BlockWeights(level, make([]float64, len(w.sums)), weights, top, p.Temperature)
			probs, total := make([]float64, len(logits)), 0.0
			for _, id := range defined(weights, p) {
				probs[id] = math.Exp((float64(logits[id]) - float64(top)) / float64(p.Temperature))
				total += probs[id]
			}
			for _, u := range []float64{0, r.Float64(), r.Float64(), 1 - 0x1p-53} {
				w.top(logits)
				id := New(p, nil).draw(slices.Clone(logits), top, w, u)
				before := 0.0
				for _, q := range probs[:id] {
					before += q / total
				}
				if weights[id] == 0 || probs[id] == 0 || before > u+2e-6 || before+probs[id]/total < u-2e-6 {
					t.Fatalf("%v, round %d, %d tokens, %+v: %g draws token %d, which has [%g,%g]",
						level, round, len(logits), p.Sampling, u, id, before, before+probs[id]/total)
				}
			}
		}
	}
}

// Pearson's test on many draws over more than one block: by chance the
// statistic is beyond its limit once in a million.
func TestDrawsPassChiSquare(t *testing.T) {
	reference.Slow(t)
	const draws = 60000
	r := rand.New(rand.NewPCG(25, 26))
	logits := make([]float32, 3*vector.ReduceBlock+9)
	for i := range logits {
		logits[i] = float32(-8 + r.NormFloat64())
	}
	for i := range 40 {
		logits[i*37] = float32(r.NormFloat64())
	}
	for name, edit := range map[string]func(*Params){
		"plain": nil,
		"top_p": func(p *Params) { p.Temperature, p.TopP = 0.8, 0.9 },
		"top_k": func(p *Params) { p.TopK = 30 },
		"min_p": func(p *Params) { p.MinP = 0.05 },
	} {
		p := params(edit)
		weights := make([]float32, len(logits))
		for i, l := range logits {
			weights[i] = float32(math.Exp(float64((l - slices.Max(logits)) / p.Temperature)))
		}
		total, want, kept := 0.0, make([]float64, len(logits)), defined(weights, p)
		for _, id := range kept {
			total += float64(weights[id])
		}
		for _, id := range kept {
			want[id] = float64(weights[id]) / total * draws
		}
		s, w, row, got := New(p, nil), &Scratch{}, make([]float32, len(logits)), make([]float64, len(logits))
		for range draws {
			copy(row, logits)
			got[s.must(row, w)]++
		}
		chi, cells, rareGot, rareWant := 0.0, 0, 0.0, 0.0
		for i := range want {
			if want[i] == 0 && got[i] > 0 {
				t.Errorf("%s: token %d was left out and drawn", name, i)
			}
			if want[i] < 20 {
				rareGot, rareWant = rareGot+got[i], rareWant+want[i]
				continue
			}
			chi += (got[i] - want[i]) * (got[i] - want[i]) / want[i]
			cells++
		}
		if rareWant >= 20 {
			chi += (rareGot - rareWant) * (rareGot - rareWant) / rareWant
			cells++
		}
		// Wilson and Hilferty's approximation of the quantile at 4.75 sigma.
		f := float64(cells - 1)
		if limit := f * math.Pow(1-2/(9*f)+4.75*math.Sqrt(2/(9*f)), 3); chi > limit {
			t.Errorf("%s: chi-square %.1f over %d cells, limit %.1f", name, chi, cells, limit)
		}
	}
}

func TestLogprobsEqualTheDefinition(t *testing.T) {
	for _, level := range isa.Levels() {
		r, w := rand.New(rand.NewPCG(27, 28)), &Scratch{Level: level}
		for round := range 300 {
			logits := someRow(r)
			if !w.Finite(logits) {
				continue
			}
			top, sum := float64(w.top(logits)), 0.0
			var order []candidate
			for i, l := range logits {
				if l == l {
					sum += math.Exp(float64(l) - top)
					order = append(order, candidate{id: inference.TokenID(i), rank: float64(l)})
				}
			}
			slices.SortFunc(order, better)
			norm, id := top+math.Log(sum), order[r.IntN(len(order))].id
			n := []int{0, 1, 5, 20, 1000}[r.IntN(5)]
			lp, list := w.Logprob(logits, id, n)
			near := func(got float32, id inference.TokenID) bool {
				want := float64(logits[id]) - norm
				return float64(got) == want || math.Abs(float64(got)-want) <= 1e-5*max(1, math.Abs(want)/50)
			}
			if !near(lp, id) {
				t.Fatalf("%v, round %d: logprob %g of token %d, want %g", level, round, lp, id, float64(logits[id])-norm)
			}
			if len(list) != min(n, len(order)) {
				t.Fatalf("%v, round %d: %d alternatives, want %d of %d", level, round, len(list), n, len(order))
			}
			for i, a := range list {
				if a.ID != order[i].id || !near(a.Logprob, a.ID) {
					t.Fatalf("%v, round %d: alternative %d is %+v, want token %d", level, round, i, a, order[i].id)
				}
			}
		}
	}
}
