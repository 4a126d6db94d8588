package weight

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/internal/arena"
	"weir/internal/reference"
)

// mixed is a mixture of experts and rows that pass through it.
type mixed struct {
	Mixture
	routes       Routes
	x            []float32
	width, inner int
}

// randomMixture has experts whose matrices are of a type, and routes that leave some of them out and send many rows to others.
func randomMixture(t testing.TB, rng *rand.Rand, typ gguf.Type, width, inner, experts, use, rows int, gated, bias bool) *mixed {
	t.Helper()
	m := &mixed{width: width, inner: inner, Mixture: Mixture{Act: vector.GELU}}
	linear := func(rows, cols int) Linear {
		w, err := NewMatrix(typ, rows, cols, randomRows(rng, typ, rows, cols))
		if err != nil {
			t.Fatal(err)
		}
		l := Linear{W: w}
		if bias {
			l.Bias = randomFloats(rng, rows)
		}
		return l
	}
	for range experts {
		e := Expert{Up: linear(inner, width), Down: linear(width, inner)}
		if gated {
			e.Gate = linear(inner, width)
		}
		m.Experts = append(m.Experts, e)
	}
	m.x = unevenRows(rng, rows, width)
	m.routes.Use = use
	for range rows {
		chosen := rng.Perm(experts - 1)[:use] // the last one has no rows
		if rng.IntN(2) == 0 && !slices.Contains(chosen, 0) {
			chosen[0] = 0
		}
		slices.Sort(chosen)
		for _, e := range chosen {
			m.routes.Expert = append(m.routes.Expert, int32(e))
			m.routes.Share = append(m.routes.Share, rng.Float32())
		}
	}
	return m
}

// alone is what one row gets, each expert's products one by one.
func (m *mixed) alone(c *multiplier, dst []float32, row int) {
	x := m.x[row*m.width : (row+1)*m.width]
	gate, up, down := make([]float32, m.inner), make([]float32, m.inner), make([]float32, m.width)
	for i := range m.routes.Use {
		at := row*m.routes.Use + i
		e := &m.Experts[m.routes.Expert[at]]
		c.MatMul(up, e.Up.W, x, 1, e.Up.Bias)
		if e.Gate.W == nil {
			m.Act.Apply(c.level, up)
		} else if c.MatMul(gate, e.Gate.W, x, 1, e.Gate.Bias); m.Clamp.Limit > 0 {
			m.Clamp.Gate(c.level, up, gate, up)
		} else {
			m.Act.Gate(c.level, up, gate, up)
		}
		c.MatMul(down, e.Down.W, up, 1, e.Down.Bias)
		vector.AddScaled(c.level, dst, down, m.routes.Share[at])
	}
}

// A mixture gives the bits of its experts' products one by one, whatever rows are computed together: for all types, levels and numbers of
// workers, with and without gates, biases and full tiles.
func TestMixturesAreTheirExpertsOneByOne(t *testing.T) {
	for _, typ := range tiledTypes() {
		block := formats[typ].values
		for i, rows := range []int{1, 3, 16, 61} {
			if rows == 61 && reference.Quick() {
				continue // three quarters of the time
			}
			width, inner := max(block, 32)*2, max(block, 32)
			if block == 1 {
				width, inner = 40, 24
			}
			rng := rand.New(rand.NewPCG(uint64(typ), uint64(i)))
			m := randomMixture(t, rng, typ, width, inner, 7, 3, rows, i%2 == 0, i > 1)
			if i == 2 {
				m.Clamp = vector.Clamp{Slope: 1.702, Limit: 0.5}
			}
			before := randomFloats(rng, rows*width)
			for _, level := range isa.Levels() {
				c := newMultiplier(1+i, level)
				got, want := slices.Clone(before), slices.Clone(before)
				c.Mix(got, m.x, rows, Norm{}, &m.Mixture, &m.routes)
				for r := range rows {
					m.alone(c, want[r*width:(r+1)*width], r)
				}
				c.Close()
				if !slices.Equal(bitsOf(got), bitsOf(want)) {
					t.Errorf("%v, %v, %d rows: other bits than expert by expert", typ, level, rows)
				}
			}
		}
	}
}

// A row's mixture is that of doubles except for what rounding activations costs.
func TestMixturesMatchTheirDefinition(t *testing.T) {
	const rows, width, inner = 9, 64, 32
	m := randomMixture(t, rand.New(rand.NewPCG(3, 3)), gguf.TypeF32, width, inner, 5, 2, rows, true, true)
	m.Clamp = vector.Clamp{Slope: 1.702, Limit: 7}
	for _, level := range isa.Levels() {
		c := newMultiplier(2, level)
		got := make([]float32, rows*width)
		c.Mix(got, m.x, rows, Norm{}, &m.Mixture, &m.routes)
		c.Close()
		for r := range rows {
			want := m.defined(r)
			for i, v := range want {
				if d := math.Abs(float64(got[r*width+i]) - v); d > 1e-5*(1+math.Abs(v)) {
					t.Fatalf("%v, row %d, value %d: %g, want %g", level, r, i, got[r*width+i], v)
				}
			}
		}
	}
}

