package weight

// This file lays out the types with a minimum for each 32 values beside their
// scale, Q4_1 and Q5_1.

// packQ41: as packQ40, with the minima behind the scales.
func packQ41(tile, src []byte, stride int) {
	interleave(tile, src, stride, 4, 4, 0)
	lanes(tile[256:], src, stride, 0)
	lanes(tile[288:], src, stride, 2)
}

func unpackQ41(block, tile []byte, lane int) {
	copy(block[0:2], tile[256+2*lane:])
	copy(block[2:4], tile[288+2*lane:])
	collect(block[4:], tile, lane, 4, 0)
}

// packQ51: as packQ50, with the minima behind the scales.
func packQ51(tile, src []byte, stride int) {
	interleave(tile, src, stride, 8, 4, 0)
	for r := range tileLanes {
		putQuad(tile, 256+4*r, spread(quad(src, r*stride+4)))
	}
	lanes(tile[320:], src, stride, 0)
	lanes(tile[352:], src, stride, 2)
}

func unpackQ51(block, tile []byte, lane int) {
	copy(block[0:2], tile[320+2*lane:])
	copy(block[2:4], tile[352+2*lane:])
	putQuad(block, 4, gather(quad(tile, 256+4*lane)))
	collect(block[8:], tile, lane, 4, 0)
}

// minimumProduct adds one block of the formats with a scale and a minimum for 32
// values.
func minimumProduct(total *[panelRows][tileLanes]float32, codes, factors, panel []byte, m int) {
	for r := range m {
		var sum [tileLanes]int32
		dotQuads(&sum, codes, panel[4*r:], m, 8)
		acts, scale := float32(panelInt(panel, 8*m+r)/-128), panelFloat(panel, 9*m+r)
		for l := range sum {
			v := float32(scaleAt(factors, 2*l) * float32(sum[l]))
			v += float32(scaleAt(factors, 32+2*l) * acts)
			total[r][l] += float32(v * scale)
		}
	}
}
