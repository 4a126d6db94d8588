package weight

import "encoding/binary"

// This file decodes the formats with two levels of scales for 256 values: one
// or two float16 per super-block, and few bits for each 16 or 32 values.
// Shift counts are masked: otherwise every shift of the inner loops compares its
// count with the operand's width.

// centered6 is what the 6-bit codes of Q6_K stand for before scaling.
var centered6 = [64]float32{
	-32, -31, -30, -29, -28, -27, -26, -25,
	-24, -23, -22, -21, -20, -19, -18, -17,
	-16, -15, -14, -13, -12, -11, -10, -9,
	-8, -7, -6, -5, -4, -3, -2, -1,
	0, 1, 2, 3, 4, 5, 6, 7,
	8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23,
	24, 25, 26, 27, 28, 29, 30, 31,
}

// decodeQ2K: scales[16] (low half a scale, high half a minimum), codes[64],
// d, dmin; value = d*scale*code - dmin*minimum. In each 32 bytes of codes, bits
// 0-1 are the first 32 values, bits 2-3 the next 32, and so on.
func decodeQ2K(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= q2kBytes; dst, src = dst[superBlockValues:], src[q2kBytes:] {
		d, dmin := scaleAt(src, 80), scaleAt(src, 82)
		for i, packed := range (*[16]byte)(src) {
			scale, minimum := d*float32(packed&15), float32(dmin*float32(packed>>4))
			var values [4]float32
			for code := range values {
				values[code] = float32(scale*float32(code)) - minimum
			}
			codes := (*[16]byte)(src[16+i/8*32+i%2*16:])
			y := (*[16]float32)(dst[i*16:])
			shift := i % 8 / 2 * 2
			for l, c := range codes {
				y[l] = values[uint32(c)>>(shift&7)&3]
			}
		}
	}
}

// decodeQ3K: high[32], codes[64] laid out as in Q2_K, 16 six-bit scales in 12
// bytes, d; value = d*(scale-32)*(code - 4), where bit k of high[] is the third
// code bit of the k-th run of 32 values.
func decodeQ3K(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= q3kBytes; dst, src = dst[superBlockValues:], src[q3kBytes:] {
		packed, d := (*[12]byte)(src[96:]), scaleAt(src, 108)
		for i := range 16 {
			scale := d * float32(scaleQ3K(packed, i)-32)
			var values [8]float32
			for code := range values {
				values[code] = scale * float32(code-4)
			}
			high := (*[16]byte)(src[i%2*16:])
			codes := (*[16]byte)(src[32+i/8*32+i%2*16:])
			y := (*[16]float32)(dst[i*16:])
			run := i / 2
			shift := run % 4 * 2
			for l, c := range codes {
				y[l] = values[uint32(c)>>(shift&7)&3|uint32(high[l])>>(run&7)&1<<2]
			}
		}
	}
}

// scaleQ3K unpacks scale i of 16: four low bits from the first eight bytes, two
// high bits from the last four.
func scaleQ3K(packed *[12]byte, i int) int {
	low := packed[i%8] >> (i / 8 * 4) & 15
	high := packed[8+i%4] >> (i / 4 * 2) & 3
	return int(low | high<<4)
}

// scaleMinK4 unpacks six-bit scale and minimum i of 8, as Q4_K and Q5_K pack
// them: the first four of each plain in bytes 0-3 and 4-7, whose upper two bits
// complete the last four, half of them in each byte of 8-11.
func scaleMinK4(packed *[12]byte, i int) (scale, minimum float32) {
	if i < 4 {
		return float32(packed[i] & 63), float32(packed[i+4] & 63)
	}
	return float32(packed[i+4]&15 | packed[i-4]>>6<<4), float32(packed[i+4]>>4 | packed[i]>>6<<4)
}

