package weight

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"weir/engine/gguf"
)

// golden reads a type's file from testdata (see quant.py there): blocks, and
// the values that the Python package gguf decodes them to.
func golden(t testing.TB, typ gguf.Type) (blocks []byte, values []float32) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", typ.String()+".quant.bin"))
	if err != nil {
		t.Fatal(err)
	}
	elems, size, _ := typ.Block()
	count := len(raw) / (size + 4*elems)
	if count == 0 || len(raw) != count*(size+4*elems) {
		t.Fatalf("%v: golden file of %d bytes is not whole blocks", typ, len(raw))
	}
	values = make([]float32, count*elems)
	decodeF32(values, raw[count*size:])
	return raw[:count*size], values
}

func TestDecodeEqualsReferenceBitForBit(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		t.Run(typ.String(), func(t *testing.T) {
			blocks, want := golden(t, typ)
			have := make([]float32, len(want))
			Decode(typ, have, blocks)
			for i := range want {
				if math.Float32bits(have[i]) != math.Float32bits(want[i]) {
					t.Fatalf("value %d is %g (%#x), want %g (%#x)", i,
						have[i], math.Float32bits(have[i]), want[i], math.Float32bits(want[i]))
				}
			}
		})
	}
}

func TestDecodeOfOneBlockEqualsThatOfTheRow(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		blocks, want := golden(t, typ)
		elems, size, _ := typ.Block()
		have := make([]float32, elems)
		for i := range len(blocks) / size {
			Decode(typ, have, blocks[i*size:(i+1)*size])
			for j, v := range have {
				if math.Float32bits(v) != math.Float32bits(want[i*elems+j]) {
					t.Fatalf("%v: value %d of block %d differs when decoded alone", typ, j, i)
				}
			}
		}
	}
}

// Every byte pattern is some number: nothing in a block can index out of range.
func TestDecodeTakesAnyBytes(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		elems, size, _ := typ.Block()
		dst := make([]float32, elems)
		src := make([]byte, size)
		for b := range 256 {
			for i := range src {
				src[i] = byte(b + i*b)
			}
			Decode(typ, dst, src)
		}
		Decode(typ, dst, bytes.Repeat([]byte{0xff}, size))
	}
}

func TestDecodeIgnoresPartialBlocks(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		elems, size, _ := typ.Block()
		dst := []float32{7}
		Decode(typ, make([]float32, elems), make([]byte, size-1))
		if elems > 1 {
			Decode(typ, dst, make([]byte, size))
		}
		Decode(typ, dst[:0], make([]byte, size))
		if dst[0] != 7 {
			t.Errorf("%v: wrote %g into a row shorter than a block", typ, dst[0])
		}
	}
}

func TestDecodeOfUnsupportedTypeIsNaN(t *testing.T) {
	dst := []float32{1, 2}
	Decode(gguf.Type(16), dst, make([]byte, 66))
	for _, v := range dst {
		if v == v {
			t.Fatalf("decoded %g from a type without a decoder", v)
		}
	}
}

func TestDecodeAndQuantizeAllocateNothing(t *testing.T) {
	for _, typ := range gguf.SupportedTypes() {
		blocks, want := golden(t, typ)
		dst := make([]float32, len(want))
		if n := testing.AllocsPerRun(10, func() { Decode(typ, dst, blocks) }); n != 0 {
			t.Errorf("%v: %g allocations", typ, n)
		}
	}
	src, dst := make([]float32, 64), make([]byte, 68)
	if n := testing.AllocsPerRun(10, func() { QuantizeQ8_0(dst, src) }); n != 0 {
		t.Errorf("QuantizeQ8_0: %g allocations", n)
	}
}

func TestQuantizeQ8_0EqualsReference(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "Q8_0.encode.bin"))
	if err != nil {
		t.Fatal(err)
	}
	const bytesPerBlock = 4*blockValues + q80Bytes
	count := len(raw) / bytesPerBlock
	src := make([]float32, count*blockValues)
	decodeF32(src, raw)
	want := raw[4*len(src):]
	have := make([]byte, count*q80Bytes)
	QuantizeQ8_0(have, src)
	for i := range count {
		if w, h := want[i*q80Bytes:][:q80Bytes], have[i*q80Bytes:][:q80Bytes]; !bytes.Equal(w, h) {
			t.Errorf("block %d:\nhave %v\nwant %v", i, h, w)
		}
	}
}

