package llm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/vector"
)

// biased is a model of one layer with the attention a, whose only rope has these frequencies.
func biased(style vector.RopeStyle, freq ...float64) (*rope, *attention) {
	r := rope{style: style, half: len(freq), freq: freq, magnitude: 1}
	a := &attention{attentionPlan: attentionPlan{heads: 2, kvHeads: 1, headDim: 2*len(freq) + 2}}
	return &r, a
}

// A center is the mean of what positions make of a bias, segment by segment.
func TestCentersAreMeansOfTurnedBiases(t *testing.T) {
	const segments = 3
	for _, style := range []vector.RopeStyle{vector.RopeNeox, vector.RopeNorm} {
		rope, a := biased(style, 1, 0.01, 1e-3, 1e-5, 0)
		r := rand.New(rand.NewPCG(5, 5))
		for range a.headDim {
			a.k.bias = append(a.k.bias, float32(100*r.NormFloat64()))
		}
		got := a.centers(rope, segments*attend.SegmentTokens-7)
		if len(got) != segments*a.headDim {
			t.Fatalf("%d values, want %d", len(got), segments*a.headDim)
		}
		for s := range segments {
			mean, left := make([]float64, a.headDim), make([]float64, a.headDim)
			for p := range attend.SegmentTokens {
				for i := range a.headDim {
					mean[i] += turnedBias(rope, a.k.bias, i, s*attend.SegmentTokens+p) / attend.SegmentTokens
				}
			}
			for i, want := range mean {
				if diff := math.Abs(float64(got[s*a.headDim+i]) - want); diff > 1 {
					t.Errorf("style %d, segment %d, value %d: center %g, mean %g", style, s, i, got[s*a.headDim+i], want)
				}
			}
			for p := range attend.SegmentTokens {
				for i := range a.headDim {
					d := turnedBias(rope, a.k.bias, i, s*attend.SegmentTokens+p) - mean[i]
					left[i] += d * d / attend.SegmentTokens
				}
			}
			energy := make([]float64, a.headDim)
			a.addRemainder(rope, energy)
			rope.share(left)
			for i, want := range left {
				if diff := math.Abs(energy[i] - want); diff > 5+0.02*want {
					t.Errorf("style %d, segment %d, value %d: %g is left, want %g", style, s, i, energy[i], want)
				}
			}
		}
	}
}

// turnedBias is value i of a bias at a position.
func turnedBias(r *rope, bias []float32, i, position int) float64 {
	for p := range r.half {
		x, y := r.pair(p)
		sin, cos := math.Sincos(float64(position) * r.freq[p])
		switch i {
		case x:
			return float64(bias[x])*cos - float64(bias[y])*sin
		case y:
			return float64(bias[x])*sin + float64(bias[y])*cos
		}
	}
	return float64(bias[i])
}

// Scales are powers of two, the same for a pair, and bring keys to the size of queries; where these are alike there are none.
func TestBalance(t *testing.T) {
	rope, a := biased(vector.RopeNeox, 1, 0.1)
	k := []float64{1, 1, 1, 1, 1, 1}
	if s := a.balance(rope, k, repeat([]float64{4, 4, 4, 4, 4, 4}, 2)); s != nil {
		t.Errorf("scales %v of keys and queries that are alike up to a factor", s)
	}
	k[0], k[2] = 256, 256 // a pair whose keys are 16 times as large
	got := a.balance(rope, k, repeat([]float64{1, 1, 1, 1, 1, 0}, 2))
	if got == nil || got[0] != got[2] || got[1] != got[3] || got[1] != 4*got[0] {
		t.Errorf("scales %v, want the first pair's a quarter of the second's", got)
	}
	for _, s := range got {
		if f, _ := math.Frexp(float64(s)); f != 0.5 {
			t.Errorf("scale %g is no power of two", s)
		}
	}
}

// Qwen3 and its kin norm the heads of queries and keys, with weights that can be many times as large in keys as in queries of the same channel: what
// a q8_0 cache costs falls several times where both are brought to a size.
func TestHeadsWithNormsAreBalanced(t *testing.T) {
	m, err := loadModel(tiny{arch: "qwen3", typ: gguf.TypeF32, seed: 4, norms: true, headDim: 64, loud: 4}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.release()
	for i := range m.layers {
		a := &m.layers[i].attention
		for _, channel := range []int{3, 35} { // a rotated pair
			a.kNorm.Weight[channel] *= 40
			a.qNorm.Weight[channel] /= 40
		}
	}
	c := (&Options{Threads: 2, Fine: true}).compute()
	defer c.Close()
	text := sampleText(100)
	score := func(typ attend.KVType, form bool) (rows [][]float32) {
		shape := m.cacheShape.sized(typ, 16, 9)
		kv, err := attend.NewPages(shape.Tables)
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		if form {
			m.formKeys(c, kv, len(text))
		}
		s := &Scorer{model: m, cpu: c, kv: kv, shape: shape, stopped: new(Options).stopped}
		if err := s.Score(text, 50, func(_ int, logits []float32) { rows = append(rows, slices.Clone(logits)) }); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	reference, nats := score(attend.KVF32, false), map[bool]float64{}
	for _, form := range []bool{false, true} {
		j := &divergenceJob{reference: reference, model: score(attend.KVQ8, form), nats: make([]float64, len(reference))}
		c.Run(j, len(j.nats), 1)
		nats[form] = sum(j.nats)
	}
	if !(nats[true] > 0 && nats[false] > 5*nats[true]) {
		t.Errorf("a q8_0 cache costs %g nats in all, and %g with keys as they are", nats[true], nats[false])
	}
}
