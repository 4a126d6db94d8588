package weight

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
	"weir/internal/arena"
	"weir/internal/reference"
)

// factorsAt says where a block's float16 factors are, by type.
var factorsAt = map[gguf.Type][]int{
	gguf.TypeQ4K: {0, 2}, gguf.TypeQ5K: {0, 2}, gguf.TypeQ6K: {208},
	gguf.TypeQ8_0: {0}, gguf.TypeQ4_0: {0}, gguf.TypeQ5_0: {0}, gguf.TypeIQ4NL: {0},
	gguf.TypeQ2K: {80, 82}, gguf.TypeQ3K: {108}, gguf.TypeIQ4XS: {0}, gguf.TypeQ4_1: {0, 2}, gguf.TypeQ5_1: {0, 2},
	gguf.TypeF16: {0}, gguf.TypeMXFP4: nil, gguf.TypeF32: nil, gguf.TypeBF16: nil,
}

func tiledTypes() []gguf.Type {
	all := make([]gguf.Type, 0, len(formats))
	for t := range formats {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}

// randomRows makes rows of random blocks as a file has them, with factors near
// one hundredth.
func randomRows(rng *rand.Rand, t gguf.Type, rows, cols int) []byte {
	f := formats[t]
	src := make([]byte, rows*cols/f.values*f.rowBytes)
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	tameFactors(rng, t, src)
	return src
}

// tameFactors gives rows of blocks factors near one hundredth.
func tameFactors(rng *rand.Rand, t gguf.Type, src []byte) {
	for b := 0; b < len(src); b += formats[t].rowBytes {
		if t == gguf.TypeF32 {
			putQuad(src, b, math.Float32bits(rng.Float32()-0.5))
		}
		if t == gguf.TypeBF16 {
			binary.LittleEndian.PutUint16(src[b:], uint16(math.Float32bits(rng.Float32()-0.5)>>16))
		}
		if t == gguf.TypeMXFP4 {
			src[b] = byte(118 + rng.IntN(8))
		}
		for _, at := range factorsAt[t] {
			binary.LittleEndian.PutUint16(src[b+at:], vector.F32ToF16(0.02*(rng.Float32()-0.5)))
		}
	}
}

// multiplier is a Multiplier with a pool of its own, which Close ends.
type multiplier struct {
	*Multiplier
	pool *pool.Pool
}

func newMultiplier(threads int, level isa.Level) *multiplier {
	if level == isa.Auto {
		level = isa.Best()
	}
	p := pool.New(threads)
	return &multiplier{NewMultiplier(p.Join(1), level), p}
}

func (m *multiplier) Close() { m.pool.Close() }

// MatMul is a product alone.
func (m *multiplier) MatMul(dst []float32, w *Matrix, x []float32, rows int, bias []float32) {
	m.Products(x, rows, Norm{}, Product{Dst: dst, W: w, Bias: bias})
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// unevenRows are rows of which every second has values that are far larger than the rest: in random
// places, and one or two side by side in a k-quad.
func unevenRows(rng *rand.Rand, rows, cols int) []float32 {
	x := randomFloats(rng, rows*cols)
	for r := 0; r < rows; r += 2 {
		for range 1 + rng.IntN(1+cols/16) {
			at := r*cols + rng.IntN(cols-1)
			x[at] *= float32(10 + rng.IntN(2000))
			if rng.IntN(4) == 0 {
				x[at+1] = -x[at]
			}
		}
	}
	return x
}

// TestEveryTypeHasProducts: a layout, and products at every level above the
// portable one, for all that a file may hold.
func TestEveryTypeHasProducts(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, typ := range gguf.SupportedTypes() {
			if formats[typ] == nil || level > isa.Portable && productsFor(level, typ) == nil {
				t.Errorf("%v has none at level %v", typ, level)
			}
		}
	}
}

// TestFormatsAgreeWithTheFile: the generator's table and package gguf name the
// same types and blocks, and the parts of a tile's block hold what the file has.
func TestFormatsAgreeWithTheFile(t *testing.T) {
	if n := len(gguf.SupportedTypes()); n != len(formats) {
		t.Errorf("%d formats, %d supported types", len(formats), n)
	}
	for typ, f := range formats {
		values, bytes, _ := typ.Block()
		if f.values != values || f.rowBytes != bytes {
			t.Errorf("%v: blocks of %d values in %d bytes, in the file %d in %d", typ, f.values, f.rowBytes, values, bytes)
		}
		if f.tileBytes < tileLanes*bytes {
			t.Errorf("%v: a tile's block has %d bytes, sixteen blocks of the file %d", typ, f.tileBytes, tileLanes*bytes)
		}
	}
}

// TestTilesKeepEveryBit packs rows and takes them out again.
func TestTilesKeepEveryBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range tiledTypes() {
		f := formats[typ]
		for range 50 {
			src := randomRows(rng, typ, tileLanes, f.values)
			tile, block := make([]byte, f.tileBytes), make([]byte, f.rowBytes)
			f.pack(tile, src, f.rowBytes)
			for lane := range tileLanes {
				unpackBlock(typ, block, tile, lane)
				if want := src[lane*f.rowBytes : (lane+1)*f.rowBytes]; !bytes.Equal(block, want) {
					t.Fatalf("%v lane %d: packed and unpacked\n%x, want\n%x", typ, lane, block, want)
				}
			}
		}
	}
}

