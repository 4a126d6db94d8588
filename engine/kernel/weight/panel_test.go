package weight

import (
	"math"
	"math/rand/v2"
	"testing"

	"weir/engine/kernel/isa"
)

// TestValuesThatAreNotFiniteShow: one NaN or infinity anywhere in a block makes
// its scale, and so every product with it, not finite.
func TestValuesThatAreNotFiniteShow(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, level := range isa.Levels() {
		for _, k := range []kind{kindSuper, kindBlock} {
			size, n := k.blockSize()
			words, marks := make([]float32, k.words(size)), make([]float32, n)
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				for i := range size {
					x := randomFloats(rng, size)
					x[i] = float32(bad)
					quantizeRow(level, k, k.limit(false)*rootMeanSquare(level, x), words, x, marks)
					if scale := float64(words[len(words)-1]); !math.IsNaN(scale) && !math.IsInf(scale, 0) {
						t.Fatalf("%v kind %d: %v at %d gives a scale of %v", level, k, bad, i, scale)
					}
				}
			}
		}
	}
}

// A step whose rows are a whole number of panels has no panel that is less than
// full; one row more takes a panel more.
func TestPanelRowsFillPanels(t *testing.T) {
	for _, level := range []isa.Level{isa.AVX512, isa.AVX2, isa.Portable} {
		most := PanelRows(level)
		for n := panelRows/most + 1; n < 20; n++ {
			full, more := cutRows(level, n*most), cutRows(level, n*most+1)
			if full.panels != n || full.size != most || full.extra != 0 || more.panels != n+1 {
				t.Errorf("%v: %d rows are %+v, one more %+v", level, n*most, full, more)
			}
		}
	}
}
