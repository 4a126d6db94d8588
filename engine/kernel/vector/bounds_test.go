package vector

import (
	"fmt"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/guard"
)

// bounded are the functions over n values in memory that is just enough. What alone says how many values there are is no margin.
var bounded = map[string]func(level isa.Level, m *guard.Margins, n int){
	"Norm": func(level isa.Level, m *guard.Margins, n int) {
		Norm(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "x", n), guard.Sized[float32](m, "weight", n), 1)
	},
	"LayerNorm": func(level isa.Level, m *guard.Margins, n int) {
		LayerNorm(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "x", n), guard.Sized[float32](m, "weight", n), guard.Sized[float32](m, "bias", n), 1)
	},
	"SumSquares": func(level isa.Level, m *guard.Margins, n int) { SumSquares(level, guard.Whole[float32](m, n)) },
	"AbsMax":     func(level isa.Level, m *guard.Margins, n int) { AbsMax(level, guard.Whole[float32](m, n)) },
	"SwiGLU": func(level isa.Level, m *guard.Margins, n int) {
		SwiGLU(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "gate", n), guard.Sized[float32](m, "up", n))
	},
	"Gate": func(level isa.Level, m *guard.Margins, n int) {
		GELU.Gate(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "gate", n), guard.Sized[float32](m, "up", n))
	},
	"Clamp": func(level isa.Level, m *guard.Margins, n int) {
		Clamp{Slope: 1.7, Limit: 7}.Gate(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "gate", n), guard.Sized[float32](m, "up", n))
	},
	"AddScaled": func(level isa.Level, m *guard.Margins, n int) {
		AddScaled(level, guard.Whole[float32](m, n), guard.Sized[float32](m, "x", n), 1)
	},
	"SoftCap":  func(level isa.Level, m *guard.Margins, n int) { SoftCap(level, guard.Whole[float32](m, n), 30) },
	"Apply":    func(level isa.Level, m *guard.Margins, n int) { GELU.Apply(level, guard.Whole[float32](m, n)) },
	"RopeNorm": func(level isa.Level, m *guard.Margins, n int) { rotateAll(level, m, n, RopeNorm) },
	"RopeNeox": func(level isa.Level, m *guard.Margins, n int) { rotateAll(level, m, n, RopeNeox) },
	"Weigh": func(level isa.Level, m *guard.Margins, n int) {
		seen := guard.Whole[Seen](m, 3)
		for i := range seen {
			seen[i] = Seen{First: i % n, N: n - i%n}
		}
		Weigh(level, guard.Sized[float32](m, "scores", 2*(n+5)+n), n+5, n, seen, guard.Sized[Softmax](m, "softmax", 3))
	},
	"Multiply": func(level isa.Level, m *guard.Margins, n int) {
		Multiply(level, guard.Whole[float32](m, n), guard.Whole[float32](m, 3), guard.Sized[float32](m, "matrix", 3*n))
	},
	"BlockMaxima": func(level isa.Level, m *guard.Margins, n int) {
		BlockMaxima(level, guard.Sized[float32](m, "maxima", ReduceBlocks(n)), guard.Whole[float32](m, n))
	},
	"BlockExpSums": func(level isa.Level, m *guard.Margins, n int) {
		BlockExpSums(level, guard.Sized[float64](m, "sums", ReduceBlocks(n)), guard.Whole[float32](m, n), 0, 1)
	},
	"BlockWeights": func(level isa.Level, m *guard.Margins, n int) {
		BlockWeights(level, guard.Sized[float64](m, "sums", ReduceBlocks(n)), guard.Whole[float32](m, n), 0, 1)
	},
	"BlockSums": func(level isa.Level, m *guard.Margins, n int) {
		BlockSums(level, guard.Sized[float64](m, "sums", ReduceBlocks(n)), guard.Whole[float32](m, n), 1)
	},
	"Find": func(level isa.Level, m *guard.Margins, n int) {
		Find(level, guard.Sized[int32](m, "indices", FindRoom(n)), guard.Whole[float32](m, n), 0, 1)
	},
}

// rotateAll rotates the last of two rows.
func rotateAll(level isa.Level, m *guard.Margins, half int, style RopeStyle) {
	r := &Rotation{Style: style, Heads: 2, HeadDim: 2*half + 2, Half: half}
	r.Cos, r.Sin = guard.Sized[float32](m, "cosines", 2*half), guard.Sized[float32](m, "sines", 2*half)
	r.Rope(level, guard.Sized[float32](m, "x", 4*r.HeadDim), 1)
}

// Assembly knows no lengths. Each function stays within memory that is just enough for it, and refuses less.
func TestAssemblyStaysWithinItsMemory(t *testing.T) {
	for _, level := range isa.Levels() {
		for name, call := range bounded {
			for _, n := range []int{1, 7, 32, 67, 513} {
				guard.Check(t, fmt.Sprintf("%v %s of %d values", level, name, n), func(m *guard.Margins) { call(level, m, n) })
			}
		}
		r := &Rotation{Heads: 1, HeadDim: 8, Half: 5, Cos: make([]float32, 5), Sin: make([]float32, 5)}
		if o := guard.Run(func() { r.Rope(level, make([]float32, 8), 0) }); o != guard.Refused {
			t.Errorf("%v: five pairs of a head of eight values are rotated", level)
		}
	}
}
