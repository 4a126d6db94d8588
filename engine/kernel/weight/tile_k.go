package weight

// packQ4K: 32 k-quads of pairs of nibbles (in each group of 8, the low ones are
// one sub-block and the high ones the next), scales [8][16], pairs of minima
// [4][16][2], d [16], dmin [16].
func packQ4K(tile, src []byte, stride int) {
	interleave(tile, src, stride, 16, 32, 0)
	packScales(tile[q4kScales:], src, stride)
}

func unpackQ4K(block, tile []byte, lane int) {
	unpackScales(block, tile[q4kScales:], lane)
	collect(block[16:], tile, lane, 32, 0)
}

func expandQ4K(codes, tile []byte) {
	for g := range 4 {
		for i := 0; i < 512; i += 4 {
			v := quad(tile, 512*g+i)
			putQuad(codes, 1024*g+i, v&low4)
			putQuad(codes, 1024*g+512+i, v>>4&low4)
		}
	}
}

// Offsets after the scales of Q4_K and Q5_K, which end alike.
const (
	minimaAt = q4kMinima - q4kScales
	factorAt = q4kFactor - q4kScales
	leastAt  = q4kLeast - q4kScales
)

// packScales lays out what Q4_K and Q5_K have in common: all but the codes.
func packScales(dst, src []byte, stride int) {
	for r := range tileLanes {
		block := src[r*stride:]
		packed := (*[12]byte)(block[4:])
		for j := range 8 {
			scale, minimum := sixBits(packed, j)
			dst[16*j+r] = scale
			dst[minimaAt+32*(j/2)+2*r+j%2] = minimum
		}
	}
	lanes(dst[factorAt:], src, stride, 0)
	lanes(dst[leastAt:], src, stride, 2)
}

func unpackScales(block, src []byte, lane int) {
	copy(block[0:2], src[factorAt+2*lane:])
	copy(block[2:4], src[leastAt+2*lane:])
	packed := (*[12]byte)(block[4:])
	*packed = [12]byte{}
	for j := range 8 {
		scale, minimum := src[16*j+lane], src[minimaAt+32*(j/2)+2*lane+j%2]
		if j < 4 {
			packed[j] |= scale
			packed[j+4] |= minimum
		} else {
			packed[j+4] |= scale&15 | minimum<<4
			packed[j-4] |= scale >> 4 << 6
			packed[j] |= minimum >> 4 << 6
		}
	}
}

// sixBits reads scale and minimum j of 8 from the 12 bytes that Q4_K and Q5_K
// pack them into.
func sixBits(packed *[12]byte, j int) (scale, minimum byte) {
	if j < 4 {
		return packed[j] & 63, packed[j+4] & 63
	}
	return packed[j+4]&15 | packed[j-4]>>6<<4, packed[j+4]>>4 | packed[j]>>6<<4
}

// packQ5K: as packQ4K, with the fifth bits after the codes: of sub-block j
// [16][4] bytes, whose bit q belongs to k-quad q.
func packQ5K(tile, src []byte, stride int) {
	interleave(tile, src, stride, 48, 32, 0)
	for r := range tileLanes {
		bits := src[r*stride+16:]
		for j := range 8 {
			v := uint32(0)
			for q := range 8 {
				v |= quad(bits, 4*q) >> j & low1 << q
			}
			putQuad(tile, q5kHigh+64*j+4*r, v)
		}
	}
	packScales(tile[q5kScales:], src, stride)
}

func unpackQ5K(block, tile []byte, lane int) {
	unpackScales(block, tile[q5kScales:], lane)
	for q := range 8 {
		v := uint32(0)
		for j := range 8 {
			v |= quad(tile, q5kHigh+64*j+4*lane) >> q & low1 << j
		}
		putQuad(block, 16+4*q, v)
	}
	collect(block[48:], tile, lane, 32, 0)
}

func expandQ5K(codes, tile []byte) {
	expandQ4K(codes, tile)
	for q := range 64 {
		for r := range tileLanes {
			i := 64*q + 4*r
			bits := quad(tile, q5kHigh+64*(q/8)+4*r)
			putQuad(codes, i, quad(codes, i)|bits>>(q%8)&low1<<4)
		}
	}
}

// packQ6K: by groups of 64 columns 8 k-quads of pairs of nibbles (low: k-quads
// 0 to 7, high: 8 to 15), 4 quads of high bits, of which quad i holds those of
// k-quad 4s+i at bits 2s, and scales [4][16]; behind the groups d [16].
func packQ6K(tile, src []byte, stride int) {
	for r := range tileLanes {
		block := src[r*stride:][:q6kBytes]
		for half := range 2 {
			packHalfQ6K(tile[2*q6kGroup*half+4*r:], block[64*half:], block[128+32*half:])
		}
		for j, scale := range block[192:208] {
			tile[scale6(j)+r] = scale
		}
	}
	lanes(tile[q6kFactor:], src, stride, 208)
}

// packHalfQ6K lays out 128 values of one row as two groups: of runs of 32 values, in
// the file, nibbles of the first and third share 32 bytes, those of the second and
// fourth share 32 more, and all four share 32 bytes of high bits.
func packHalfQ6K(groups, nibbles, high []byte) {
	for q := range 8 {
		a, b := quad(nibbles, 4*q), quad(nibbles, 32+4*q)
		putQuad(groups, 64*q, a&low4|b&low4<<4)
		putQuad(groups, q6kGroup+64*q, a>>4&low4|b&^low4)
	}
	for i := range 4 {
		a, b := quad(high, 4*i), quad(high, 16+4*i)
		putQuad(groups, q6kHigh+64*i, a&low2|b&low2<<2|a>>2&low2<<4|b>>2&low2<<6)
		putQuad(groups, q6kGroup+q6kHigh+64*i, a>>4&low2|b>>4&low2<<2|a>>6&low2<<4|b>>6&low2<<6)
	}
}

func unpackQ6K(block, tile []byte, lane int) {
	clear(block[:192])
	for q := range 64 {
		putCodes6(block, q, tileCodes6(tile, q, lane))
	}
	for j := range 16 {
		block[192+j] = tile[scale6(j)+lane]
	}
	copy(block[208:210], tile[q6kFactor+2*lane:])
}

func expandQ6K(codes, tile []byte) {
	for q := range 64 {
		for r := range tileLanes {
			putQuad(codes, 64*q+4*r, tileCodes6(tile, q, r))
		}
	}
}

// tileCodes6 reads k-quad q of a lane from a tile.
func tileCodes6(tile []byte, q, lane int) uint32 {
	g, s, i := q/16, q%16/4, q%4
	nibbles := quad(tile, q6kGroup*g+64*(q%8)+4*lane) >> (4 * (s / 2)) & low4
	return nibbles | quad(tile, q6kGroup*g+q6kHigh+64*i+4*lane)>>(2*s)&low2<<4
}

// scale6 is where the lanes' scales of 16 values, the j-th of a superblock, begin in
// a tile.
func scale6(j int) int { return q6kGroup*(j/4) + q6kScales + 16*(j%4) }

// putCodes6 adds k-quad q of 64 to a row's superblock, cleared before.
func putCodes6(block []byte, q int, codes uint32) {
	half, run, at := q/32, q%32/8, 4*(q%8)
	low, high := 64*half+32*(run%2)+at, 128+32*half+at
	putQuad(block, low, quad(block, low)|codes&low4<<(4*(run/2)))
	putQuad(block, high, quad(block, high)|codes>>4&low2<<(2*run))
}
