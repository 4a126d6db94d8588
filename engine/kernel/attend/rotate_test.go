package attend

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

func TestRotateIsTheHadamardTransform(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []int{32, 64, 96, 128, 160, 192, 256, 512, 768} {
		x, n := make([]float32, d), rotated(d)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		want := make([]float64, d)
		for i := range want {
			for j := range n {
				sign := 1 - 2*(bits.OnesCount(uint(i%n)&uint(j))&1)
				want[i] += float64(sign) * float64(x[i/n*n+j])
			}
		}
		first := slices.Clone(x)
		rotate(isa.Portable, first, first, 1)
		for _, level := range isa.Levels() {
			got := slices.Clone(x)
			rotate(level, got, got, 1)
			if !slices.Equal(got, first) {
				t.Errorf("%v: %d values are rotated to other bits than in plain Go", level, d)
			}
			for i, v := range got {
				if math.Abs(float64(v)-want[i]) > 1e-5*float64(n) {
					t.Fatalf("%v: value %d of %d is %g, want %g", level, i, d, v, want[i])
				}
			}
			half := make([]float32, d)
			rotate(level, half, x, 0.5)
			for i, v := range half {
				if v != got[i]/2 {
					t.Fatalf("%v: value %d of %d is %g times a half, rotated in place %g", level, i, d, v, got[i])
				}
			}
			rotate(level, got, got, 1)
			for i, v := range got {
				if math.Abs(float64(v)/float64(n)-float64(x[i])) > 1e-5 {
					t.Fatalf("%v: rotated twice value %d of %d is %g times %d, want %g", level, i, d, v, n, x[i])
				}
			}
		}
	}
}

func TestHeadsAreRotatedEachByItself(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	factors := []float32{1, 0.5, -3, 2}
	for _, d := range []int{32, 64, 96, 128, 256, 384} {
		x := randoms(r, len(factors)*d)
		for _, level := range isa.Levels() {
			got, one := make([]float32, len(x)), make([]float32, d)
			rotate(level, got, x, factors...)
			for h, f := range factors {
				rotate(level, one, x[h*d:(h+1)*d], f)
				if !slices.Equal(got[h*d:(h+1)*d], one) {
					t.Errorf("%v: head %d of %d values is rotated to other bits in company", level, h, d)
				}
			}
			apart, want := make([]float32, 2*5*d), make([]float32, 2*5*d) // rows of two heads, five heads apart
			rotateHeads(level, apart, x, headRows{d, 2, 5 * d, 2 * d}, factors)
			copy(want, got[:2*d])
			copy(want[5*d:], got[2*d:])
			if !slices.Equal(apart, want) {
				t.Errorf("%v: rows of heads of %d values are not where they belong", level, d)
			}
		}
	}
}

// An element that is large at every token does not take the others' steps away.
func TestOutliersOfKeysLeaveScoresExact(t *testing.T) {
	const headDim, tokens = 64, 64
	r := rand.New(rand.NewPCG(3, 4))
	spread := func(outlier bool) float64 {
		k, q := make([]float32, tokens*headDim), make([]float32, headDim)
		for i := range q {
			q[i] = float32(r.NormFloat64())
		}
		for i := range k {
			k[i] = float32(r.NormFloat64())
			if outlier && i%headDim == 7 {
				k[i] += 40
			}
		}
		var codes blockCodes
		var sum float64
		for at := 0; at < len(k); at += headDim {
			key, query := slices.Clone(k[at:at+headDim]), slices.Clone(q)
			rotate(isa.Portable, key, key, 1)
			rotate(isa.Portable, query, query, 1)
			var exact, got float64
			for b := 0; b < headDim; b += blockValues {
				half := quantizeHalf(isa.Portable, &codes, (*[blockValues]float32)(key[b:]))
				scale := vector.F16ToF32(half)
				for i, c := range codes {
					got += float64(scale) * float64(c) * float64(query[b+i]) / headDim
				}
			}
			for i, v := range q {
				exact += float64(v) * float64(k[at+i])
			}
			sum += (got - exact) * (got - exact)
		}
		return math.Sqrt(sum / tokens)
	}
	if plain, outlier := spread(false), spread(true); outlier > 4*plain {
		t.Errorf("scores are %.4f off with an outlier of 40 and %.4f without", outlier, plain)
	}
}
