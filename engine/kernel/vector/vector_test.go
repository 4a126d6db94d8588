package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
)

func randoms(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// widths are lengths at, below and beyond every register's and unrolled loop's.
func widths() []int {
	all := []int{2048, 8192 + 3}
	for n := 1; n <= 70; n++ {
		all = append(all, n)
	}
	return all
}

// overLevels runs f at each level of the machine for each width, with n random
// floats in front of others that f must not touch.
func overLevels(t *testing.T, f func(t *testing.T, level isa.Level, r *rand.Rand, n int)) {
	for _, level := range isa.Levels() {
		t.Run(level.String(), func(t *testing.T) {
			for _, n := range widths() {
				f(t, level, rand.New(rand.NewPCG(9, uint64(n))), n)
			}
		})
	}
}

const untouched = 12345

// guarded is n random floats of a larger array, whose rest is untouched.
func guarded(r *rand.Rand, n int) []float32 {
	x := randoms(r, n+20)
	for i := n; i < len(x); i++ {
		x[i] = untouched
	}
	return x[:n]
}

func checkGuard(t *testing.T, x []float32) {
	t.Helper()
	rest := x[len(x):cap(x)]
	if i := slices.IndexFunc(rest, func(f float32) bool { return f != untouched }); i >= 0 {
		t.Fatalf("%d elements: element %d was written", len(x), len(x)+i)
	}
}

// closeTo fails unless got is within a relative error of want.
func closeTo(t *testing.T, what string, got float32, want, limit float64) {
	t.Helper()
	if d := math.Abs(float64(got) - want); d > limit*math.Abs(want) || math.IsNaN(d) {
		t.Fatalf("%s: %g, want %g, relative error %.3g", what, got, want, d/math.Abs(want))
	}
}

func TestNormEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		x, w, dst := guarded(r, n), guarded(r, n), guarded(r, n)
		sum := 0.0
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(n)+1e-5)
		Norm(level, dst, x, w, 1e-5)
		checkGuard(t, dst)
		for i := range dst {
			closeTo(t, fmt.Sprint(n, " elements, ", i), dst[i], float64(x[i])*scale*float64(w[i]), 4e-7)
		}
		Norm(level, x, x, w, 1e-5)
		if !slices.Equal(x, dst) {
			t.Fatalf("%d elements: in place gives other bits", n)
		}
	})
}

func TestSwiGLUEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		gate, up := guarded(r, n), guarded(r, n)
		for i := range gate {
			gate[i] *= float32(1 + i%20)
		}
		dst := guarded(r, n)
		SwiGLU(level, dst, gate, up)
		checkGuard(t, dst)
		for i := range dst {
			g := float64(gate[i])
			closeTo(t, fmt.Sprint("silu of ", g), dst[i], g/(1+math.Exp(-g))*float64(up[i]), 4e-7)
		}
		SwiGLU(level, gate, gate, up)
		if !slices.Equal(gate, dst) {
			t.Fatalf("%d elements: in place gives other bits", n)
		}
	})
}

func TestSwigluAtTheLimits(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, level := range isa.Levels() {
		gate := []float32{0, 1e-30, -1e-30, 87, -87, 200, -200, 3e38, -3e38, inf, nan, 1, 1}
		up := []float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, nan, inf}
		want := []float32{0, 5e-31, -5e-31, 87, float32(-87 * math.Exp(-87)), 200, 0, 3e38, 0, inf, nan, nan, inf}
		got := make([]float32, len(gate))
		SwiGLU(level, got, gate, up)
		for i := range got {
			switch {
			case want[i] != want[i]:
				if got[i] == got[i] {
					t.Errorf("%v: silu(%g)*%g = %g, want NaN", level, gate[i], up[i], got[i])
				}
			case got[i] != want[i] && !(math.Abs(float64(got[i]-want[i])) <= 1e-6*math.Abs(float64(want[i]))):
				t.Errorf("%v: silu(%g)*%g = %g, want %g", level, gate[i], up[i], got[i], want[i])
			}
		}
	}
}

