package weight

import "encoding/binary"

// This file lays out the types whose nibbles index a table of values, IQ4_XS and
// MXFP4; IQ4_NL lies as Q4_0 does.

// packIQ4XS: 32 k-quads of pairs of nibbles, of each 32 columns four (low: k-quads
// 0 to 3, high: 4 to 7); pairs of scales [4][16][2] less 32, signed; d [16].
func packIQ4XS(tile, src []byte, stride int) {
	interleave(tile, src, stride, 8, 32, 0)
	for r := range tileLanes {
		block := src[r*stride:]
		high := binary.LittleEndian.Uint16(block[2:])
		for j := range 8 {
			scale := block[4+j/2]>>(j%2*4)&15 | byte(high>>(2*j)&3)<<4
			tile[iq4xsScales+32*(j/2)+2*r+j%2] = scale - 32
		}
	}
	lanes(tile[iq4xsFactor:], src, stride, 0)
}

func unpackIQ4XS(block, tile []byte, lane int) {
	copy(block[0:2], tile[iq4xsFactor+2*lane:])
	clear(block[4:8])
	high := uint16(0)
	for j := range 8 {
		scale := tile[iq4xsScales+32*(j/2)+2*lane+j%2] + 32
		block[4+j/2] |= scale & 15 << (j % 2 * 4)
		high |= uint16(scale>>4) << (2 * j)
	}
	binary.LittleEndian.PutUint16(block[2:], high)
	collect(block[8:], tile, lane, 32, 0)
}

// expandIQ4XS writes values plus 128.
func expandIQ4XS(codes, tile []byte) {
	for j := range 8 {
		expandIQ4NL(codes[512*j:], tile[256*j:])
	}
}

// packMXFP4: 4 k-quads of pairs of nibbles, as packQ40, then the exponents.
func packMXFP4(tile, src []byte, stride int) {
	interleave(tile, src, stride, 1, 4, 0)
	for r := range tileLanes {
		tile[mxfp4Scales+r] = src[r*stride]
	}
}

func unpackMXFP4(block, tile []byte, lane int) {
	block[0] = tile[mxfp4Scales+lane]
	collect(block[1:], tile, lane, 4, 0)
}

// expandMXFP4 writes doubled values plus 16.
func expandMXFP4(codes, tile []byte) { expandTable(codes, tile, &e2m1Doubled, 16) }
