package kernel

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/kvcache"
)

func randoms(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// bytesOf stores floats in a type that keeps them near enough.
func bytesOf(t *testing.T, typ gguf.Type, v []float32) []byte {
	t.Helper()
	elems, size, _ := typ.Block()
	out := make([]byte, len(v)/elems*size)
	switch typ {
	case gguf.TypeF32:
		copy(Floats(out), v)
	case gguf.TypeF16:
		encode(KVF16, out, v)
	case gguf.TypeQ8_0:
		encode(KVQ8, out, v)
	default:
		t.Fatalf("no encoder for %v", typ)
	}
	return out
}

func near(a, b []float32) float64 {
	diff, norm := 0.0, 0.0
	for i := range a {
		diff += float64(a[i]-b[i]) * float64(a[i]-b[i])
		norm += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(diff / (norm + 1e-30))
}

func TestMatMulEqualsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 3} {
		c := NewCPU(threads, AutoLevel)
		defer c.Close()
		for _, typ := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ8_0} {
			for _, s := range [][3]int{{1, 32, 1}, {7, 96, 3}, {300, 64, 33}, {5, 160, 130}} {
				rows, cols, n := s[0], s[1], s[2]
				m, err := NewMatrix(typ, rows, cols, bytesOf(t, typ, randoms(r, rows*cols)))
				if err != nil {
					t.Fatal(err)
				}
				x, bias := randoms(r, n*cols), randoms(r, rows)
				got, want := make([]float32, n*rows), make([]float32, n*rows)
				c.MatMul(got, m, x, n, bias)
				w := make([]float32, cols)
				for o := range rows {
					m.DecodeRow(w, o)
					for i := range n {
						sum := float64(bias[o])
						for k := range cols {
							sum += float64(w[k]) * float64(x[i*cols+k])
						}
						want[i*rows+o] = float32(sum)
					}
				}
				limit := 1e-6
				if typ == gguf.TypeQ8_0 {
					limit = 0.02 // activations are rounded to int8; TestProductsMatchTheReference is exact about it
				}
				if e := near(got, want); e > limit {
					t.Errorf("%v %dx%d, %d rows, %d threads: relative error %g", typ, rows, cols, n, threads, e)
				}
			}
		}
	}
}

func TestARowsProductDoesNotDependOnItsCompany(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	one, many := NewCPU(1, AutoLevel), NewCPU(4, AutoLevel)
	defer one.Close()
	defer many.Close()
	const rows, cols, n = 130, 96, 41
	m, err := NewMatrix(gguf.TypeQ8_0, rows, cols, bytesOf(t, gguf.TypeQ8_0, randoms(r, rows*cols)))
	if err != nil {
		t.Fatal(err)
	}
	x := randoms(r, n*cols)
	all, alone := make([]float32, n*rows), make([]float32, rows)
	many.MatMul(all, m, x, n, nil)
	for i := range n {
		one.MatMul(alone, m, x[i*cols:(i+1)*cols], 1, nil)
		if !slices.Equal(alone, all[i*rows:(i+1)*rows]) {
			t.Fatalf("row %d differs between a batch of %d and one alone", i, n)
		}
	}
}

func TestRopeKeepsLengthAndRelativeAngle(t *testing.T) {
	c := NewCPU(2, AutoLevel)
	defer c.Close()
	const dim, half = 8, 3 // the last two elements are not rotated
	r := rand.New(rand.NewPCG(5, 5))
	for _, style := range []RopeStyle{RopeNorm, RopeNeox} {
		products := make([]float64, 0, 4)
		q, k := randoms(r, dim), randoms(r, dim)
		for _, shift := range []float64{0, 3, 11, 100} {
			rot := func(x []float32, pos float64) []float32 {
				cos, sin := make([]float32, half), make([]float32, half)
				for i := range half {
					s, co := math.Sincos(pos / math.Pow(100, float64(i)/half))
					cos[i], sin[i] = float32(co), float32(s)
				}
				y := slices.Clone(x)
				c.Rope(y, 1, 1, dim, cos, sin, half, style)
				if !slices.Equal(y[2*half:], x[2*half:]) {
					t.Fatalf("style %d rotated beyond its %d pairs", style, half)
				}
				return y
			}
			products = append(products, float64(dot(rot(q, 7+shift), rot(k, 2+shift))))
		}
		for _, p := range products[1:] {
			if math.Abs(p-products[0]) > 1e-4 {
				t.Errorf("style %d: products %v depend on the absolute position", style, products)
			}
		}
	}
}

func TestRMSNormAndSwiGLU(t *testing.T) {
	c := NewCPU(1, AutoLevel)
	defer c.Close()
	x := []float32{3, 4, 0, 0, 1, 1, 1, 1}
	c.RMSNorm(x, x, []float32{1, 2, 1, 1}, 2, 0)
	for i, want := range []float64{1.2, 3.2, 0, 0, 1, 2, 1, 1} {
		if math.Abs(float64(x[i])-want) > 1e-6 {
			t.Errorf("norm[%d] = %v, want %v", i, x[i], want)
		}
	}
	g := []float32{0, 1, -200, 200}
	c.SwiGLU(g, []float32{5, 2, 3, 1}, 1, 4)
	for i, want := range []float64{0, 2 / (1 + math.Exp(-1)), 0, 200} {
		if math.Abs(float64(g[i])-want) > 1e-5 {
			t.Errorf("swiglu[%d] = %v, want %v", i, g[i], want)
		}
	}
}

func TestNewMatrixRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		typ        gguf.Type
		rows, cols int
		size       int
		want       error
	}{
		{gguf.TypeQ8_0, 2, 33, 0, ErrShape},
		{gguf.TypeF32, 0, 4, 0, ErrShape},
		{gguf.TypeF32, 2, 4, 31, ErrShape},
		{gguf.TypeF32, 1 << 40, 1 << 40, 0, ErrShape},
		{gguf.Type(99), 1, 1, 1, gguf.ErrUnsupportedType},
	} {
		if _, err := NewMatrix(c.typ, c.rows, c.cols, make([]byte, c.size)); !errors.Is(err, c.want) {
			t.Errorf("%v %dx%d: %v, want %v", c.typ, c.rows, c.cols, err, c.want)
		}
	}
}

func TestOperationsAllocateNothing(t *testing.T) {
	c := NewCPU(2, AutoLevel)
	defer c.Close()
	r := rand.New(rand.NewPCG(6, 6))
	m, err := NewMatrix(gguf.TypeQ8_0, 128, 128, bytesOf(t, gguf.TypeQ8_0, randoms(r, 128*128)))
	if err != nil {
		t.Fatal(err)
	}
	kv := newKV(t, KVF16, 16, 4, 2, 32)
	x, y := randoms(r, 8*128), make([]float32, 8*128)
	spans := []Span{{Row: 0, Count: 8, Start: 4, Blocks: []kvcache.BlockID{1, 2}}}
	step := func() {
		c.MatMul(y, m, x, 8, nil)
		c.RMSNorm(y, y, x[:128], 8, 1e-5)
		c.Attention(y, x, kv, 0, 4, spans, 1)
	}
	step()
	if n := testing.AllocsPerRun(20, step); n > 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func dot(a, b []float32) float32 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return float32(sum)
}
