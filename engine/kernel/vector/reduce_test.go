package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
)

var (
	notANumber = float32(math.NaN())
	infinity   = float32(math.Inf(1))
)

// overRows runs f at each level over rows at, below and beyond every
// register's and block's length, guarded and with some values of every kind.
func overRows(t *testing.T, f func(t *testing.T, level isa.Level, x []float32)) {
	for _, level := range isa.Levels() {
		t.Run(level.String(), func(t *testing.T) {
			for _, n := range append(widths(), 0, ReduceBlock-1, ReduceBlock, ReduceBlock+1, 5*ReduceBlock+77) {
				r := rand.New(rand.NewPCG(13, uint64(n)))
				x := guarded(r, n)
				for i := range x {
					x[i] *= 5
					switch r.IntN(20) {
					case 0:
						x[i] = notANumber
					case 1:
						x[i] = -infinity
					}
				}
				f(t, level, x)
				checkGuard(t, x)
			}
		})
	}
}

func TestBlockMaximaPassOverNaN(t *testing.T) {
	overRows(t, func(t *testing.T, level isa.Level, x []float32) {
		got := make([]float32, ReduceBlocks(len(x)))
		BlockMaxima(level, got, x)
		for b := range got {
			want := -infinity
			for _, v := range blockOf(x, b) {
				if v > want {
					want = v
				}
			}
			if got[b] != want {
				t.Fatalf("%d elements: Maximum of block %d is %g, want %g", len(x), b, got[b], want)
			}
		}
	})
}

func TestBlockWeightsEqualTheDefinition(t *testing.T) {
	const top, heat = 3, 0.7
	overRows(t, func(t *testing.T, level isa.Level, x []float32) {
		sums, again := make([]float64, ReduceBlocks(len(x))), make([]float64, ReduceBlocks(len(x)))
		raw := slices.Clone(x)
		BlockExpSums(level, again, x, top, heat)
		if !equalBits(raw, x) {
			t.Fatalf("%d elements: adding up wrote", len(x))
		}
		BlockWeights(level, sums, x, top, heat)
		if !slices.Equal(sums, again) {
			t.Fatalf("%d elements: sums with and without weights differ", len(x))
		}
		for b := range sums {
			want := 0.0
			for i, w := range blockOf(x, b) {
				v := blockOf(raw, b)[i]
				e := math.Exp(float64((v - top) / heat))
				if v != v {
					e = 0
				}
				want += float64(w)
				closeTo(t, fmt.Sprint("weight of ", v), w, e, 3e-7)
			}
			if math.Abs(sums[b]-want) > 1e-12*want {
				t.Fatalf("%d elements: block %d adds up to %g, want %g", len(x), b, sums[b], want)
			}
		}
	})
}

// A weight is the same at whatever index it stands: filters compare weights.
func TestWeightsOfEqualsAreEqual(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, v := range []float32{-0.1, 1, -7.3, -90} {
			x := make([]float32, ReduceBlock+21)
			for i := range x {
				x[i] = v
			}
			BlockWeights(level, make([]float64, 2), x, 1.5, 0.9)
			if slices.Min(x) != slices.Max(x) {
				t.Errorf("%v: weights of %g from %g to %g", level, v, slices.Min(x), slices.Max(x))
			}
		}
	}
}

// Extreme temperatures give no NaN.
func TestBlockWeightsAtTheLimits(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, c := range []struct {
			heat float32
			want []float32
		}{
			{1e-45, []float32{1, 0, 0, 0, 0}},
			{infinity, []float32{1, 1, 0, 0, 1}},
			{notANumber, []float32{0, 0, 0, 0, 0}},
		} {
			x := []float32{5, 4, notANumber, -infinity, -3e38}
			sums := make([]float64, 1)
			BlockWeights(level, sums, x, 5, c.heat)
			if !slices.Equal(x, c.want) {
				t.Errorf("%v at temperature %g: weights %v, want %v", level, c.heat, x, c.want)
			}
		}
	}
}

func TestBlockSumsAndFindEqualTheDefinition(t *testing.T) {
	overRows(t, func(t *testing.T, level isa.Level, x []float32) {
		BlockWeights(level, make([]float64, ReduceBlocks(len(x))), x, 2, 1)
		for _, least := range []float32{1e-45, 0.01, 0.4, 5, 1e30} {
			got, want := make([]float64, ReduceBlocks(len(x))), make([]float64, ReduceBlocks(len(x)))
			part := BlockSums(level, got, x, least)
			whole := Part{Lowest: infinity}
			for i, v := range x {
				if v >= least {
					whole.Count, whole.Lowest = whole.Count+1, min(whole.Lowest, v)
					want[i/ReduceBlock] += float64(v)
				} else {
					whole.Below = max(whole.Below, v)
				}
			}
			if part != whole {
				t.Fatalf("%d elements from %g: %+v, want %+v", len(x), least, part, whole)
			}
			for b := range got {
				if math.Abs(got[b]-want[b]) > 1e-12*want[b] {
					t.Fatalf("%d elements from %g: block %d adds up to %g, want %g", len(x), least, b, got[b], want[b])
				}
			}
		}
		for _, span := range [][2]float32{{0, infinity}, {0.01, 0.3}, {0.3, 0.01}, {1, 1}} {
			const unused = -7
			ids, want := slices.Repeat([]int32{unused}, FindRoom(len(x))+8), []int32(nil)
			for i, v := range x {
				if span[0] <= v && v <= span[1] {
					want = append(want, int32(i))
				}
			}
			if n := Find(level, ids, x, span[0], span[1]); !slices.Equal(ids[:n], want) {
				t.Fatalf("%d elements in %v: %v, want %v", len(x), span, ids[:n], want)
			}
			for _, id := range ids[FindRoom(len(x)):] {
				if id != unused {
					t.Fatalf("%d elements: wrote beyond the room", len(x))
				}
			}
		}
	})
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func BenchmarkReduce(b *testing.B) {
	const n = 128256
	x := randoms(rand.New(rand.NewPCG(14, 14)), n)
	w, maxima := slices.Clone(x), make([]float32, ReduceBlocks(n))
	sums, ids := make([]float64, ReduceBlocks(n)), make([]int32, FindRoom(n))
	for _, level := range isa.Levels() {
		BlockWeights(level, sums, w, 1, 1)
		scratch := slices.Clone(w)
		for _, op := range []struct {
			name string
			f    func()
		}{
			{"maxima", func() { BlockMaxima(level, maxima, x) }},
			{"expsums", func() { BlockExpSums(level, sums, x, 1, 1) }},
			{"weights", func() { BlockWeights(level, sums, scratch, 1, 1) }},
			{"sums", func() { BlockSums(level, sums, w, 0.2) }},
			{"findfew", func() { Find(level, ids, w, 0.9, 1) }},
			{"findmany", func() { Find(level, ids, w, 0, 1) }},
		} {
			b.Run(fmt.Sprintf("op=%s/level=%v", op.name, level), func(b *testing.B) {
				for b.Loop() {
					op.f()
				}
			})
		}
		copy(w, x)
	}
}
