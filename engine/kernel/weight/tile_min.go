package weight

// This file lays out the types with a minimum for each 32 values beside their
// scale, Q4_1 and Q5_1.

// packQ41: as packQ40, with the minima after the scales.
func packQ41(tile, src []byte, stride int) {
	interleave(tile, src, stride, 4, 4, 0)
	lanes(tile[q41Factor:], src, stride, 0)
	lanes(tile[q41Least:], src, stride, 2)
}

func unpackQ41(block, tile []byte, lane int) {
	copy(block[0:2], tile[q41Factor+2*lane:])
	copy(block[2:4], tile[q41Least+2*lane:])
	collect(block[4:], tile, lane, 4, 0)
}

// packQ51: as packQ50, with the minima after the scales.
func packQ51(tile, src []byte, stride int) {
	interleave(tile, src, stride, 8, 4, 0)
	for r := range tileLanes {
		putQuad(tile, q51High+4*r, spread(quad(src, r*stride+4)))
	}
	lanes(tile[q51Factor:], src, stride, 0)
	lanes(tile[q51Least:], src, stride, 2)
}

func unpackQ51(block, tile []byte, lane int) {
	copy(block[0:2], tile[q51Factor+2*lane:])
	copy(block[2:4], tile[q51Least+2*lane:])
	putQuad(block, 4, gather(quad(tile, q51High+4*lane)))
	collect(block[8:], tile, lane, 4, 0)
}

func expandQ41(codes, tile []byte) { expandQ40(codes, tile) }

func expandQ51(codes, tile []byte) { expandQ50(codes, tile) } // their bits lie alike
