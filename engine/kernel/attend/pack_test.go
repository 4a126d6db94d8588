package attend

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
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
				places[i] = Place{Block: s.blocks[i/16], Token: i % 16}
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

// Weights of arbitrary tokens count as zero, the others are rounded to the same codes at each level.
func TestWeightsAreRoundedAlikeAtEachLevel(t *testing.T) {
	const tiles = 6
	r := rand.New(rand.NewPCG(13, 1))
	kv := newKV(t, KVQ8, 16, tiles+1, 1, 32)
	s := newSequence(r, kv, tiles*tileTokens-5, tiles) // the last ones' scales are NaN
	plain := newDevice(1, isa.Portable)
	defer plain.Close()
	s.store(plain, kv)
	in := stretch{data: kv.data, at: kv.valueScalesAt()}
	for i := range tiles {
		in.tiles = append(in.tiles, kv.tile(0, s.blocks[i], 0, 0))
	}
	for range 50 {
		p := make([]float32, laneStep*scoreStride)
		for i := range p {
			p[i] = float32(math.Exp(r.NormFloat64()*4 - 4))
		}
		for _, odd := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
			p[r.IntN(laneStep)*scoreStride+r.IntN(tiles*tileTokens)] = odd
		}
		want, got := new(weightCodes), new(weightCodes)
		quantizeWeightsPortable(want, p, &in)
		for _, level := range isa.Levels() {
			if quantizeWeights(level, got, p, &in); *got != *want {
				t.Fatalf("%v: weights are rounded to other codes than in plain Go", level)
			}
		}
	}
}