// decodeQ4K: d, dmin, packed scales[12], codes[128]; value = d*scale*code -
// dmin*minimum. In each 32 bytes of codes, the low halves are 32 values and the
// high halves the next 32.
func decodeQ4K(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= q4kBytes; dst, src = dst[superBlockValues:], src[q4kBytes:] {
		d, dmin, packed := scaleAt(src, 0), scaleAt(src, 2), (*[12]byte)(src[4:])
		for i := range 4 {
			s1, m1 := scaleMinK4(packed, 2*i)
			s2, m2 := scaleMinK4(packed, 2*i+1)
			s1, m1, s2, m2 = d*s1, float32(dmin*m1), d*s2, float32(dmin*m2)
			y := (*[64]float32)(dst[i*64:])
			for l, c := range (*[32]byte)(src[16+i*32:]) {
				y[l] = float32(s1*unsigned4[c&15]) - m1
				y[l+32] = float32(s2*unsigned4[c>>4]) - m2
			}
		}
	}
}

// decodeQ5K: as Q4_K with high[32] before the codes; bit k of high[] is the
// fifth code bit of the k-th run of 32 values.
func decodeQ5K(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= q5kBytes; dst, src = dst[superBlockValues:], src[q5kBytes:] {
		d, dmin, packed := scaleAt(src, 0), scaleAt(src, 2), (*[12]byte)(src[4:])
		high := (*[32]byte)(src[16:])
		for i := range 4 {
			s1, m1 := scaleMinK4(packed, 2*i)
			s2, m2 := scaleMinK4(packed, 2*i+1)
			s1, m1, s2, m2 = d*s1, float32(dmin*m1), d*s2, float32(dmin*m2)
			y := (*[64]float32)(dst[i*64:])
			for l, c := range (*[32]byte)(src[48+i*32:]) {
				h := uint32(high[l]) >> (2 * i & 7)
				y[l] = float32(s1*float32(int32(uint32(c&15)|h&1<<4))) - m1
				y[l+32] = float32(s2*float32(int32(uint32(c>>4)|h>>1&1<<4))) - m2
			}
		}
	}
}

// decodeQ6K: low[128], high[64], int8 scales[16], d; value = d*scale*(code-32).
// Each half of 128 values takes 64 bytes of low (four code bits) and 32 of high
// (two more): values l, l+32 come from the low halves, l+64, l+96 from the high
// halves of low[l] and low[l+32].
func decodeQ6K(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= q6kBytes; dst, src = dst[superBlockValues:], src[q6kBytes:] {
		d := scaleAt(src, 208)
		for half := range 2 {
			low, high := (*[64]byte)(src[half*64:]), (*[32]byte)(src[128+half*32:])
			var scales [8]float32
			for i, s := range (*[8]byte)(src[192+half*8:]) {
				scales[i] = d * float32(int8(s))
			}
			y := (*[128]float32)(dst[half*128:])
			for l, h := range high {
				a, b, s := low[l], low[l+32], l/16
				y[l] = scales[s] * centered6[a&15|h&3<<4]
				y[l+32] = scales[s+2] * centered6[b&15|h>>2&3<<4]
				y[l+64] = scales[s+4] * centered6[a>>4|h>>4&3<<4]
				y[l+96] = scales[s+6] * centered6[b>>4|h>>6<<4]
			}
		}
	}
}

// decodeIQ4XS: d, two high bits of eight scales in a uint16, four low bits in 4
// bytes, codes[128] in runs of 16 bytes as in IQ4_NL; value =
// d*(scale-32)*level[code].
func decodeIQ4XS(dst []float32, src []byte) {
	for ; len(dst) >= superBlockValues && len(src) >= iq4xsBytes; dst, src = dst[superBlockValues:], src[iq4xsBytes:] {
		d, high := scaleAt(src, 0), binary.LittleEndian.Uint16(src[2:])
		for i := range 8 {
			low := src[4+i/2] >> (i % 2 * 4) & 15
			scale := int(low) | int(high>>(2*i)&3)<<4
			decodeNibbles((*[blockValues]float32)(dst[i*blockValues:]), (*[16]byte)(src[8+i*16:]), &nonlinear4, d*float32(scale-32))
		}
	}
}
