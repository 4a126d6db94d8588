package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weir/engine/kernel/isa"
)

func TestClampEqualsTheDefinition(t *testing.T) {
	c := Clamp{Slope: 1.702, Limit: 7}
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		gate, up, dst := guarded(r, n), guarded(r, n), guarded(r, n)
		for i := range gate {
			gate[i] *= float32(1 + i%9)
			up[i] *= float32(1 + i%7)
		}
		c.Gate(level, dst, gate, up)
		checkGuard(t, dst)
		for i := range dst {
			g, u := min(float64(gate[i]), 7), max(-7, min(float64(up[i]), 7))
			want := g / (1 + math.Exp(-float64(c.Slope)*g)) * (u + 1)
			if d := math.Abs(float64(dst[i]) - want); d > 5e-7*math.Abs(g)*(1+math.Abs(u)) {
				t.Fatalf("gate %g, up %g: %g, want %g", gate[i], up[i], dst[i], want)
			}
		}
	})
}

func TestClampKeepsWhatIsNotANumber(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, level := range isa.Levels() {
		gate, up := []float32{nan, 1, inf, 1, -inf}, []float32{1, nan, 1, -inf, 1}
		dst := make([]float32, len(gate))
		Clamp{Slope: 1.702, Limit: 7}.Gate(level, dst, gate, up)
		for i, v := range dst {
			if (v != v) != (i < 2 || i == 4) { // -Inf/Inf, as of SwiGLU
				t.Errorf("%v: gate %g, up %g: %g", level, gate[i], up[i], v)
			}
		}
	}
}

func TestAddScaledEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		dst, x := guarded(r, n), guarded(r, n)
		want := make([]float64, n)
		for i := range want {
			want[i] = float64(dst[i]) + float64(x[i])*1.25
		}
		AddScaled(level, dst, x, 1.25)
		checkGuard(t, dst)
		for i := range dst {
			if d := math.Abs(float64(dst[i]) - want[i]); d > 3e-7*(math.Abs(want[i])+math.Abs(float64(x[i]))) {
				t.Fatal(fmt.Sprint(n, " elements, ", i), dst[i], want[i])
			}
		}
	})
}
