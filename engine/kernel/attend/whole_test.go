package attend

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/reference"
)

// texts are sequences of which every row sees all, one after the other in a batch.
type texts struct {
	shape headShape
	all   []*sequence
	spans []Span
	q     []float32

	slopes []float32 // of heads; nil: scores do not fall with distance
}

func newTexts(r *rand.Rand, kv *KV, shape headShape, lengths []int) *texts {
	t := &texts{shape: shape}
	row, last := 0, 0
	for _, n := range lengths {
		last += (n + kv.BlockTokens - 1) / kv.BlockTokens
		s := newSequence(r, kv, n, last)
		t.all = append(t.all, s)
		t.spans = append(t.spans, Span{Row: row, Count: n, Whole: n, Blocks: s.blocks})
		row += n
	}
	t.q = randoms(r, row*shape.kvHeads*shape.group*shape.dim)
	return t
}

func (t *texts) attend(c *device, kv *KV, reach int) []float32 {
	for _, s := range t.all {
		s.store(c, kv)
	}
	got := make([]float32, len(t.q))
	scale := float32(1.3 / math.Sqrt(float64(t.shape.dim)))
	c.Attend(Query{Out: got, Q: t.q, KV: kv, Heads: t.shape.kvHeads * t.shape.group, Spans: t.spans, Scale: scale, Reach: reach, Slopes: t.slopes})
	return got
}

// want is the definition, in doubles.
func (t *texts) want(reach int) []float32 {
	dim, heads := t.shape.dim, t.shape.kvHeads*t.shape.group
	out := make([]float32, len(t.q))
	for i, s := range t.all {
		for p := range t.spans[i].Count {
			lo, hi := 0, t.spans[i].Count
			if reach > 0 {
				lo, hi = max(0, p-reach), min(hi, p+reach+1)
			}
			width := t.shape.kvHeads * dim
			part := &sequence{k: s.k[lo*width : hi*width], v: s.v[lo*width : hi*width]}
			for h := range heads {
				o := ((t.spans[i].Row+p)*heads + h) * dim
				part.reference(out[o:o+dim], t.q[o:o+dim], h/t.shape.group, t.shape.kvHeads, hi-lo, 1.3/math.Sqrt(float64(dim)))
			}
		}
	}
	return out
}

func TestRowsThatSeeTheWholeTextEqualTheDefinition(t *testing.T) {
	reference.Slow(t)
	lengths := []int{1, 17, 3, 40, 600, 16, 1100}
	switch {
	case reference.Long():
	case testing.Short():
		lengths = []int{1, 17, 3, 40, 530}
	default:
		lengths = lengths[:5] // the last is longer than a segment and than every reach
	}
	blocks := 1
	for _, n := range lengths {
		blocks += (n + 15) / 16
	}
	for _, shape := range []headShape{{32, 3, 1}, {16, 2, 2}, {64, 1, 1}} {
		for _, reach := range []int{0, 4, 20, 64, 540} {
			r := rand.New(rand.NewPCG(5, uint64(reach)))
			kv := newKV(t, KVF32, 16, blocks, shape.kvHeads, shape.dim)
			x := newTexts(r, kv, shape, lengths)
			want := x.want(reach) // which takes longer than all levels
			for _, level := range isa.Levels() {
				c := newDevice(3, level)
				if e := near(x.attend(c, kv, reach), want); !(e < 2e-6) {
					t.Errorf("%v %+v, reach %d: relative error %g", level, shape, reach, e)
				}
				c.Close()
			}
		}
	}
}

func TestATextsAttentionDoesNotDependOnItsCompany(t *testing.T) {
	reference.Slow(t)
	lengths := []int{33, 5, 700, 64, 1}
	shape := headShape{32, 4, 1}
	for _, level := range isa.Levels() {
		for _, reach := range []int{0, 32} {
			many, one := newDevice(4, level), newDevice(1, level)
			defer many.Close()
			defer one.Close()
			r := rand.New(rand.NewPCG(6, 1))
			kv := newKV(t, KVF32, 16, 64, shape.kvHeads, shape.dim)
			x := newTexts(r, kv, shape, lengths)
			all := x.attend(many, kv, reach)
			for i, s := range x.all {
				width := shape.kvHeads * shape.dim
				q := x.q[x.spans[i].Row*width:][:x.spans[i].Count*width]
				alone := &texts{shape: shape, all: []*sequence{s}, q: q,
					spans: []Span{{Count: x.spans[i].Count, Whole: x.spans[i].Count, Blocks: s.blocks}}}
				if got := alone.attend(one, kv, reach); !slices.Equal(got, all[x.spans[i].Row*width:][:len(got)]) {
					t.Errorf("%v, reach %d: text %d differs alone", level, reach, i)
				}
			}
		}
	}
}

// Scores that fall with the distance, in both directions and for a row that sees those before.
func TestScoresFallWithDistance(t *testing.T) {
	reference.Slow(t)
	shape := headShape{16, 2, 2}
	kv := newKV(t, KVF32, 16, 60, shape.kvHeads, shape.dim)
	x := newTexts(rand.New(rand.NewPCG(8, 1)), kv, shape, []int{1, 35, 530})
	x.slopes = []float32{0.5, 0.25, 0.01, 0}
	for _, whole := range []bool{true, false} {
		for i := range x.spans {
			if x.spans[i].Whole = 0; whole {
				x.spans[i].Whole = x.spans[i].Count
			}
		}
		want := x.falling(whole)
		for _, level := range isa.Levels() {
			c := newDevice(2, level)
			defer c.Close()
			if e := near(x.attend(c, kv, 0), want); !(e < 2e-6) {
				t.Errorf("%v, whole texts %v: relative error %g", level, whole, e)
			}
		}
	}
}

// falling is the definition of attention with slopes, in doubles.
func (t *texts) falling(whole bool) []float32 {
	dim, heads := t.shape.dim, t.shape.kvHeads*t.shape.group
	out := make([]float32, len(t.q))
	for i, s := range t.all {
		for p := range t.spans[i].Count {
			seen := p + 1
			if whole {
				seen = t.spans[i].Count
			}
			for h := range heads {
				o, sum, acc := ((t.spans[i].Row+p)*heads+h)*dim, 0.0, make([]float64, dim)
				for k := range seen {
					at := (k*t.shape.kvHeads + h/t.shape.group) * dim
					score := -float64(t.slopes[h]) * math.Abs(float64(p-k))
					for d := range dim {
						score += float64(t.q[o+d]) * float64(s.k[at+d]) * 1.3 / math.Sqrt(float64(dim))
					}
					weight := math.Exp(score)
					sum += weight
					for d := range dim {
						acc[d] += weight * float64(s.v[at+d])
					}
				}
				for d := range dim {
					out[o+d] = float32(acc[d] / sum)
				}
			}
		}
	}
	return out
}
