package weight

import (
	"encoding/binary"
)

// kind says how activations are laid out for a product: see panel.go.
type kind uint8

const (
	kindSuper kind = iota // int8 with one scale for 256 values
	kindBlock             // int8 with one scale for 32 values
	kindFloat
	kindPair // bfloat16, see pair.go
	kinds
)

// format describes how the rows of one weight type are interleaved. A block
// of the values of tileLanes rows lies together: first the codes, four
// consecutive columns (a k-quad) of each row in turn, then the scales. The
// file's bits are kept; six-bit scales take eight. All formats, with the offsets
// of their parts, are in formats.go, which the generator of the assembly writes
// from its own table.
type format struct {
	kind      kind
	values    int // of one row, in a block
	rowBytes  int // a row's block in the file
	tileBytes int // a tile's block

	scales int // offset of scales that are bytes, where the type has some
	factor int // offset of float16 factors, 0 where it has none
	least  int // offset of the minima's float16 factors, 0 where it has none
	shift  int // how far right a panel's biases are moved to fit the codes' offset

	// pack interleaves tileLanes row blocks, stride bytes apart in src;
	// unpackBlock is its inverse.
	pack func(tile, src []byte, stride int)
}

// quad returns four bytes of b at offset i.
func quad(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }

func putQuad(b []byte, i int, v uint32) { binary.LittleEndian.PutUint32(b[i:], v) }

// lanes copies the two bytes at offset from of each of tileLanes row blocks to
// the 32 bytes of dst.
func lanes(dst, src []byte, stride, from int) {
	for r := range tileLanes {
		copy(dst[2*r:2*r+2], src[r*stride+from:])
	}
}

// interleave copies n k-quads, from bytes into each row block, so that the
// rows' quads are neighbours, flipping the bits of mask.
func interleave(dst, src []byte, stride, from, n int, mask uint32) {
	for r := range tileLanes {
		row := src[r*stride+from:][:4*n]
		for q := range n {
			putQuad(dst, 64*q+4*r, quad(row, 4*q)^mask)
		}
	}
}

// collect is interleave's inverse for one lane.
func collect(dst, tile []byte, lane, n int, mask uint32) {
	for q := range n {
		putQuad(dst, 4*q, quad(tile, 64*q+4*lane)^mask)
	}
}

const (
	low4  = 0x0f0f0f0f
	low2  = 0x03030303
	low1  = 0x01010101
	flip8 = 0x80808080
)

// packQ80: 8 k-quads of codes plus 128, then the scales.
func packQ80(tile, src []byte, stride int) {
	interleave(tile, src, stride, 2, 8, flip8)
	lanes(tile[q80Factor:], src, stride, 0)
}

func unpackQ80(block, tile []byte, lane int) {
	copy(block[:2], tile[q80Factor+2*lane:])
	collect(block[2:], tile, lane, 8, flip8)
}

func expandQ80(codes, tile []byte) { copy(codes[:512], tile) }

// packQ40: 4 k-quads of pairs of nibbles, then the scales. The low nibbles are
// k-quads 0 to 3, the high ones 4 to 7, as in the file.
func packQ40(tile, src []byte, stride int) {
	interleave(tile, src, stride, 2, 4, 0)
	lanes(tile[q40Factor:], src, stride, 0)
}

func unpackQ40(block, tile []byte, lane int) {
	copy(block[:2], tile[q40Factor+2*lane:])
	collect(block[2:], tile, lane, 4, 0)
}

func expandQ40(codes, tile []byte) {
	for i := 0; i < 256; i += 4 {
		v := quad(tile, i)
		putQuad(codes, i, v&low4)
		putQuad(codes, 256+i, v>>4&low4)
	}
}

func expandIQ4NL(codes, tile []byte) { expandTable(codes, tile, &nonlinear4, 128) }

// expandTable writes what a tile's nibbles stand for, plus offset.
func expandTable(codes, tile []byte, values *[16]float32, offset int) {
	var table [16]byte
	for c, v := range values {
		table[c] = byte(int(v) + offset)
	}
	expandQ40(codes, tile)
	for i, c := range codes[:512] {
		codes[i] = table[c&15]
	}
}

// packQ50: as packQ40, with the fifth bits between codes and scales: bit q of a
// byte belongs to k-quad q. In the file the four bytes after the scale hold
// one bit per value, in order.
func packQ50(tile, src []byte, stride int) {
	interleave(tile, src, stride, 6, 4, 0)
	for r := range tileLanes {
		putQuad(tile, q50High+4*r, spread(quad(src, r*stride+2)))
	}
	lanes(tile[q50Factor:], src, stride, 0)
}

func unpackQ50(block, tile []byte, lane int) {
	copy(block[:2], tile[q50Factor+2*lane:])
	putQuad(block, 2, gather(quad(tile, q50High+4*lane)))
	collect(block[6:], tile, lane, 4, 0)
}

func expandQ50(codes, tile []byte) {
	expandQ40(codes, tile)
	for q := range 8 {
		for r := range tileLanes {
			i := 64*q + 4*r
			putQuad(codes, i, quad(codes, i)|(quad(tile, q50High+4*r)>>(q&7)&low1)<<4)
		}
	}
}

// spread moves bit 4q+b of v to bit q of byte b; gather moves it back.
func spread(v uint32) (s uint32) {
	for q := range 8 {
		for b := range 4 {
			s |= v >> (4*q + b) & 1 << (8*b + q)
		}
	}
	return s
}

func gather(s uint32) (v uint32) {
	for q := range 8 {
		for b := range 4 {
			v |= s >> (8*b + q) & 1 << (4*q + b)
		}
	}
	return v
}

func packF32(tile, src []byte, stride int) { interleave(tile, src, stride, 0, 1, 0) }

func unpackF32(block, tile []byte, lane int) { collect(block, tile, lane, 1, 0) }

func packIQ4NL(tile, src []byte, stride int)   { packQ40(tile, src, stride) }
func unpackIQ4NL(block, tile []byte, lane int) { unpackQ40(block, tile, lane) }

func packF16(tile, src []byte, stride int) { lanes(tile, src, stride, 0) }

func unpackF16(block, tile []byte, lane int) { copy(block[:2], tile[2*lane:]) }

func packBF16(tile, src []byte, stride int)   { packF16(tile, src, stride) }
func unpackBF16(block, tile []byte, lane int) { unpackF16(block, tile, lane) }