// rounded is what a product sees of an activation row: steps with a scale for
// each of its format's blocks, of int8 but where they are marked as large.
func rounded(f *format, x []float32) []float64 {
	y := make([]float64, len(x))
	k := f.kind
	if k == kindFloat {
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	size, n := k.blockSize()
	row, marks := make([]float32, k.words(len(x))), make([]float32, len(x)/size*n)
	quantizeRow(isa.Portable, k, k.limit(false)*rootMeanSquare(isa.Portable, x), row, x, marks)
	per := k.words(size)
	for i := range x {
		block := row[i/size*per:][:per]
		y[i] = float64(int8(vector.Bytes(block)[i%size])) * float64(block[per-1])
	}
	for i, steps := range k.large(x, marks) {
		y[i] = float64(steps) * float64(row[(i/size+1)*per-1])
	}
	return y
}

// TestProductsMatchTheReference compares every level's products with sums in
// float64 over decoded weights and the same rounded activations.
func TestProductsMatchTheReference(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, typ := range tiledTypes() {
			t.Run(fmt.Sprintf("%v/%v", level, typ), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, uint64(typ)))
				f := formats[typ]
				c := newMultiplier(2, level)
				defer c.Close()
				for _, shape := range [][3]int{{16, 1, 1}, {1, 2, 3}, {33, 3, 2}, {40, 1, 8}, {17, 5, 9}, {160, 2, 21}} {
					rows, blocks, n := shape[0], shape[1], shape[2]
					if f.kind == kindFloat {
						blocks *= 37
					}
					checkProduct(t, c, rng, typ, productShape{rows, blocks * f.values, n})
				}
			})
		}
	}
}

// productShape is a matrix of rows by cols, multiplied with n activation rows.
type productShape struct{ rows, cols, n int }

func checkProduct(t *testing.T, c *multiplier, rng *rand.Rand, typ gguf.Type, s productShape) {
	t.Helper()
	m, err := NewMatrix(typ, s.rows, s.cols, randomRows(rng, typ, s.rows, s.cols))
	if err != nil {
		t.Fatal(err)
	}
	compareProduct(t, c, m, unevenRows(rng, s.n, s.cols), randomFloats(rng, s.rows), randomFloats(rng, s.n*s.rows))
}

