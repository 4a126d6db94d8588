package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/kernel/vector"
)

// This file decodes the formats with one scale for 32 values. In those with
// 4-bit codes, byte j of a block holds the code of value j in its low half and
// that of value j+16 in its high half.

// What a 4-bit code stands for before scaling. As tables of floats they save
// the conversion from integer per value.
var (
	unsigned4 = [16]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	centered4 = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	// The non-linear levels of IQ4_NL and IQ4_XS (ggml's kvalues_iq4nl).
	nonlinear4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	// E2M1 of the OCP Microscaling specification, doubled.
	e2m1Doubled = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// decodeNibbles scales the values that 16 bytes of 4-bit codes stand for.
func decodeNibbles(y *[blockValues]float32, codes *[16]byte, values *[16]float32, d float32) {
	for j, c := range codes {
		y[j] = d * values[c&15]
		y[j+16] = d * values[c>>4]
	}
}

func decodeQ40(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= q40Bytes; dst, src = dst[blockValues:], src[q40Bytes:] {
		decodeNibbles((*[blockValues]float32)(dst), (*[16]byte)(src[2:]), &centered4, scaleAt(src, 0))
	}
}

func decodeIQ4NL(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= iq4nlBytes; dst, src = dst[blockValues:], src[iq4nlBytes:] {
		decodeNibbles((*[blockValues]float32)(dst), (*[16]byte)(src[2:]), &nonlinear4, scaleAt(src, 0))
	}
}

func decodeMXFP4(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= mxfp4Bytes; dst, src = dst[blockValues:], src[mxfp4Bytes:] {
		decodeNibbles((*[blockValues]float32)(dst), (*[16]byte)(src[1:]), &e2m1Doubled, halfE8M0(src[0]))
	}
}

// halfE8M0 is 2^(e-128): half of what the exponent byte stands for, as the
// values it scales are doubled. The two smallest are subnormal.
func halfE8M0(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

func decodeQ41(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= q41Bytes; dst, src = dst[blockValues:], src[q41Bytes:] {
		y := (*[blockValues]float32)(dst)
		d, m := scaleAt(src, 0), scaleAt(src, 2)
		for j, c := range (*[16]byte)(src[4:]) {
			y[j] = float32(d*unsigned4[c&15]) + m
			y[j+16] = float32(d*unsigned4[c>>4]) + m
		}
	}
}

// fifthBit moves bit i of high to bit 4.
func fifthBit(high uint32, i int) uint32 { return high >> (i & 31) & 1 << 4 }

func decodeQ50(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= q50Bytes; dst, src = dst[blockValues:], src[q50Bytes:] {
		y := (*[blockValues]float32)(dst)
		d, high := scaleAt(src, 0), binary.LittleEndian.Uint32(src[2:])
		for j, c := range (*[16]byte)(src[6:]) {
			y[j] = d * float32(int32(uint32(c&15)|fifthBit(high, j))-16)
			y[j+16] = d * float32(int32(uint32(c>>4)|fifthBit(high, j+16))-16)
		}
	}
}

func decodeQ51(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= q51Bytes; dst, src = dst[blockValues:], src[q51Bytes:] {
		y := (*[blockValues]float32)(dst)
		d, m, high := scaleAt(src, 0), scaleAt(src, 2), binary.LittleEndian.Uint32(src[4:])
		for j, c := range (*[16]byte)(src[8:]) {
			y[j] = float32(d*float32(int32(uint32(c&15)|fifthBit(high, j)))) + m
			y[j+16] = float32(d*float32(int32(uint32(c>>4)|fifthBit(high, j+16)))) + m
		}
	}
}

func decodeQ80(dst []float32, src []byte) {
	for ; len(dst) >= blockValues && len(src) >= q80Bytes; dst, src = dst[blockValues:], src[q80Bytes:] {
		y := (*[blockValues]float32)(dst)
		d := scaleAt(src, 0)
		for j, c := range (*[blockValues]byte)(src[2:]) {
			y[j] = d * float32(int8(c))
		}
	}
}

// QuantizeQ8_0 writes src, a multiple of 32 values, to dst as Q8_0 blocks of 34
// bytes: per 32 values a float16 scale d, the largest magnitude over 127, and
// the values over d, rounded half away from zero. The codes are computed with
// the scale before its rounding to float16, as ggml does.
//
// A block with a NaN or an infinity gets a NaN for its scale: all of it decodes
// to NaN, and the fault shows where it is read instead of being rounded away.
func QuantizeQ8_0(dst []byte, src []float32) {
	for ; len(src) >= blockValues && len(dst) >= q80Bytes; src, dst = src[blockValues:], dst[q80Bytes:] {
		quantizeQ80((*[q80Bytes]byte)(dst), (*[blockValues]float32)(src))
	}
}

func quantizeQ80(dst *[q80Bytes]byte, x *[blockValues]float32) {
	// Bit patterns of magnitudes are ordered as the magnitudes are, with
	// infinity and NaN on top.
	var top uint32
	for _, v := range x {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	d := math.Float32frombits(top) / 127
	if top >= vector.F32Infinity {
		d = float32(math.NaN())
	}
	binary.LittleEndian.PutUint16(dst[:], vector.F32ToF16(d))
	inverse := 1 / d
	if !(inverse <= math.MaxFloat32) { // d is zero, nearly zero or NaN
		inverse = 0
	}
	for j, v := range x {
		dst[2+j] = byte(roundToInt8(v * inverse))
	}
	if top >= vector.F32Infinity {
		clear(dst[2:])
	}
}

// roundToInt8 rounds half away from zero. The sum is taken in float64, where
// adding a half is exact for every v of interest; in float32 it would carry
// 0.49999997 to 1.
func roundToInt8(v float32) int8 {
	return int8(int32(float64(v) + math.Copysign(0.5, float64(v))))
}