// Every level's exponential over its whole range, the edges of underflow and
// overflow included.
func TestExpIsExactToTwoUlp(t *testing.T) {
	for _, level := range isa.Levels() {
		worst := 0.0
		x := make([]float32, 1<<12)
		for lo := -105.0; lo < 90; lo += 0.5 {
			for i := range x {
				x[i] = float32(lo + 0.5*float64(i)/float64(len(x)))
			}
			y := slices.Clone(x)
			BlockWeights(level, make([]float64, ReduceBlocks(len(y))), y, 0, 1)
			for i, got := range y {
				want := math.Exp(float64(x[i]))
				switch {
				case want > math.MaxFloat32:
					if want > 1.000001*math.MaxFloat32 && !math.IsInf(float64(got), 1) {
						t.Fatalf("%v: Exp(%g) = %g, want +Inf", level, x[i], got)
					}
				case want < 0x1p-126: // to a denormal's step
					if math.Abs(float64(got)-want) > 0x1p-149 {
						t.Fatalf("%v: Exp(%g) = %g, want %g", level, x[i], got, want)
					}
				default:
					worst = max(worst, math.Abs(float64(got)/want-1))
				}
			}
		}
		if worst > 2e-7 {
			t.Errorf("%v: relative error of Exp up to %.3g", level, worst)
		}
		edge := []float32{float32(math.Inf(-1)), float32(math.Inf(1)), -1e30, 1e30, 0}
		BlockWeights(level, make([]float64, 1), edge, 0, 1)
		if edge[0] != 0 || !math.IsInf(float64(edge[1]), 1) || edge[2] != 0 || !math.IsInf(float64(edge[3]), 1) || edge[4] != 1 {
			t.Errorf("%v: Exp of -Inf, Inf, -1e30, 1e30, 0 is %v", level, edge)
		}
	}
}

func softmaxOf(level isa.Level, s []float32) Softmax {
	var out [1]Softmax
	Weigh(level, s, len(s), len(s), []Seen{{0, len(s)}}, out[:])
	return out[0]
}

func TestSoftmaxEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		s := guarded(r, n)
		for i := range s {
			s[i] = s[i]*4 - 50 // all below 0, as the lanes beyond the end are not
		}
		x := slices.Clone(s)
		top := float64(slices.Max(s))
		got := softmaxOf(level, s)
		checkGuard(t, s)
		want := 0.0
		for i := range x {
			e := math.Exp(float64(x[i]) - top)
			want += e
			closeTo(t, fmt.Sprint("weight of ", x[i]), s[i], e, 3e-7+1e-7*math.Abs(float64(x[i])-top))
		}
		closeTo(t, fmt.Sprint("sum of ", n), got.Sum, want, 3e-6)
		if got.Top != float32(top) {
			t.Errorf("the top of %d is %g, want %g", n, got.Top, top)
		}
	})
	for _, level := range isa.Levels() {
		for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			if s := softmaxOf(level, []float32{1, odd, 2}); s.Sum == s.Sum {
				t.Errorf("%v: %v among the scores: sum %v", level, odd, s.Sum)
			}
		}
		if s := softmaxOf(level, nil); s.Sum != 0 {
			t.Errorf("%v: sum of nothing: %v", level, s.Sum)
		}
		low := []float32{0, -50, -104, -1e30, float32(math.Inf(-1))}
		if s := softmaxOf(level, low); s.Sum != 1 || low[0] != 1 || low[1] == 0 || low[2] != 0 || low[3] != 0 || low[4] != 0 {
			t.Errorf("%v: weights of 0, -50, -104, -1e30, -Inf are %v", level, low)
		}
	}
}