// compareProduct compares a product of the rows of x, added to before, with the
// sums.
func compareProduct(t *testing.T, c *multiplier, m *Matrix, x, bias, before []float32) {
	t.Helper()
	rows, cols := m.Rows, m.Cols
	n := len(x) / cols
	got := slices.Clone(before)
	c.Products(x, n, Norm{}, Product{Dst: got, W: m, Bias: bias, Add: true})
	w := make([]float32, cols)
	var seen []float64
	for r := range n {
		seen = append(seen, rounded(m.format, x[r*cols:(r+1)*cols])...)
	}
	for o := range rows {
		m.DecodeRow(w, o)
		for r := range n {
			sum, size := float64(bias[o])+float64(before[r*rows+o]), 1.0
			for i, v := range seen[r*cols : (r+1)*cols] {
				sum += v * float64(w[i])
				size += math.Abs(v * float64(w[i]))
			}
			if off := math.Abs(float64(got[r*rows+o]) - sum); !(off <= 2e-6*size) {
				t.Fatalf("%d x %d by %d rows: output %d of row %d is %v, want %v", rows, cols, n, o, r, got[r*rows+o], sum)
			}
		}
	}
}

// TestProductsHoldAtTheExtremes multiplies codes and scales that are all the same
// bits with activations of the largest magnitude: no partial sum may overflow.
func TestProductsHoldAtTheExtremes(t *testing.T) {
	reference.Slow(t)
	fills := []byte{0x00, 0xff, 0x80, 0x0f, 0x20, 0x7f, 0x88, 0xf0}
	if testing.Short() {
		fills = fills[:3]
	}
	for _, level := range isa.Levels() {
		c := newMultiplier(1, level)
		for _, typ := range tiledTypes() {
			f := formats[typ]
			if f.kind == kindFloat {
				continue
			}
			rows, cols, n := tileLanes, 2048, 9
			for _, fill := range fills {
				src := bytes.Repeat([]byte{fill}, rows*cols/f.values*f.rowBytes)
				tameFactors(rand.New(rand.NewPCG(11, uint64(fill))), typ, src)
				m, err := NewMatrix(typ, rows, cols, src)
				if err != nil {
					t.Fatal(err)
				}
				x := make([]float32, n*cols)
				for i := range x {
					x[i] = [3]float32{1, -1, float32(1 - i&2)}[i/cols%3]
				}
				// Of 32 values one alone, of a superblock and of no other, so that it is as many steps as there can be.
				large := make([]float32, n*cols)
				for i := 7; i < len(large); i += 32 {
					if i%cols < superBlockValues {
						large[i] = x[i]
					}
				}
				t.Run(fmt.Sprintf("%v/%v/%#02x", level, typ, fill), func(t *testing.T) {
					compareProduct(t, c, m, x, make([]float32, rows), make([]float32, n*rows))
					compareProduct(t, c, m, large, make([]float32, rows), make([]float32, n*rows))
				})
			}
		}
		c.Close()
	}
}

// TestEveryExponentOfMXFP4 multiplies rows whose scales are the powers of two from
// the smallest, which are subnormal, to where 127 times one leaves float32.
func TestEveryExponentOfMXFP4(t *testing.T) {
	const rows = 249
	src := make([]byte, rows*mxfp4Bytes)
	for e := range rows {
		src[e*mxfp4Bytes], src[e*mxfp4Bytes+1] = byte(e), 1
	}
	m, err := NewMatrix(gguf.TypeMXFP4, rows, blockValues, src)
	if err != nil {
		t.Fatal(err)
	}
	x, got := make([]float32, blockValues), make([]float32, rows)
	x[0] = 1
	for _, level := range isa.Levels() {
		c := newMultiplier(1, level)
		c.MatMul(got, m, x, 1, nil)
		for e, v := range got {
			if want := math.Ldexp(1, e-128); !(math.Abs(float64(v)/want-1) <= 1e-6) {
				t.Errorf("%v: a scale of 2^(%d-128) gives %g, want %g", level, e, v, want)
			}
		}
		c.Close()
	}
}

