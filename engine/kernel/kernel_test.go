package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
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
		copy(vector.Floats(out), v)
	case gguf.TypeF16:
		for i, x := range v {
			binary.LittleEndian.PutUint16(out[2*i:], vector.F32ToF16(x))
		}
	case gguf.TypeQ8_0:
		weight.QuantizeQ8_0(out, v)
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
		c := NewCPU(threads, isa.Auto)
		defer c.Close()
		for _, typ := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ8_0} {
			for _, s := range [][3]int{{1, 32, 1}, {7, 96, 3}, {300, 64, 33}, {5, 160, 130}} {
				rows, cols, n := s[0], s[1], s[2]
				m, err := weight.NewMatrix(typ, rows, cols, bytesOf(t, typ, randoms(r, rows*cols)))
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
	one, many := NewCPU(1, isa.Auto), NewCPU(4, isa.Auto)
	defer one.Close()
	defer many.Close()
	const rows, cols, n = 130, 96, 41
	m, err := weight.NewMatrix(gguf.TypeQ8_0, rows, cols, bytesOf(t, gguf.TypeQ8_0, randoms(r, rows*cols)))
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
	c := NewCPU(2, isa.Auto)
	defer c.Close()
	const dim, half = 8, 3 // the last two elements are not rotated
	r := rand.New(rand.NewPCG(5, 5))
	for _, style := range []vector.RopeStyle{vector.RopeNorm, vector.RopeNeox} {
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
				c.Rope(y, 1, vector.Rotation{Style: style, Heads: 1, HeadDim: dim, Half: half, Cos: cos, Sin: sin})
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
	c := NewCPU(1, isa.Auto)
	defer c.Close()
	x := []float32{3, 4, 0, 0, 1, 1, 1, 1}
	c.Norm(x, x, weight.Norm{Weight: []float32{1, 2, 1, 1}}, 2)
	for i, want := range []float64{1.2, 3.2, 0, 0, 1, 2, 1, 1} {
		if math.Abs(float64(x[i])-want) > 1e-6 {
			t.Errorf("norm[%d] = %v, want %v", i, x[i], want)
		}
	}
	g := []float32{0, 1, -200, 200}
	c.Gate(vector.SiLU, g, []float32{5, 2, 3, 1}, 1, 4)
	for i, want := range []float64{0, 2 / (1 + math.Exp(-1)), 0, 200} {
		if math.Abs(float64(g[i])-want) > 1e-5 {
			t.Errorf("swiglu[%d] = %v, want %v", i, g[i], want)
		}
	}
}

// Cutting the batch over workers changes no bit of any element-wise operation.
func TestVectorOperationsDoNotDependOnWorkers(t *testing.T) {
	const rows, width = 37, 515
	for _, level := range isa.Levels() {
		r := rand.New(rand.NewPCG(10, 10))
		x, y, w := randoms(r, rows*width), randoms(r, rows*width), randoms(r, width)
		run := func(threads int) []float32 {
			c := NewCPU(threads, level)
			defer c.Close()
			out := slices.Clone(x)
			c.Norm(out, out, weight.Norm{Weight: w, Eps: 1e-6}, rows)
			c.Gate(vector.SiLU, out, y, rows, width)
			return out
		}
		one := run(1)
		for i := range rows { // and no row depends on the others
			row := slices.Clone(x[i*width : (i+1)*width])
			vector.Norm(level, row, row, w, 1e-6)
			vector.SwiGLU(level, row, row, y[i*width:])
			if !slices.Equal(row, one[i*width:(i+1)*width]) {
				t.Fatalf("%v: row %d alone has other bits", level, i)
			}
		}
		if !slices.Equal(one, run(4)) {
			t.Errorf("%v: four workers give other bits than one", level)
		}
	}
}

func TestVectorOperationsAllocateNothing(t *testing.T) {
	const rows, width, headDim = 64, 512, 64
	r := rand.New(rand.NewPCG(11, 11))
	x, y, w := randoms(r, rows*width), randoms(r, rows*width), randoms(r, width)
	angles := randoms(r, rows*headDim/2)
	for _, level := range isa.Levels() {
		c := NewCPU(2, level)
		defer c.Close()
		step := func() {
			c.Norm(x, x, weight.Norm{Weight: w, Eps: 1e-6}, rows)
			c.Gate(vector.SiLU, x, y, rows, width)
			c.Rope(x, rows, vector.Rotation{
				Style: vector.RopeNeox, Heads: width / headDim, HeadDim: headDim, Half: headDim / 2, Cos: angles, Sin: angles,
			})
			vector.Weigh(level, x[:width], width, width, []vector.Seen{{N: width}}, make([]vector.Softmax, 1))
			vector.AbsMax(level, x)
		}
		if n := testing.AllocsPerRun(20, step); n > 0 {
			t.Errorf("%v: %v allocations per step", level, n)
		}
	}
}

// Gated is two products and SwiGLU, whether or not it can be fused.
func TestGatedIsTwoProductsAndSwiGLU(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, level := range isa.Levels() {
		c := NewCPU(2, level)
		defer c.Close()
		for _, rows := range []int{48, 50} { // 50: the form that is not fused
			const cols, n = 64, 11
			gate, err := weight.NewMatrix(gguf.TypeQ8_0, rows, cols, bytesOf(t, gguf.TypeQ8_0, randoms(r, rows*cols)))
			if err != nil {
				t.Fatal(err)
			}
			up, err := weight.NewMatrix(gguf.TypeF16, rows, cols, bytesOf(t, gguf.TypeF16, randoms(r, rows*cols)))
			if err != nil {
				t.Fatal(err)
			}
			x, bias := randoms(r, n*cols), randoms(r, rows)
			g, u, got := make([]float32, n*rows), make([]float32, n*rows), make([]float32, n*rows)
			c.Products(x, n, weight.Norm{}, weight.Product{Dst: g, W: gate, Bias: bias}, weight.Product{Dst: u, W: up})
			c.Gate(vector.SiLU, g, u, n, rows)
			c.Gated(got, x, n, weight.Norm{}, weight.Product{W: gate, Bias: bias}, weight.Product{W: up})
			if !slices.Equal(got, g) {
				t.Errorf("%v, %d rows: other bits than the parts", level, rows)
			}
		}
	}
}

func TestOperationsAllocateNothing(t *testing.T) {
	c := NewCPU(2, isa.Auto)
	defer c.Close()
	r := rand.New(rand.NewPCG(6, 6))
	m, err := weight.NewMatrix(gguf.TypeQ8_0, 128, 128, bytesOf(t, gguf.TypeQ8_0, randoms(r, 128*128)))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := attend.NewPages(attend.Tables{{Layers: 1, KVHeads: 2, HeadDim: 32, BlockTokens: 16, Blocks: 4}})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	x, y := randoms(r, 8*128), make([]float32, 8*128)
	spans := []attend.Span{{Row: 0, Count: 8, Start: 4, Blocks: []kvcache.BlockID{1, 2}}}
	step := func() {
		c.MatMul(y, m, x, 8, nil)
		c.Norm(y, y, weight.Norm{Weight: x[:128], Eps: 1e-5}, 8)
		c.Attention(attend.Query{Out: y, Q: x, KV: kv.Table(0), Heads: 4, Spans: spans, Scale: 1})
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
