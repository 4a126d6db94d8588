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

// needPairs skips where the processor has no products of bfloat16.
func needPairs(t testing.TB) {
	t.Helper()
	if !HasPairs(isa.Best()) {
		t.Skip("no AVX512_BF16 here")
	}
}

// pairMatrix is a matrix of the values in pairs.
func pairMatrix(t testing.TB, rows, cols int, values []float32) *Matrix {
	t.Helper()
	n, err := PairBytes(rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPairPacker(rows, cols, make([]byte, n))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(AppendBF16(nil, values)); err != nil {
		t.Fatal(err)
	}
	m, err := p.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bf16 are the values that a product of pairs sees.
func bf16(x []float32) []float32 {
	seen := make([]float32, len(x))
	Decode(gguf.TypeBF16, seen, AppendBF16(nil, x))
	return seen
}

// TestPairsMatchTheReference compares products of all numbers of rows with sums in float64 of the rounded values.
func TestPairsMatchTheReference(t *testing.T) {
	needPairs(t)
	rng := rand.New(rand.NewPCG(3, 9))
	c := newMultiplier(2, isa.AVX512)
	defer c.Close()
	for _, shape := range []productShape{{16, 16, 1}, {1, 32, 3}, {33, 48, 2}, {40, 16, 8}, {17, 80, 9}, {160, 384, 21}, {64, 32, 4}, {128, 96, 17}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			rows, cols, n := shape.rows, shape.cols, shape.n
			values, x := randomFloats(rng, rows*cols), randomFloats(rng, n*cols)
			bias, before := randomFloats(rng, rows), randomFloats(rng, n*rows)
			m, got := pairMatrix(t, rows, cols, values), slices.Clone(before)
			c.Products(x, n, Norm{}, Product{Dst: got, W: m, Bias: bias, Add: true})
			seen, w := bf16(x), make([]float32, cols)
			for o := range rows {
				if m.DecodeRow(w, o); !slices.Equal(w, bf16(values[o*cols:(o+1)*cols])) {
					t.Fatalf("row %d is not what was packed", o)
				}
				for r := range n {
					sum, size := float64(bias[o])+float64(before[r*rows+o]), 1.0
					for i, v := range w {
						p := float64(v) * float64(seen[r*cols+i])
						sum, size = sum+p, size+math.Abs(p)
					}
					if off := math.Abs(float64(got[r*rows+o]) - sum); !(off <= 2e-6*size) {
						t.Fatalf("output %d of row %d is %v, want %v", o, r, got[r*rows+o], sum)
					}
				}
			}
		})
	}
}

// TestPairsDoNotDependOnTheBatch compares the bits of rows alone with those of rows together.
func TestPairsDoNotDependOnTheBatch(t *testing.T) {
	needPairs(t)
	one, three := newMultiplier(1, isa.AVX512), newMultiplier(3, isa.AVX512)
	defer one.Close()
	defer three.Close()
	rng := rand.New(rand.NewPCG(5, 9))
	const rows, cols, n = 182, 64, 27
	m, x := pairMatrix(t, rows, cols, randomFloats(rng, rows*cols)), randomFloats(rng, n*cols)
	norm := Norm{Weight: randomFloats(rng, cols), Bias: randomFloats(rng, cols), Eps: 1e-5}
	together, alone := make([]float32, n*rows), make([]float32, n*rows)
	three.Products(x, n, norm, Product{Dst: together, W: m, Act: vector.GELU})
	for r := range n {
		one.Products(x[r*cols:(r+1)*cols], 1, norm, Product{Dst: alone[r*rows : (r+1)*rows], W: m, Act: vector.GELU})
	}
	for i := range alone {
		if math.Float32bits(alone[i]) != math.Float32bits(together[i]) {
			t.Fatalf("output %d of row %d is %v alone and %v among %d rows", i%rows, i/rows, alone[i], together[i], n)
		}
	}
}

// TestPairsRoundToTheNearest compares the rounding of panels with roundBF16, and that with the distance to both neighbours.
func TestPairsRoundToTheNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 9))
	x := []float32{0, float32(math.Copysign(0, -1)), 1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32,
		math.Float32frombits(0x7fffffff), math.Float32frombits(0xffffffff), math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000)}
	for len(x) < 4096 {
		x = append(x, math.Float32frombits(rng.Uint32()))
	}
	for i, v := range bf16(x) {
		down, up := math.Float32frombits(math.Float32bits(x[i])&0xffff0000), math.Float32frombits(math.Float32bits(x[i])&0xffff0000+0x10000)
		switch {
		case x[i] != x[i]:
			if v == v {
				t.Errorf("no number becomes %v", v)
			}
		case v != down && v != up:
			t.Errorf("%v becomes %v", x[i], v)
		case !math.IsInf(float64(v), 0) && math.Abs(float64(v)-float64(x[i])) > math.Abs(float64(down)-float64(x[i])):
			t.Errorf("%v becomes %v, and %v is nearer", x[i], v, down)
		}
	}
	needPairs(t)
	panel := make([]float32, len(x)/2)
	quantizeRow(isa.AVX512, kindPair, 0, panel, x, nil)
	if !slices.Equal(vector.Bytes(panel), AppendBF16(nil, x)) {
		t.Error("the panel's values are rounded otherwise")
	}
}

// TestPairsShowWhatIsNotFinite: a product must not hide what is no number.
func TestPairsShowWhatIsNotFinite(t *testing.T) {
	needPairs(t)
	c := newMultiplier(1, isa.AVX512)
	defer c.Close()
	const rows, cols = 16, 32
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = 1
	}
	m := pairMatrix(t, rows, cols, values)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		x, got := make([]float32, cols), make([]float32, rows)
		x[7] = bad
		c.MatMul(got, m, x, 1, nil)
		if v := float64(got[3]); !math.IsNaN(v) && !math.IsInf(v, 0) {
			t.Errorf("%v among the activations gives %v", bad, v)
		}
	}
}

func TestPairsRefuseWhatDoesNotFit(t *testing.T) {
	if _, err := PairBytes(16, 24); err == nil {
		t.Error("24 columns are taken")
	}
	if _, err := NewPairPacker(16, 32, make([]byte, 3)); err == nil {
		t.Error("too little memory is taken")
	}
}

// BenchmarkEncoderProducts multiplies 256 rows as an encoder's largest matrix does, on one core.
func BenchmarkEncoderProducts(b *testing.B) {
	needPairs(b)
	const rows, cols, n = 1536, 384, 256
	rng := rand.New(rand.NewPCG(1, 1))
	values, x := randomFloats(rng, rows*cols), randomFloats(rng, n*cols)
	floats, err := NewMatrix(gguf.TypeF32, rows, cols, vector.Bytes(values))
	if err != nil {
		b.Fatal(err)
	}
	for name, m := range map[string]*Matrix{"F32": floats, "pairs": pairMatrix(b, rows, cols, values)} {
		b.Run(name, func(b *testing.B) {
			c := newMultiplier(1, isa.AVX512)
			defer c.Close()
			dst := make([]float32, n*rows)
			for b.Loop() {
				c.MatMul(dst, m, x, n, nil)
			}
			b.ReportMetric(2*rows*cols*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
		})
	}
}