// TestProductsDoNotDependOnTheBatch computes rows together and one by one, with
// other numbers of workers, and compares bits.
func TestProductsDoNotDependOnTheBatch(t *testing.T) {
	for _, level := range isa.Levels() {
		one, three := newMultiplier(1, level), newMultiplier(3, level)
		for _, typ := range tiledTypes() {
			rng := rand.New(rand.NewPCG(5, uint64(typ)))
			rows, cols, n := 182, max(2*formats[typ].values, 50), 27
			m, err := NewMatrix(typ, rows, cols, randomRows(rng, typ, rows, cols))
			if err != nil {
				t.Fatal(err)
			}
			x, weight := unevenRows(rng, n, cols), randomFloats(rng, cols)
			norm := Norm{Weight: weight, Eps: 1e-5}
			together, alone := make([]float32, n*rows), make([]float32, n*rows)
			three.Products(x, n, norm, Product{Dst: together, W: m})
			for r := range n {
				one.Products(x[r*cols:(r+1)*cols], 1, norm, Product{Dst: alone[r*rows : (r+1)*rows], W: m})
			}
			for i := range alone {
				if math.Float32bits(alone[i]) != math.Float32bits(together[i]) {
					t.Fatalf("%v %v: output %d of row %d is %v alone and %v among %d rows", level, typ, i%rows, i/rows, alone[i], together[i], n)
				}
			}
		}
		one.Close()
		three.Close()
	}
}

// TestLargeValuesSpoilNothing: products of rows with values a thousand times the rest are as near those of floats
// as the rounding of the rest alone makes them. Output matrices' are so beside values a few times the rest, too.
func TestLargeValuesSpoilNothing(t *testing.T) {
	const rows, cols, n = 48, 2048, 13
	for _, level := range isa.Levels() {
		c := newMultiplier(2, level)
		for _, typ := range []gguf.Type{gguf.TypeQ4_1, gguf.TypeQ8_0, gguf.TypeQ4K, gguf.TypeQ6K} {
			rng := rand.New(rand.NewPCG(23, uint64(typ)))
			m, err := NewMatrix(typ, rows, cols, randomRows(rng, typ, rows, cols))
			if err != nil {
				t.Fatal(err)
			}
			x := randomFloats(rng, n*cols)
			for r := range n {
				x[r*cols+rng.IntN(cols)], x[r*cols+rng.IntN(cols)] = 20, -15
			}
			got, small := make([]float32, n*rows), 0.0
			for _, v := range decodeAll(m) {
				small += float64(v) * float64(v) * n
			}
			// A step is 1/127 of at most four, nearly, and rounding adds a twelfth of its square to the sum's variance for each
			// value. In superblocks with a large value it were up to 25 times as much.
			most := small * 4 * 4 / 127 / 127 / 12
			c.Products(x, n, Norm{}, Product{Dst: got, W: m})
			if off := squaresOff(m, got, x); !(off < most) {
				t.Errorf("%v %v: squares off by %.3g, want at most %.3g", level, typ, off, most)
			}
			for i := 11; i < len(x); i += blockValues {
				x[i] = 6
			}
			c.Products(x, n, Norm{}, Product{Dst: got, W: m})
			if off := squaresOff(m, got, x); !(off > most) {
				t.Errorf("%v %v: squares off by %.3g beside values that are not large", level, typ, off)
			}
			c.Products(x, n, Norm{}, Product{Dst: got, W: m, Output: true})
			if off := squaresOff(m, got, x); !(off < most) {
				t.Errorf("%v %v: squares of an output matrix' products off by %.3g, want at most %.3g", level, typ, off, most)
			}
		}
		c.Close()
	}
}

// decodeAll are a matrix' weights, [Rows][Cols].
func decodeAll(m *Matrix) []float32 {
	all := make([]float32, m.Rows*m.Cols)
	for o := range m.Rows {
		m.DecodeRow(all[o*m.Cols:(o+1)*m.Cols], o)
	}
	return all
}

// squaresOff is the sum of the squares of what products, [][m.Rows], differ by from those of floats.
func squaresOff(m *Matrix, products, x []float32) (sum float64) {
	w := decodeAll(m)
	for i, got := range products {
		want := 0.0
		for k, v := range x[i/m.Rows*m.Cols:][:m.Cols] {
			want += float64(v) * float64(w[i%m.Rows*m.Cols+k])
		}
		sum += (float64(got) - want) * (float64(got) - want)
	}
	return sum
}