// defined is a row's mixture in doubles.
func (m *mixed) defined(row int) []float64 {
	sum := make([]float64, m.width)
	times := func(l Linear, x []float64) []float64 {
		y, w := make([]float64, l.W.Rows), make([]float32, l.W.Cols)
		for o := range y {
			l.W.DecodeRow(w, o)
			y[o] = float64(l.Bias[o])
			for i, v := range x {
				y[o] += v * float64(w[i])
			}
		}
		return y
	}
	x := make([]float64, m.width)
	for i := range x {
		x[i] = float64(m.x[row*m.width+i])
	}
	for i := range m.routes.Use {
		e := &m.Experts[m.routes.Expert[row*m.routes.Use+i]]
		gate, up := times(e.Gate, x), times(e.Up, x)
		for k, g := range gate {
			g = min(g, float64(m.Clamp.Limit))
			u := min(max(up[k], -float64(m.Clamp.Limit)), float64(m.Clamp.Limit))
			up[k] = g / (1 + math.Exp(-float64(m.Clamp.Slope)*g)) * (u + 1)
		}
		for k, v := range times(e.Down, up) {
			sum[k] += float64(m.routes.Share[row*m.routes.Use+i]) * v
		}
	}
	return sum
}

// A mixture whose size was seen allocates nothing.
func TestMixturesAllocateNothing(t *testing.T) {
	for _, rows := range []int{1, 24} {
		m := randomMixture(t, rand.New(rand.NewPCG(5, 5)), gguf.TypeQ8_0, 64, 32, 7, 3, rows, true, true)
		c := newMultiplier(2, isa.Best())
		defer c.Close()
		dst := make([]float32, rows*m.width)
		run := func() { c.Mix(dst, m.x, rows, Norm{}, &m.Mixture, &m.routes) }
		run()
		if n := testing.AllocsPerRun(10, run); n > 0 {
			t.Errorf("%d rows: %v allocations", rows, n)
		}
	}
}

// BenchmarkMixtures runs rows through a layer of experts of Qwen3-30B-A3B, 8 of 128 each, in one go and one expert after the other; GB/s are
// of the weights of experts that some row meets.
func BenchmarkMixtures(b *testing.B) {
	const width, inner, experts, use, most = 2048, 768, 128, 8, 512
	rng := rand.New(rand.NewPCG(1, 1))
	src := randomRows(rng, gguf.TypeQ4K, width, inner)
	size, err := MatrixBytes(gguf.TypeQ4K, width, inner)
	if err != nil {
		b.Fatal(err)
	}
	memory, err := arena.New(int64(3 * experts * (size + 64)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = memory.Release() })
	linear := func(rows, cols int) Linear {
		data, err := memory.Alloc(size, 64)
		if err != nil {
			b.Fatal(err)
		}
		return Linear{W: packed(b, gguf.TypeQ4K, rows, cols, data, src)}
	}
	m := &mixed{width: width, inner: inner, Mixture: Mixture{Act: vector.SiLU}, x: randomFloats(rng, most*width)}
	for range experts {
		m.Experts = append(m.Experts, Expert{Gate: linear(inner, width), Up: linear(inner, width), Down: linear(width, inner)})
	}
	for _, rows := range []int{1, 4, 16, most} {
		m.routes = Routes{Use: use}
		met := map[int]bool{}
		for range rows {
			chosen := rng.Perm(experts)[:use]
			slices.Sort(chosen)
			for _, e := range chosen {
				met[e] = true
				m.routes.Expert, m.routes.Share = append(m.routes.Expert, int32(e)), append(m.routes.Share, 1.0/use)
			}
		}
		dst := make([]float32, rows*width)
		report := func(b *testing.B) {
			e := &m.Experts[0]
			b.SetBytes(int64(len(met) * (len(e.Gate.W.data) + len(e.Up.W.data) + len(e.Down.W.data))))
		}
		c := newMultiplier(runtime.NumCPU(), isa.Auto)
		b.Run(fmt.Sprintf("together/%d", rows), func(b *testing.B) {
			report(b)
			for b.Loop() {
				c.Mix(dst, m.x, rows, Norm{}, &m.Mixture, &m.routes)
			}
		})
		b.Run(fmt.Sprintf("one-by-one/%d", rows), func(b *testing.B) {
			report(b)
			for b.Loop() {
				m.oneByOne(c, dst, rows)
			}
		})
		c.Close()
	}
}

// oneByOne gives each expert rounds of its own.
func (m *mixed) oneByOne(c *multiplier, dst []float32, rows int) {
	in, down := make([]float32, rows*m.width), make([]float32, rows*m.width)
	inner := make([]float32, rows*m.inner)
	for e := range m.Experts {
		var to []int
		for i, x := range m.routes.Expert {
			if int(x) == e {
				copy(in[len(to)*m.width:], m.x[i/m.routes.Use*m.width:][:m.width])
				to = append(to, i)
			}
		}
		if len(to) == 0 {
			continue
		}
		x := &m.Experts[e]
		c.Gated(inner, in, len(to), Norm{}, Product{W: x.Gate.W, Act: m.Act}, Product{W: x.Up.W})
		c.MatMul(down, x.Down.W, inner, len(to), nil)
		for k, i := range to {
			vector.AddScaled(c.level, dst[i/m.routes.Use*m.width:][:m.width], down[k*m.width:], m.routes.Share[i])
		}
	}
}
