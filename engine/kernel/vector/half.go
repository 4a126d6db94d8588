package vector

import (
	"encoding/binary"
	"math"
)

// Bits of infinity; a larger magnitude is not a number.
const (
	F16Infinity = 0x7c00
	F32Infinity = 0x7f800000
)

// Layout of IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 bits of
// fraction.
const (
	f16Sign   = 0x8000
	f16Normal = 0x0400     // the smallest normal number
	f32Quiet  = 0x00400000 // marks a NaN as quiet

	f16Shift  = 23 - 10              // between the fractions of binary32 and binary16
	f16Rebias = uint32(127-15) << 23 // between their exponents
)

// F16ToF32 converts IEEE 754 half precision. The conversion is exact; NaNs keep
// their payload and become quiet, as VCVTPH2PS makes them.
//
// Arithmetic on the bits beats tables here: over a row of weights the inlined
// branch below decodes 3.3 GB/s of float32 where a two-level table does 1.9,
// and it takes no cache. A multiplication that also covers subnormals is
// slower still, and much slower where they occur, as the scales of K-quants do.
func F16ToF32(h uint16) float32 {
	if isNormalF16(h) {
		return normalF16(h)
	}
	return specialF16(h)
}

// isNormalF16 is false for zeros, subnormals, infinities and NaNs.
func isNormalF16(h uint16) bool { return uint32(h&^f16Sign)-f16Normal < F16Infinity-f16Normal }

func normalF16(h uint16) float32 {
	return math.Float32frombits(uint32(h&f16Sign)<<16 | (uint32(h&^f16Sign)<<f16Shift + f16Rebias))
}

// specialF16 converts what isNormalF16 is false for.
func specialF16(h uint16) float32 {
	sign, magnitude := uint32(h&f16Sign)<<16, uint32(h&^f16Sign)
	switch {
	case magnitude > F16Infinity:
		return math.Float32frombits(sign | F32Infinity | f32Quiet | magnitude<<f16Shift&0x7fffff)
	case magnitude == F16Infinity:
		return math.Float32frombits(sign | F32Infinity)
	}
	// A subnormal counts steps of 2^-24; the product is a normal binary32.
	v := float32(magnitude) * (1.0 / (1 << 24))
	return math.Float32frombits(sign | math.Float32bits(v))
}

// F32ToF16 converts to half precision, rounding to nearest and ties to even;
// magnitudes from 65520 on become infinities. NaNs keep the upper bits of their
// payload and become quiet, as VCVTPS2PH makes them.
func F32ToF16(f float32) uint16 {
	const (
		overflow  = uint32(127+16) << 23 // 65536
		minNormal = uint32(127-14) << 23 // 2^-14
		// Adding 0.5 to a value below 2^-14 moves its binary16 subnormal into
		// the lowest fraction bits of a binary32, rounded by the adder.
		subnormalMagic = uint32(127-1) << 23
	)
	bits := math.Float32bits(f)
	sign, magnitude := uint16(bits>>16)&f16Sign, bits&0x7fffffff
	switch {
	case magnitude > F32Infinity:
		return sign | F16Infinity | f32Quiet>>f16Shift | uint16(magnitude>>f16Shift)&0x3ff
	case magnitude >= overflow:
		return sign | F16Infinity
	case magnitude < minNormal:
		sum := math.Float32frombits(magnitude) + 0.5
		return sign | uint16(math.Float32bits(sum)-subnormalMagic)
	}
	odd := magnitude >> f16Shift & 1
	// A carry out of the fraction steps the exponent, up to infinity: right.
	return sign | uint16((magnitude-f16Rebias+0xfff+odd)>>f16Shift)
}

// BF16ToF32 converts bfloat16, the upper half of a float32. It is exact.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 converts to bfloat16, rounding to nearest and ties to even. NaNs
// keep the upper bits of their payload and become quiet.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > F32Infinity {
		return uint16((bits | f32Quiet) >> 16)
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// DecodeF16 writes the len(dst) half precision values of src to dst; where src is
// shorter, it leaves the rest of dst alone.
func DecodeF16(dst []float32, src []byte) {
	dst = dst[:min(len(dst), len(src)/2)]
	for i := range dst {
		h := binary.LittleEndian.Uint16(src[2*i : 2*i+2])
		if isNormalF16(h) { // as F16ToF32, which is too large to be inlined
			dst[i] = normalF16(h)
		} else {
			dst[i] = specialF16(h)
		}
	}
}

// DecodeBF16 is DecodeF16 for bfloat16.
func DecodeBF16(dst []float32, src []byte) {
	dst = dst[:min(len(dst), len(src)/2)]
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i : 2*i+2]))
	}
}