// TestGatedIsTwoProductsAndSwiGLU compares the fused form with its parts.
func TestGatedIsTwoProductsAndSwiGLU(t *testing.T) {
	for _, level := range isa.Levels() {
		c := newMultiplier(2, level)
		for _, rows := range []int{16, 48} {
			rng := rand.New(rand.NewPCG(7, uint64(rows)))
			cols, n := 512, 11
			gate, err := NewMatrix(gguf.TypeQ4K, rows, cols, randomRows(rng, gguf.TypeQ4K, rows, cols))
			if err != nil {
				t.Fatal(err)
			}
			up, err := NewMatrix(gguf.TypeQ6K, rows, cols, randomRows(rng, gguf.TypeQ6K, rows, cols))
			if err != nil {
				t.Fatal(err)
			}
			x, bias := randomFloats(rng, n*cols), randomFloats(rng, rows)
			g, u, got := make([]float32, n*rows), make([]float32, n*rows), make([]float32, n*rows)
			c.Products(x, n, Norm{}, Product{Dst: g, W: gate, Bias: bias}, Product{Dst: u, W: up})
			vector.SwiGLU(level, g, g, u)
			c.Gated(got, x, n, Norm{}, Product{W: gate, Bias: bias}, Product{W: up})
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(g[i]) {
					t.Fatalf("%v, %d rows: output %d is %v fused, %v in parts", level, rows, i, got[i], g[i])
				}
			}
		}
		c.Close()
	}
}

func TestPackerWantsWholeGroupsInOrder(t *testing.T) {
	n, err := MatrixBytes(gguf.TypeQ8_0, 20, 32)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPacker(gguf.TypeQ8_0, 20, 32, make([]byte, n))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(make([]byte, 4*q80Bytes)); err == nil {
		t.Error("4 of 20 rows were taken, a group is 16")
	}
	if err := p.Add(make([]byte, 16*q80Bytes)); err != nil {
		t.Error(err)
	}
	if _, err := p.Matrix(); err == nil {
		t.Error("a matrix without its last rows was handed out")
	}
	if err := p.Add(make([]byte, 5*q80Bytes)); err == nil {
		t.Error("21 of 20 rows were taken")
	}
	if err := p.Add(make([]byte, 4*q80Bytes)); err != nil {
		t.Error(err)
	}
	if _, err := p.Matrix(); err != nil {
		t.Error(err)
	}
}

// TestQuantizedRowsAreTheSameAtEveryLevel: codes, sums and marks bit for bit, scales
// within a rounding or two; also for zeros, for one large value among small, and whatever is large.
func TestQuantizedRowsAreTheSameAtEveryLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, k := range []kind{kindSuper, kindBlock} {
		x := randomFloats(rng, 5*superBlockValues)
		clear(x[256:600])
		x[700] = 1e20
		for i := range 40 {
			x[rng.IntN(256)] = float32(10*i - 200)
		}
		for _, limit := range []float32{float32(math.Inf(1)), k.limit(false) * rootMeanSquare(isa.Portable, x), 0, 0.5, 2, 50, 1e19} {
			for _, level := range isa.Levels() {
				compareRounding(t, level, k, limit, x)
			}
		}
	}
}

