package weight

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// randomLowRank is an adapter of random values for a product.
func randomLowRank(t *testing.T, rng *rand.Rand, typ gguf.Type, w *Matrix, rank int) LowRank {
	t.Helper()
	matrix := func(rows, cols int) *Matrix {
		m, err := NewMatrix(typ, rows, cols, randomRows(rng, typ, rows, cols))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	return LowRank{A: matrix(rank, w.Cols), B: matrix(w.Rows, rank), Scale: 1.5}
}

// definition is what a low rank adds to a row, in doubles.
func (l *LowRank) definition(x []float32) []float64 {
	thin, out, row := make([]float64, l.A.Rows), make([]float64, l.B.Rows), make([]float32, max(l.A.Cols, l.B.Cols))
	for k := range thin {
		l.A.DecodeRow(row, k)
		for i, v := range x {
			thin[k] += float64(row[i]) * float64(v)
		}
	}
	for o := range out {
		l.B.DecodeRow(row, o)
		for k, v := range thin {
			out[o] += float64(row[k]) * v * float64(l.Scale)
		}
	}
	return out
}

// Products of rows with low ranks are those without, plus B(A x); their bits depend on no other row, on no cut and on no number of workers.
func TestLowRanksAreAdded(t *testing.T) {
	for _, level := range isa.Levels() {
		for n, typ := range []gguf.Type{gguf.TypeF16, gguf.TypeBF16, gguf.TypeF32} {
			for _, shape := range [][3]int{{48, 64, 16}, {33, 96, 3}, {160, 32, 40}} {
				t.Run(fmt.Sprintf("%v/%v/%v", level, typ, shape), func(t *testing.T) { checkLowRanks(t, level, typ, shape[0], shape[1], shape[2], uint64(n)) })
			}
		}
	}
}

func checkLowRanks(t *testing.T, level isa.Level, typ gguf.Type, outputs, cols, rank int, seed uint64) {
	const rows = 75
	rng := rand.New(rand.NewPCG(seed, uint64(rank)))
	w, err := NewMatrix(gguf.TypeQ8_0, outputs, cols, randomRows(rng, gguf.TypeQ8_0, outputs, cols))
	if err != nil {
		t.Fatal(err)
	}
	x, norm := randomFloats(rng, rows*cols), Norm{Weight: randomFloats(rng, cols), Eps: 1e-5}
	parts := []Adapted{{Lo: 1, Hi: 2}, {Lo: 2, Hi: 9}, {Lo: 11, Hi: 70}}
	for i := range parts {
		parts[i].Low[0], parts[i].Low[2] = randomLowRank(t, rng, typ, w, rank+i%2), randomLowRank(t, rng, typ, w, rank)
	}
	parts[0].Low[0] = LowRank{}
	of := func(row int) (part []Adapted) {
		for _, p := range parts {
			if p.Lo <= row && row < p.Hi {
				p.Lo, p.Hi = 0, 1
				part = append(part, p)
			}
		}
		return part
	}
	one := newMultiplier(1, level)
	defer one.Close()
	// Rows one by one: products with the first low ranks, without, and with the third ones.
	plain, want, third := make([]float32, rows*outputs), make([]float32, rows*outputs), make([]float32, rows*outputs)
	normed := make([]float32, cols)
	for r := range rows {
		row, part := x[r*cols:(r+1)*cols], of(r)
		at := func(all []float32) []float32 { return all[r*outputs : (r+1)*outputs] }
		one.Products(row, 1, norm, Product{Dst: at(plain), W: w})
		one.AdaptedProducts(part, row, 1, norm, Product{Dst: at(want), W: w}, Product{Dst: make([]float32, outputs), W: w}, Product{Dst: at(third), W: w})
		norm.Apply(level, normed, row)
		var low [MostTogether]LowRank
		if len(part) > 0 {
			low = part[0].Low
		}
		for k, got := range map[int][]float32{0: at(want), 2: at(third)} {
			if low[k].A == nil {
				if !slices.Equal(got, at(plain)) {
					t.Fatalf("row %d without a low rank has other bits", r)
				}
				continue
			}
			sum, size := 0.0, 0.0
			for o, v := range low[k].definition(normed) {
				d := float64(got[o]) - float64(at(plain)[o]) - v
				sum, size = sum+d*d, size+v*v+float64(got[o])*float64(got[o])
			}
			if off := math.Sqrt(sum / size); !(off < 1e-6) {
				t.Fatalf("row %d is %.2g from the definition", r, off)
			}
		}
	}
	for _, workers := range []int{1, 2, 3, 8} {
		c := newMultiplier(workers, level)
		defer c.Close()
		got := make([]float32, rows*outputs)
		second, act := slices.Clone(got), slices.Clone(got)
		c.AdaptedProducts(parts, x, rows, norm, Product{Dst: got, W: w}, Product{Dst: second, W: w}, Product{Dst: act, W: w, Act: vector.GELU})
		if !slices.Equal(got, want) || !slices.Equal(second, plain) {
			t.Fatalf("%d workers: rows have other bits together than alone", workers)
		}
		for r := range rows {
			row := slices.Clone(third[r*outputs : (r+1)*outputs])
			if vector.GELU.Apply(level, row); !near(row, act[r*outputs:(r+1)*outputs]) {
				t.Fatalf("%d workers, row %d: the activation does not follow what is added", workers, r)
			}
		}
		gated := slices.Clone(parts)
		for i := range gated {
			gated[i].Low[1] = gated[i].Low[2]
		}
		c.AdaptedGated(gated, got, x, rows, norm, Product{W: w, Act: vector.SiLU}, Product{W: w})
		gate := slices.Clone(want)
		for r := range rows {
			of := func(all []float32) []float32 { return all[r*outputs : (r+1)*outputs] }
			vector.SiLU.Gate(level, of(gate), of(want), of(third))
		}
		if !near(got, gate) {
			t.Fatalf("%d workers: gated products are not those of the two", workers)
		}
		c.Products(x, rows, norm, Product{Dst: got, W: w})
		if !slices.Equal(got, plain) {
			t.Fatalf("%d workers: products without low ranks have other bits behind those with", workers)
		}
		if n := testing.AllocsPerRun(10, func() { // a worker whose first part comes late allocates then
			c.AdaptedProducts(parts, x, rows, norm, Product{Dst: got, W: w})
			c.AdaptedGated(gated, got, x, rows, norm, Product{W: w, Act: vector.SiLU}, Product{W: w})
		}); n > 0 {
			t.Fatalf("%d workers: %v allocations", workers, n)
		}
	}
}

// near reports whether values are the same except for the last bits, which activations at the end of a row may have of their own.
func near(a, b []float32) bool {
	for i, v := range a {
		if d := math.Abs(float64(v - b[i])); !(d <= 1e-6*math.Max(1, math.Abs(float64(v)))) {
			return false
		}
	}
	return true
}