// Rows have the bits that each has alone, what does not count is zero, and nothing is written beyond a row's width.
func TestRowsAreWeighedEachByItself(t *testing.T) {
	const stride = 91
	r := rand.New(rand.NewPCG(31, 1))
	for _, level := range isa.Levels() {
		for width := range stride {
			x, seen := randoms(r, 5*stride), make([]Seen, 5)
			for i := range seen {
				seen[i].First = r.IntN(width + 1)
				seen[i].N = r.IntN(width - seen[i].First + 1)
			}
			seen[2] = Seen{N: width}
			got, out := slices.Clone(x), make([]Softmax, len(seen))
			Weigh(level, got, stride, width, seen, out)
			for i, s := range seen {
				row, want := got[i*stride:(i+1)*stride], slices.Clone(x[i*stride:(i+1)*stride])
				alone := softmaxOf(level, want[s.First:s.First+s.N])
				clear(want[:s.First])
				clear(want[s.First+s.N : width])
				if !slices.Equal(row, want) || out[i].Sum != alone.Sum || s.N > 0 && out[i].Top != alone.Top {
					t.Fatalf("%v: row %d with scores %+v of %d differs from the same scores alone", level, i, s, width)
				}
			}
		}
	}
}

func TestAbsMaxFindsTheLargest(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		x := guarded(r, n)
		top := float32(0)
		for _, v := range x {
			top = max(top, v, -v)
		}
		if got := AbsMax(level, x); got != top {
			t.Fatalf("%d elements: AbsMax %g, want %g", n, got, top)
		}
		x[n/2] = -99 // found wherever it stands
		if got := AbsMax(level, x); got != 99 {
			t.Fatalf("%d elements: AbsMax %g, want 99", n, got)
		}
		x[n-1] = float32(math.NaN())
		if got := AbsMax(level, x); got == got {
			t.Fatalf("%d elements with a NaN: AbsMax %g", n, got)
		}
	})
}

func TestRopeEqualsTheDefinition(t *testing.T) {
	const heads = 3
	for _, level := range isa.Levels() {
		for _, style := range []RopeStyle{RopeNorm, RopeNeox} {
			for half := 1; half <= 70; half++ {
				for _, headDim := range []int{2 * half, 2*half + 5} {
					r := rand.New(rand.NewPCG(uint64(half), uint64(headDim)))
					x, cos, sin := guarded(r, heads*headDim), guarded(r, half), guarded(r, half)
					want := make([]float64, len(x))
					for i := range x {
						want[i] = float64(x[i])
					}
					for h := range heads {
						for i := range half {
							a, b := h*headDim+i, h*headDim+half+i
							if style == RopeNorm {
								a, b = h*headDim+2*i, h*headDim+2*i+1
							}
							u, v, c, s := want[a], want[b], float64(cos[i]), float64(sin[i])
							want[a], want[b] = u*c-v*s, u*s+v*c
						}
					}
					rotation := Rotation{Style: style, Heads: heads, HeadDim: headDim, Half: half, Cos: cos, Sin: sin}
					rotation.Rope(level, x, 0)
					checkGuard(t, x)
					for i := range x {
						if d := math.Abs(float64(x[i]) - want[i]); d > 1e-6 {
							t.Fatalf("%v, style %d, %d pairs of %d: element %d is %g, want %g", level, style, half, headDim, i, x[i], want[i])
						}
					}
				}
			}
		}
	}
}

func BenchmarkRow(b *testing.B) {
	const n = 2048
	r := rand.New(rand.NewPCG(12, 12))
	x, y, w := randoms(r, n), randoms(r, n), randoms(r, n)
	neox := Rotation{Style: RopeNeox, Heads: n / 64, HeadDim: 64, Half: 32, Cos: y, Sin: w}
	pairs := neox
	pairs.Style = RopeNorm
	for _, level := range isa.Levels() {
		for _, op := range []struct {
			name string
			f    func()
		}{
			{"norm", func() { Norm(level, w, x, y, 1e-6) }},
			{"swiglu", func() { SwiGLU(level, w, x, y) }},
			{"softmax", func() { copy(w, x); softmaxOf(level, w) }},
			{"absmax", func() { AbsMax(level, x) }},
			{"neox", func() { neox.Rope(level, x, 0) }},
			{"ropenorm", func() { pairs.Rope(level, x, 0) }},
		} {
			b.Run(fmt.Sprintf("op=%s/level=%v", op.name, level), func(b *testing.B) {
				for b.Loop() {
					op.f()
				}
			})
		}
	}
}

func TestLayerNormEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		x, w, b, dst := guarded(r, n), guarded(r, n), guarded(r, n), guarded(r, n)
		mean, variance := 0.0, 0.0
		for i := range x {
			x[i] += 3
			mean += float64(x[i]) / float64(n)
		}
		for _, v := range x {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
		}
		LayerNorm(level, dst, x, w, b, 1e-5)
		checkGuard(t, dst)
		for i := range dst {
			f := 1 / math.Sqrt(variance+1e-5)
			want := (float64(x[i])-mean)*f*float64(w[i]) + float64(b[i])
			// The mean is rounded to a float, and near-constant rows magnify that.
			if d := math.Abs(float64(dst[i]) - want); !(d <= 1e-6*(math.Abs(want)+f*math.Abs(mean)+1)) {
				t.Fatalf("%d elements, %d: %g, want %g", n, i, dst[i], want)
			}
		}
		LayerNorm(level, x, x, w, b, 1e-5)
		if !slices.Equal(x, dst) {
			t.Fatalf("%d elements: in place gives other bits", n)
		}
	})
}

func TestGELUEqualsTheDefinition(t *testing.T) {
	gelu := func(g float64) float64 { return g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) }
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		gate, up := guarded(r, n), guarded(r, n)
		for i := range gate {
			gate[i] *= float32(1 + i%9)
		}
		dst := guarded(r, n)
		GELU.Gate(level, dst, gate, up)
		checkGuard(t, dst)
		for i := range dst {
			g := float64(gate[i])
			if d := math.Abs(float64(dst[i]) - gelu(g)*float64(up[i])); !(d <= 6e-7*math.Abs(g*float64(up[i]))) {
				t.Fatalf("geglu of %g: off by %g", g, d)
			}
		}
		x := slices.Clone(gate)
		GELU.Apply(level, gate)
		checkGuard(t, gate)
		for i := range x {
			if d := math.Abs(float64(gate[i]) - gelu(float64(x[i]))); !(d <= 5e-7*math.Abs(float64(x[i]))) {
				t.Fatalf("gelu of %g: off by %g", x[i], d)
			}
		}
	})
}

func TestGELUAtTheLimits(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, level := range isa.Levels() {
		x := []float32{0, 30, -30, 3e38, -3e38, inf, nan}
		want := []float32{0, 30, 0, 3e38, 0, inf, nan}
		GELU.Apply(level, x)
		for i := range x {
			if x[i] != want[i] && !(x[i] != x[i] && want[i] != want[i]) {
				t.Errorf("%v: gelu number %d is %g, want %g", level, i, x[i], want[i])
			}
		}
	}
}

func TestSoftCapEqualsTheDefinition(t *testing.T) {
	overLevels(t, func(t *testing.T, level isa.Level, r *rand.Rand, n int) {
		x := guarded(r, n)
		for i := range x {
			x[i] *= float32(math.Pow(10, float64(i%7)-4))
		}
		was := slices.Clone(x)
		SoftCap(level, x, 30)
		checkGuard(t, x)
		for i, v := range was {
			want := 30 * math.Tanh(float64(v)/30)
			if d := math.Abs(float64(x[i]) - want); !(d <= 5e-7*math.Abs(want)) {
				t.Fatalf("%g becomes %g, want %g", v, x[i], want)
			}
		}
	})
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, level := range isa.Levels() {
		x := []float32{0, 1e6, -1e6, 3e38, -3e38, inf, -inf, nan}
		want := []float32{0, 30, -30, 30, -30, 30, -30, nan}
		SoftCap(level, x, 30)
		for i := range x {
			if !(math.Abs(float64(x[i]-want[i])) <= 1e-5) && !(x[i] != x[i] && want[i] != want[i]) {
				t.Errorf("%v: number %d is %g, want %g", level, i, x[i], want[i])
			}
		}
	}
}