// compareRounding rounds a row at a level and in plain Go.
func compareRounding(t *testing.T, level isa.Level, k kind, limit float32, x []float32) {
	t.Helper()
	size, n := k.blockSize()
	want, got := make([]float32, k.words(len(x))), make([]float32, k.words(len(x)))
	wantMarks, marks := make([]float32, len(x)/size*n), randomFloats(rand.New(rand.NewPCG(3, 3)), len(x)/size*n)
	quantizeRow(isa.Portable, k, limit, want, x, wantMarks)
	quantizeRow(level, k, limit, got, x, marks)
	per, large := k.words(size), 0
	for i := range want {
		same := math.Float32bits(want[i]) == math.Float32bits(got[i])
		if i%per == per-1 {
			same = math.Abs(float64(want[i]-got[i])) <= 1e-6*math.Abs(float64(want[i]))
		}
		if !same {
			t.Fatalf("%v kind %d, limit %v: dword %d is %08x, want %08x", level, k, limit, i, math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	}
	for i, w := range wantMarks {
		if i%n < n-1 && math.Float32bits(marks[i]) != math.Float32bits(w) {
			t.Fatalf("%v kind %d, limit %v: marks %d are %08x, want %08x", level, k, limit, i, math.Float32bits(marks[i]), math.Float32bits(w))
		}
		if i%n < n-1 {
			large += bits.OnesCount32(math.Float32bits(w))
		}
		if last := i - i%n + n - 1; i%n < n-1 && math.Float32bits(w) != 0 && marks[last] != wantMarks[last] {
			t.Fatalf("%v kind %d, limit %v: the inverse of block %d is %v, want %v", level, k, limit, i/n, marks[last], wantMarks[last])
		}
	}
	if (large > 0) != (limit <= 50) && limit != 1e19 {
		t.Errorf("%v kind %d, limit %v: %d large values", level, k, limit, large)
	}
}

// BenchmarkProducts multiplies on one worker, by level, type and rows: Gop/s
// counts two operations for each multiply-add, GB/s the weights read.
func BenchmarkProducts(b *testing.B) {
	for _, level := range isa.Levels()[1:] {
		c := newMultiplier(1, level)
		defer c.Close()
		for _, typ := range []gguf.Type{gguf.TypeQ4K, gguf.TypeQ5K, gguf.TypeQ6K, gguf.TypeQ8_0, gguf.TypeQ4_0,
			gguf.TypeQ2K, gguf.TypeQ3K, gguf.TypeQ4_1, gguf.TypeQ5_1, gguf.TypeIQ4XS, gguf.TypeMXFP4, gguf.TypeF16} {
			for _, n := range []int{1, 4, 8, 16, 64, 512} {
				b.Run(fmt.Sprintf("%v/%v/%d", level, typ, n), func(b *testing.B) { benchProduct(b, c, typ, 2048, 2048, n) })
			}
		}
	}
}

// BenchmarkStreamedProducts multiplies matrices larger than any cache on two
// workers: what few rows cost where weights come from memory.
func BenchmarkStreamedProducts(b *testing.B) {
	c := newMultiplier(2, isa.Auto)
	defer c.Close()
	for _, typ := range []gguf.Type{gguf.TypeQ4K, gguf.TypeQ6K, gguf.TypeQ8_0} {
		for _, n := range []int{1, 2, 4, 8, 16, 32} {
			b.Run(fmt.Sprintf("%v/%d", typ, n), func(b *testing.B) { benchProduct(b, c, typ, 1<<16, 2048, n) })
		}
	}
}

func benchProduct(b *testing.B, c *multiplier, typ gguf.Type, rows, cols, n int) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := arenaMatrix(b, typ, rows, cols, randomRows(rng, typ, rows, cols))
	x, dst := randomFloats(rng, n*cols), make([]float32, n*rows)
	for b.Loop() {
		c.MatMul(dst, m, x, n, nil)
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(2*float64(rows*cols*n)/seconds/1e9, "Gop/s")
	b.ReportMetric(float64(len(m.data))/seconds/1e9, "GB/s")
}

// TestProductsAllocateNothing: after the first call of a size, whatever the
// shape.
func TestProductsAllocateNothing(t *testing.T) {
	reference.Slow(t)
	rng := rand.New(rand.NewPCG(2, 2))
	for _, level := range isa.Levels() {
		c := newMultiplier(2, level)
		for _, typ := range tiledTypes() {
			rows, cols, n := 41, 512, 9
			even, err := NewMatrix(typ, 48, cols, randomRows(rng, typ, 48, cols))
			if err != nil {
				t.Fatal(err)
			}
			m, err := NewMatrix(typ, rows, cols, randomRows(rng, typ, rows, cols))
			if err != nil {
				t.Fatal(err)
			}
			x, weight, row := randomFloats(rng, n*cols), randomFloats(rng, cols), make([]float32, cols)
			dst, other := make([]float32, n*48), make([]float32, n*rows)
			if allocs := testing.AllocsPerRun(20, func() {
				c.Products(x, n, Norm{Weight: weight}, Product{Dst: dst, W: m}, Product{Dst: other, W: m, Add: true})
				c.Gated(dst, x, n, Norm{}, Product{W: even}, Product{W: even})
				m.DecodeRow(row, 40)
			}); allocs != 0 {
				t.Errorf("%v %v: %v allocations", level, typ, allocs)
			}
		}
		c.Close()
	}
}

// arenaMatrix lays a matrix out in memory like that of a loaded model.
func arenaMatrix(b *testing.B, typ gguf.Type, rows, cols int, src []byte) *Matrix {
	b.Helper()
	n, err := MatrixBytes(typ, rows, cols)
	if err != nil {
		b.Fatal(err)
	}
	memory, err := arena.New(int64(n) + 64)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = memory.Release() })
	data, err := memory.Alloc(n, 64)
	if err != nil {
		b.Fatal(err)
	}
	return packed(b, typ, rows, cols, data, src)
}