func TestQuantizeQ8_0RoundsHalfAwayFromZero(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want int8
	}{
		{0.5, 1}, {-0.5, -1}, {1.5, 2}, {-2.5, -3}, {0.49999997, 0}, {-0.49999997, 0},
		{0, 0}, {126.5, 127}, {-126.5, -127}, {126.49999, 126}, {1e-30, 0},
	} {
		src := make([]float32, blockValues)
		src[0], src[31] = 127, c.x // d is exactly 1
		dst := make([]byte, q80Bytes)
		QuantizeQ8_0(dst, src)
		if have := int8(dst[2+31]); have != c.want {
			t.Errorf("%g rounds to %d, want %d", c.x, have, c.want)
		}
	}
}

func TestQuantizeQ8_0ShowsNonFiniteValues(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		src := make([]float32, blockValues)
		src[3], src[9] = 2, float32(bad)
		dst := make([]byte, q80Bytes)
		QuantizeQ8_0(dst, src)
		Decode(gguf.TypeQ8_0, src, dst)
		for i, v := range src {
			if v == v {
				t.Fatalf("with %g in the block, value %d decodes to %g", bad, i, v)
			}
		}
	}
}

func TestQuantizeQ8_0OfTinyValuesIsZero(t *testing.T) {
	src := make([]float32, blockValues)
	src[0], src[1] = math.SmallestNonzeroFloat32, -1e-40
	dst := make([]byte, q80Bytes)
	QuantizeQ8_0(dst, src)
	Decode(gguf.TypeQ8_0, src, dst)
	for i, v := range src {
		if v != 0 {
			t.Fatalf("value %d decodes to %g", i, v)
		}
	}
}

func FuzzQuantizeQ8_0StaysWithinHalfAStep(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0x3f, 0x80, 0, 1}, 32))
	f.Fuzz(func(t *testing.T, raw []byte) {
		src := make([]float32, blockValues)
		decodeF32(src, raw)
		dst := make([]byte, q80Bytes)
		QuantizeQ8_0(dst, src)
		back := make([]float32, blockValues)
		Decode(gguf.TypeQ8_0, back, dst)
		var top float64
		for _, v := range src {
			top = max(top, math.Abs(float64(v)))
		}
		if math.IsNaN(top) || top >= 127*65504 { // the scale leaves float16
			return
		}
		// Half a step, plus what the scale loses in float16 (2^-11 of it, or
		// half of the smallest subnormal) times the largest code.
		limit := top/127/2*1.0001 + top/2048 + 128*(1.0/(1<<25))
		for i := range src {
			if d := math.Abs(float64(src[i]) - float64(back[i])); d > limit {
				t.Fatalf("%g comes back as %g, off by %g, limit %g", src[i], back[i], d, limit)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, typ := range gguf.SupportedTypes() {
		b.Run("type="+typ.String(), func(b *testing.B) {
			elems, size, _ := typ.Block()
			blocks, _ := golden(b, typ)
			if elems > 1 {
				blocks = blocks[8*size:] // after the special scales: subnormal results are slow
			}
			const values = 4096
			src := bytes.Repeat(blocks, values/elems*size/len(blocks)+1)[:values/elems*size]
			dst := make([]float32, values)
			b.SetBytes(4 * values)
			for b.Loop() {
				Decode(typ, dst, src)
			}
		})
	}
}

func BenchmarkQuantizeQ8_0(b *testing.B) {
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(i%61) - 30.3
	}
	dst := make([]byte, len(src)/blockValues*q80Bytes)
	b.SetBytes(int64(4 * len(src)))
	for b.Loop() {
		QuantizeQ8_0(dst, src)
	}
}

func TestGoldenFilesCoverEverySupportedType(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.quant.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(gguf.SupportedTypes()); len(files) != want || want != 16 {
		t.Fatalf("%d golden files for %d types, want 16 of each", len(files), want)
	}
}
