package weight

import "encoding/binary"

// This file lays out the types whose codes come in pairs of bits, Q2_K and Q3_K.

// Bytes of a tile's superblock: pairs of bits, of Q3_K the third bits, a byte
// for each 16 values of a row, float16 factors.
const (
	q2kTileBytes = 1024 + 256 + 64
	q3kTileBytes = 1024 + 512 + 256 + 32
)

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
			tile[1024+16*j+r] = b
		}
	}
	lanes(tile[1280:], src, stride, 80)
	lanes(tile[1312:], src, stride, 82)
}

func unpackQ2K(block, tile []byte, lane int) {
	for j := range 16 {
		block[j] = tile[1024+16*j+lane]
	}
	unpackPairs(block[16:80], tile, lane)
	copy(block[80:82], tile[1280+2*lane:])
	copy(block[82:84], tile[1312+2*lane:])
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
			putQuad(tile, 1024+64*run+4*r, v)
		}
		packed := (*[12]byte)(block[96:])
		for j := range 16 {
			tile[1536+16*j+r] = byte(scaleQ3K(packed, j) - 32)
		}
	}
	lanes(tile[1792:], src, stride, 108)
}

func unpackQ3K(block, tile []byte, lane int) {
	for q := range 8 {
		v := uint32(0)
		for run := range 8 {
			v |= quad(tile, 1024+64*run+4*lane) >> q & low1 << run
		}
		putQuad(block, 4*q, v)
	}
	unpackPairs(block[32:96], tile, lane)
	packed := (*[12]byte)(block[96:])
	*packed = [12]byte{}
	for j := range 16 {
		scale := tile[1536+16*j+lane] + 32
		packed[j%8] |= scale & 15 << (j / 8 * 4)
		packed[8+j%4] |= scale >> 4 << (j / 4 * 2)
	}
	copy(block[108:110], tile[1792+2*lane:])
}

func expandQ3K(codes, tile []byte) {
	expandQ2K(codes, tile)
	for q := range 64 {
		for r := range tileLanes {
			i := 64*q + 4*r
			third := quad(tile, 1024+64*(q/8)+4*r) >> (q % 8) & low1
			putQuad(codes, i, quad(codes, i)|third<<2)
		}
	}
}

// sums16 adds a row's products with each 16 values times their signed scales
// [16][lane] to isum. The panel's biases, divided by 1<<shift, take the codes'
// offset off.
func sums16(isum *[tileLanes]int32, codes, scales, panel []byte, m, r, shift int) {
	for j := range 16 {
		sum := filled(panelInt(panel[256*m:], j*m+r) >> shift)
		dotQuads(&sum, codes[256*j:], panel[16*j*m+4*r:], m, 4)
		for l := range isum {
			isum[l] += int32(int8(scales[16*j+l])) * sum[l]
		}
	}
}

// sumsQ2K is sums16 for scales in the low halves of bytes whose high halves are
// minima, which add the activations' sums to msum.
func sumsQ2K(isum, msum *[tileLanes]int32, codes, scales, panel []byte, m, r int) {
	for j := range 16 {
		var sum [tileLanes]int32
		dotQuads(&sum, codes[256*j:], panel[16*j*m+4*r:], m, 4)
		act := panelInt(panel[256*m:], j*m+r) / -32
		for l := range isum {
			isum[l] += int32(scales[16*j+l]&15) * sum[l]
			msum[l] += int32(scales[16*j+l]>>4) * act
		}
	}
}

// sums32 adds a row's products with each 32 values times the scales [8][lane] to
// isum and the activations' sums times the minima [4][lane][2] to msum.
func sums32(isum, msum *[tileLanes]int32, codes, scales, panel []byte, m, r int) {
	for j := range 8 {
		var sum [tileLanes]int32
		dotQuads(&sum, codes[512*j:], panel[32*j*m+4*r:], m, 8)
		act := int32(int16(binary.LittleEndian.Uint16(panel[320*m+4*(j/2*m+r)+j%2*2:])))
		for l := range isum {
			isum[l] += int32(scales[16*j+l]) * sum[l]
			msum[l] += int32(scales[128+32*(j/2)+2*l+j%2]) * act
		}
	}
}
