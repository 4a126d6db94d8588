package vector

import (
	"math"
	"testing"
)

// f16Value computes what a binary16 stands for from the definition of IEEE 754.
func f16Value(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(h>>10&31), float64(h&0x3ff)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

func TestF16ToF32IsExactForAllInputs(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		have, want := float64(F16ToF32(h)), f16Value(h)
		if math.IsNaN(want) {
			bits := math.Float32bits(F16ToF32(h))
			if wantBits := uint32(h&0x8000)<<16 | 0x7fc00000 | uint32(h&0x3ff)<<13; bits != wantBits {
				t.Fatalf("NaN %#04x becomes %#08x, want %#08x", h, bits, wantBits)
			}
			continue
		}
		if have != want || math.Signbit(have) != math.Signbit(want) {
			t.Fatalf("%#04x is %g, want %g", h, have, want)
		}
	}
}

// Conversion is monotonic, so it is right everywhere if it is right at every
// binary16 value, at the midpoints between neighbours, and just beside those.
func TestF32ToF16RoundsToNearestEven(t *testing.T) {
	check := func(f float32, want uint16) {
		t.Helper()
		if have := F32ToF16(f); have != want {
			t.Fatalf("%g becomes %#04x, want %#04x", f, have, want)
		}
		if have := F32ToF16(-f); have != want|0x8000 {
			t.Fatalf("%g becomes %#04x, want %#04x", -f, have, want|0x8000)
		}
	}
	for h := range uint16(0x7c00) {
		low := f16Value(h)
		high := 65536.0 // the midpoint below it is where infinity begins
		if h+1 < 0x7c00 {
			high = f16Value(h + 1)
		}
		middle := float32((low + high) / 2)
		even := h + h&1
		check(float32(low), h)
		check(middle, even)
		check(math.Nextafter32(middle, 0), h)
		check(math.Nextafter32(middle, math.MaxFloat32), h+1)
		check(math.Nextafter32(float32(low), math.MaxFloat32), h)
	}
	check(math.SmallestNonzeroFloat32, 0)
	check(math.MaxFloat32, 0x7c00)
	check(float32(math.Inf(1)), 0x7c00)
}

func TestF32ToF16KeepsNaN(t *testing.T) {
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0x7fffffff, 0x7fa00000} {
		for _, sign := range []uint32{0, 1 << 31} {
			want := uint16(sign>>16) | 0x7e00 | uint16(bits>>13)&0x3ff
			if have := F32ToF16(math.Float32frombits(bits | sign)); have != want {
				t.Errorf("NaN %#08x becomes %#04x, want %#04x", bits|sign, have, want)
			}
		}
	}
}

func TestBF16RoundTripsAndRoundsToNearestEven(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		f := BF16ToF32(b)
		if math.Float32bits(f) != uint32(b)<<16 {
			t.Fatalf("%#04x becomes %#08x", b, math.Float32bits(f))
		}
		want := b
		if f != f {
			want |= 0x40
		}
		if have := F32ToBF16(f); have != want {
			t.Fatalf("%#04x comes back as %#04x", b, have)
		}
		if b&0x7f80 == 0x7f80 {
			continue
		}
		low := uint32(b) << 16
		for tail, up := range map[uint32]uint16{0x7fff: 0, 0x8000: b & 1, 0x8001: 1, 0xffff: 1} {
			if have := F32ToBF16(math.Float32frombits(low | tail)); have != b+up {
				t.Fatalf("%#08x becomes %#04x, want %#04x", low|tail, have, b+up)
			}
		}
	}
}

func TestF32ToBF16KeepsNaN(t *testing.T) {
	if have := F32ToBF16(math.Float32frombits(0x7f800001)); have != 0x7fc0 {
		t.Errorf("NaN becomes %#04x, want 0x7fc0", have)
	}
}
