package vector

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"weir/engine/kernel/isa"
)

func TestMultiplyIsTheSameAtEveryLevel(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		for _, k := range []int{0, 1, 3, 40} {
			if n > 100 && k > 3 {
				continue
			}
			x, w, dst := guarded(r, k), guarded(r, k*n), guarded(r, n)
			Multiply(level, dst, x, w)
			checkGuard(t, dst)
			for i, got := range dst {
				want := float32(0)
				for j, a := range x {
					want = FusedMultiplyAdd(a, w[j*n+i], want)
				}
				if math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("%d x %d, column %d: %g, not %g", k, n, i, got, want)
				}
			}
		}
	})
}

func TestMultiplyRowsEqualsRowByRow(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		const m, k = 3, 5
		x, w, dst, row := guarded(r, m*k), guarded(r, k*n), guarded(r, m*n), guarded(r, n)
		MultiplyRows(level, dst, x, w, m, k, n)
		checkGuard(t, dst)
		for i := range m {
			Multiply(level, row, x[i*k:(i+1)*k], w)
			for j, want := range row {
				if got := dst[i*n+j]; math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("row %d, column %d of %d: %g, not %g", i, j, n, got, want)
				}
			}
		}
	})
}

func TestFusedMultiplyAddRoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		a, b := random32(r), random32(r)
		c := random32(r)
		if r.IntN(2) == 0 { // so close that the product's last bits decide
			c = -a * b * (1 + float32(r.IntN(5)-2)*float32(int(1)<<r.IntN(20))/(1<<23))
		}
		exact := new(big.Float).SetPrec(2000).SetFloat64(float64(a))
		exact.Mul(exact, big.NewFloat(float64(b)))
		exact.Add(exact, big.NewFloat(float64(c)))
		want, _ := exact.Float32()
		if got := FusedMultiplyAdd(a, b, c); got != want {
			t.Fatalf("%g*%g+%g is %g, not %g", a, b, c, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for _, v := range [][3]float32{{inf, 0, 1}, {inf, 1, -inf}, {1, 1, float32(math.NaN())}} {
		if got := FusedMultiplyAdd(v[0], v[1], v[2]); !math.IsNaN(float64(got)) {
			t.Errorf("%v is %g", v, got)
		}
	}
	if got := FusedMultiplyAdd(inf, 2, 1); got != inf {
		t.Errorf("%g", got)
	}
}

func random32(r *rand.Rand) float32 {
	return float32(math.Ldexp(r.Float64()*2-1, r.IntN(60)-30))
}

func BenchmarkMultiply(b *testing.B) {
	for _, size := range [][2]int{{6, 24}, {64, 64}, {256, 100}} {
		k, n := size[0], size[1]
		r := rand.New(rand.NewPCG(1, 2))
		x, w, dst := randoms(r, k), randoms(r, k*n), make([]float32, n)
		for _, level := range isa.Levels() {
			b.Run(fmt.Sprint(k, "x", n, "/", level), func(b *testing.B) {
				for b.Loop() {
					Multiply(level, dst, x, w)
				}
				b.ReportMetric(float64(2*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
			})
		}
	}
}
