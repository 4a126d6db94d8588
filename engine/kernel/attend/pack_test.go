package attend

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// Four queries of any size, one of zeros, have the same words at each level.
func TestQueriesArePackedAlikeAtEachLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for _, d := range []int{32, 64, 96, 256} {
		for range 50 {
			x := randoms(r, laneStep*d)
			for l := range laneStep {
				size := float32(math.Pow(10, float64(r.IntN(60)-30)))
				for i := range x[l*d : (l+1)*d] {
					x[l*d+i] *= size
				}
			}
			zeros := r.IntN(laneStep)
			clear(x[zeros*d : (zeros+1)*d])
			want, got := make([]uint32, d/blockValues*queryWords), make([]uint32, d/blockValues*queryWords)
			packFour(isa.Portable, want, x, 0.01)
			for _, level := range isa.Levels() {
				if packQ8(level, got, x, 0.01); !slices.Equal(got, want) {
					t.Fatalf("%v: four queries of %d values are packed otherwise than in plain Go", level, d)
				}
			}
		}
	}
}

// Tokens stored together leave the same bytes as one after the other, at each level and where some values are not finite
// or too large for the scale's type.
func TestTokensStoredTogetherAreStoredAsOneByOne(t *testing.T) {
	const kvHeads, tokens = 3, 30
	odd := []float32{1, 0, 1e-12, float32(math.NaN()), float32(math.Inf(-1)), 9e6, 3e38}
	for _, typ := range []KVType{KVQ8, KVQ4} {
		for _, d := range []int{32, 64, 96} {
			r := rand.New(rand.NewPCG(12, uint64(d)))
			one, many := newKV(t, typ, 16, 3, kvHeads, d), newKV(t, typ, 16, 3, kvHeads, d)
			form := KeyForm{Centers: randoms(r, 2*kvHeads*d), Scales: slices.Repeat([]float32{1, 4, 0.5, 1}, kvHeads*d/4)}
			one.SetKeyForm(0, form)
			many.SetKeyForm(0, form)
			s := newSequence(r, one, tokens, 2)
			width := kvHeads * d
			for range tokens { // one value makes its block what it is
				s.k[r.IntN(len(s.k))] = odd[r.IntN(len(odd))]
				s.v[r.IntN(len(s.v))] = odd[r.IntN(len(odd))]
			}
			plain := newDevice(1, isa.Portable)
			defer plain.Close()
			clear(one.data)
			places := make([]Place, tokens)
			for i := range places {
				places[i] = Place{Block: s.blocks[i/16], Token: i % 16, Position: i + segmentTokens - 16}
				plain.Store(one, 0, s.k[i*width:(i+1)*width], s.v[i*width:(i+1)*width], places[i:i+1])
			}
			for _, level := range isa.Levels() {
				c := newDevice(2, level)
				defer c.Close()
				clear(many.data)
				c.Store(many, 0, s.k[width:], s.v[width:], places[1:]) // begins within four
				c.Store(many, 0, s.k[:width], s.v[:width], places[:1])
				if !bytes.Equal(many.data, one.data) {
					t.Errorf("%v, %v: %d tokens of heads of %d values are stored otherwise than one by one", level, typ, tokens, d)
				}
			}
		}
	}
}

// Weights are those of a softmax to half a step at each level, and nothing of hidden or arbitrary tokens enters them.
func TestWeightsAreNearestAtEachLevel(t *testing.T) {
	const tiles, tokens, dim = 8, 8*tileTokens - 21, 64
	r := rand.New(rand.NewPCG(13, 1))
	kv := newKV(t, KVQ8, 16, tiles+1, 1, dim)
	s := newSequence(r, kv, tokens, tiles) // the last ones' scales are NaN
	plain := newDevice(1, isa.Portable)
	defer plain.Close()
	s.store(plain, kv)
	var places []int
	for i := range tiles {
		places = append(places, kv.tile(0, s.blocks[min(i, len(s.blocks)-1)], 0, 0))
	}
	in := stretchOf(kv.data, places)
	in.at = kv.valueScalesAt()
	for _, level := range isa.Levels() {
		w := &attendWork{}
		w.reserve(laneStep, kv)
		openScales(level, w.scales, len(w.codes), &in)
		for range 50 {
			x := randoms(r, laneStep*scoreStride)
			for i := range x {
				x[i] *= 5
			}
			for l := range laneStep {
				first := r.IntN(3) * r.IntN(tokens-1)
				first = min(first, tokens-1)
				w.seen[l] = vector.Seen{First: first, N: 1 + r.IntN(tokens-first)}
			}
			copy(w.scores, x)
			weighQ8(level, w.codes, w.scores, tiles, w.seen, w.scales, w.now)
			for l := range laneStep {
				checkWeights(t, level, w, l, x[l*scoreStride:])
			}
		}
	}
}

func checkWeights(t *testing.T, level isa.Level, w *attendWork, lane int, x []float32) {
	t.Helper()
	seen, now := w.seen[lane], w.now[lane]
	top, sum := slices.Max(x[seen.First:seen.First+seen.N]), 0.0
	for i := range w.scales[:8*tileTokens] {
		p := 0.0
		if i >= seen.First && i < seen.First+seen.N {
			p = math.Exp(float64(x[i] - top))
		}
		sum += p
		for b := range w.codes {
			tile, k := i/tileTokens, i%tileTokens
			code, step := float64(w.codes[b].codes[lane][codeOf(tile, k)]), float64(w.codes[b].step[lane][stepOf(tile, k)])
			want := p * float64(w.scales[b*segmentTokens+i])
			if p == 0 {
				want = 0
			}
			if e := math.Abs(code*step - want); !(e <= 0.5*step+1e-5*want) {
				t.Fatalf("%v: the weight of position %d of block %d is %g times %g; %g is wanted", level, i, b, code, step, want)
			}
		}
	}
	if now.Top != top || math.Abs(float64(now.Sum)-sum) > 1e-5*sum {
		t.Fatalf("%v: softmax %+v; top %v and sum %v are wanted", level, now, top, sum)
	}
}

// A weight that is no number, or that meets a scale which is none, shows in the softmax or in the step.
func TestWeightsThatAreNoNumbersShow(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			kv := newKV(t, KVQ8, 16, 2, 1, 32)
			w := &attendWork{}
			w.reserve(laneStep, kv)
			for i := range w.scales {
				w.scales[i] = 1
			}
			for l := range laneStep {
				w.seen[l].N = tileTokens
			}
			w.scores[5] = odd
			w.scales[7] = float32(math.Inf(1))
			weighQ8(level, w.codes, w.scores, tilesTogether, w.seen, w.scales, w.now)
			if sum := w.now[0].Sum; sum == sum {
				t.Errorf("%v: a score of %v gives a sum of %v", level, odd, sum)
			}
			if step := w.codes[0].step[1][stepOf(0, 7)]; !math.IsInf(float64(step), 1) {
				t.Errorf("%v: a value that is not finite gives a step of %v", level, step)
			}
			if step := w.codes[0].step[1][stepOf(0, 8)]; step != 1.0/weightMax {
				t.Errorf("%v: and its neighbours one of %v", level, step)
			}
		}
	}
}
