package weight

import (
	"math"
	"math/rand/v2"
	"slices"
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

// A block is rounded to the same bits alone and among others, whatever these hold: zeros, values that are large, tiny or no numbers.
func TestBlocksAreRoundedAloneAsAmongOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, level := range isa.Levels() {
		for range 300 {
			size, n := kindBlock.blockSize()
			words, blocks := kindBlock.words(size), 1+rng.IntN(13)
			x := randomFloats(rng, size*blocks)
			for b := range blocks {
				one := x[size*b:][:size]
				switch rng.IntN(12) {
				case 0:
					clear(one)
				case 1:
					one[rng.IntN(size)] = 100
				case 2:
					one[rng.IntN(size)] = float32(math.NaN())
				case 3:
					for i := range one {
						one[i] *= 1e-40
					}
				}
			}
			got, marks := make([]float32, words*blocks), make([]float32, n*blocks)
			quantizeRow(level, kindBlock, 20, got, x, marks)
			want, wantMarks := make([]float32, words), make([]float32, n)
			for b := range blocks {
				quantizeRow(level, kindBlock, 20, want, x[size*b:][:size], wantMarks)
				if !slices.Equal(bitsOf(got[words*b:][:words]), bitsOf(want)) || bitsOf(marks[n*b:])[0] != bitsOf(wantMarks)[0] {
					t.Fatalf("%v: block %d of %d, %v, is %v, alone %v", level, b, blocks, x[size*b:][:size], got[words*b:][:words], want)
				}
			}
		}
	}
}

func bitsOf(x []float32) []uint32 {
	all := make([]uint32, len(x))
	for i, v := range x {
		all[i] = math.Float32bits(v)
	}
	return all
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