// packed is a matrix in memory that is given.
func packed(b *testing.B, typ gguf.Type, rows, cols int, data, src []byte) *Matrix {
	b.Helper()
	p, err := NewPacker(typ, rows, cols, data)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Add(src); err != nil {
		b.Fatal(err)
	}
	m, err := p.Matrix()
	if err != nil {
		b.Fatal(err)
	}
	return m
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

// A fine product is that of floats, whether it, one beside it or the multiplier is fine.
func TestFineProductsAreThoseOfFloats(t *testing.T) {
	const rows, cols, n = 56, 512, 7 // of a last tile of which half is in use
	r := rand.New(rand.NewPCG(11, 3))
	for _, typ := range []gguf.Type{gguf.TypeQ8_0, gguf.TypeQ4_1, gguf.TypeQ4K, gguf.TypeQ6K, gguf.TypeF16} {
		w, err := NewMatrix(typ, rows, cols, randomRows(r, typ, rows, cols))
		if err != nil {
			t.Fatal(err)
		}
		x, bias := randomFloats(r, n*cols), randomFloats(r, rows)
		for i := range n {
			x[i*cols+40] = 60 // beside which the others of its block are small
		}
		plain := make([]float32, n*rows)
		norm := squaresOff(w, plain, x) // of zeros
		for _, level := range isa.Levels() {
			got, again := make([]float32, n*rows), make([]float32, n*rows)
			apart := func() float64 {
				for i, v := range got {
					plain[i] = v - bias[i%rows]
				}
				return math.Sqrt(squaresOff(w, plain, x) / norm)
			}
			c := newMultiplier(2, level)
			c.Products(x, n, Norm{}, Product{Dst: got, W: w, Bias: bias})
			if once := apart(); typ != gguf.TypeF16 && !(once > 1e-3) {
				t.Errorf("%v %v: relative error %.1e although values are rounded", typ, level, once)
			}
			c.Products(x, n, Norm{}, Product{Dst: got, W: w, Bias: bias, Fine: true}, Product{Dst: again, W: w, Bias: bias})
			if twice := apart(); !(twice < 2e-5) {
				t.Errorf("%v %v: relative error %.1e of a fine product", typ, level, twice)
			}
			if !slices.Equal(got, again) {
				t.Errorf("%v %v: a product beside a fine one is not fine", typ, level)
			}
			c.SetFine(true)
			for i := range n {
				c.Products(x[i*cols:], 1, Norm{}, Product{Dst: again[i*rows:], W: w, Bias: bias})
			}
			if !slices.Equal(got, again) {
				t.Errorf("%v %v: rows alone, of a multiplier made fine, have other products", typ, level)
			}
			c.Close()
		}
	}
}
