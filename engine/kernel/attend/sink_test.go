package attend

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
)

// sinkShare is what a sink leaves of a head's result over the first positions of a sequence, in doubles.
func (s *sequence) sinkShare(q []float32, head, heads, length int, scale, sink float64) float64 {
	dim, sum := len(q), 0.0
	for p := range length {
		k, score := s.k[(p*heads+head)*dim:], 0.0
		for i, v := range q {
			score += float64(v) * float64(k[i]) * scale
		}
		sum += math.Exp(score)
	}
	return sum / (sum + math.Exp(sink))
}

// A sink takes from a row's weights as a position without a value does: once for each row, however its segments are computed.
func TestSinksTakeFromTheWeights(t *testing.T) {
	const rows, heads, kvHeads, dim = 3, 6, 2, 32
	limits := map[KVType]float64{KVF32: 2e-6, KVF16: 1e-3, KVQ8: 1e-2, KVQ4: 0.1}
	sinks := []float32{-3, 0, 4, 7, 9, 12}
	scale := float32(1.3 / math.Sqrt(dim))
	for _, level := range isa.Levels() {
		for _, typ := range kvTypes {
			for _, length := range []int{3, 40, 1100} { // the last one is split among workers
				r := rand.New(rand.NewPCG(uint64(length), uint64(typ)))
				n := (length + 15) / 16
				kv, c := newKV(t, typ, 16, n+1, kvHeads, dim), newDevice(4, level)
				s, q := newSequence(r, kv, length, n), randoms(r, rows*heads*dim)
				s.store(c, kv)
				attend := func(sinks []float32) []float32 {
					out := make([]float32, len(q))
					c.Attend(Query{Out: out, Q: q, KV: kv, Heads: heads, Scale: scale, Sinks: sinks, Spans: []Span{
						{Count: rows, Start: length - rows, Blocks: s.blocks},
					}})
					return out
				}
				want, none := attend(nil), float32(math.Inf(-1))
				if !slices.Equal(attend([]float32{none, none, none, none, none, none}), want) {
					t.Errorf("%v %v, %d tokens: sinks that weigh nothing change bits", level, typ, length)
				}
				for i := range rows * heads {
					at := i * dim
					by := s.sinkShare(q[at:at+dim], i%heads/(heads/kvHeads), kvHeads, length-rows+i/heads+1, float64(scale), float64(sinks[i%heads]))
					for k := range dim {
						want[at+k] *= float32(by)
					}
				}
				if e := near(attend(sinks), want); !(e <= limits[typ]) {
					t.Errorf("%v %v, %d tokens: relative error %g, limit %g", level, typ, length, e, limits[typ])
				}
				for i, v := range attend([]float32{1e5, 1e5, 1e5, 1e5, 1e5, 1e5}) {
					if v != 0 {
						t.Fatalf("%v %v: value %d is %g beside sinks that outweigh all", level, typ, i, v)
					}
				}
				c.Close()
			}
		}
	}
}
