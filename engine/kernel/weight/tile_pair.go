package weight

// This file lays out the types whose codes come in pairs of bits, Q2_K and Q3_K.

// packPairs lays out the 64 bytes of pairs of one row, lane of a tile: by groups
// of 64 columns 4 quads, of which quad i holds those of k-quad 4s+i at bits 2s.
// In the file each 32 bytes hold four runs of 32 values, at bits 0, 2, 4 and 6.
func packPairs(tile, pairs []byte, lane int) {
	for g := range 4 {
		for i := range 4 {
			v := uint32(0)
			for s := range 4 {
				q := 16*g + 4*s + i
				v |= quad(pairs, q/32*32+q%8*4) >> (q % 32 / 8 * 2) & low2 << (2 * s)
			}
			putQuad(tile, 256*g+64*i+4*lane, v)
		}
	}
}

// pairsAt reads the pairs of k-quad q of a lane from a tile.
func pairsAt(tile []byte, q, lane int) uint32 {
	return quad(tile, q/16*256+q%4*64+4*lane) >> (q % 16 / 4 * 2) & low2
}

// unpackPairs is packPairs' inverse.
func unpackPairs(pairs, tile []byte, lane int) {
	for q := range 16 { // a byte of the file has the pairs of k-quads 8 apart
		first := q/8*32 + q%8
		v := uint32(0)
		for run := range 4 {
			v |= pairsAt(tile, first+8*run, lane) << (2 * run)
		}
		putQuad(pairs, 4*q, v)
	}
}

// packQ2K: pairs of bits, then [16][16] bytes as in the file (low half a scale,
// high half a minimum), d [16], dmin [16].
func packQ2K(tile, src []byte, stride int) {
	for r := range tileLanes {
		block := src[r*stride:]
		packPairs(tile, block[16:80], r)
		for j, b := range block[:16] {
			tile[q2kScales+16*j+r] = b
		}
	}
	lanes(tile[q2kFactor:], src, stride, 80)
	lanes(tile[q2kLeast:], src, stride, 82)
}

func unpackQ2K(block, tile []byte, lane int) {
	for j := range 16 {
		block[j] = tile[q2kScales+16*j+lane]
	}
	unpackPairs(block[16:80], tile, lane)
	copy(block[80:82], tile[q2kFactor+2*lane:])
	copy(block[82:84], tile[q2kLeast+2*lane:])
}

func expandQ2K(codes, tile []byte) {
	for q := range 64 {
		for r := range tileLanes {
			putQuad(codes, 64*q+4*r, pairsAt(tile, q, r))
		}
	}
}

// packQ3K: pairs of bits, then third bits, by groups of 32 columns a quad whose
// bit q belongs to k-quad q; scales [16][16] less 32, signed; d [16].
func packQ3K(tile, src []byte, stride int) {
	for r := range tileLanes {
		block := src[r*stride:]
		packPairs(tile, block[32:96], r)
		for run := range 8 {
			v := uint32(0)
			for q := range 8 {
				v |= quad(block, 4*q) >> run & low1 << q
			}
			putQuad(tile, q3kHigh+64*run+4*r, v)
		}
		packed := (*[12]byte)(block[96:])
		for j := range 16 {
			tile[q3kScales+16*j+r] = byte(scaleQ3K(packed, j) - 32)
		}
	}
	lanes(tile[q3kFactor:], src, stride, 108)
}

func unpackQ3K(block, tile []byte, lane int) {
	for q := range 8 {
		v := uint32(0)
		for run := range 8 {
			v |= quad(tile, q3kHigh+64*run+4*lane) >> q & low1 << run
		}
		putQuad(block, 4*q, v)
	}
	unpackPairs(block[32:96], tile, lane)
	packed := (*[12]byte)(block[96:])
	*packed = [12]byte{}
	for j := range 16 {
		scale := tile[q3kScales+16*j+lane] + 32
		packed[j%8] |= scale & 15 << (j / 8 * 4)
		packed[8+j%4] |= scale >> 4 << (j / 4 * 2)
	}
	copy(block[108:110], tile[q3kFactor+2*lane:])
}

func expandQ3K(codes, tile []byte) {
	expandQ2K(codes, tile)
	for q := range 64 {
		for r := range tileLanes {
			i := 64*q + 4*r
			third := quad(tile, q3kHigh+64*(q/8)+4*r) >> (q % 8) & low1
			putQuad(codes, i, quad(codes, i)|third<<2)
		}
	}
}
