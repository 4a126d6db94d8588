package weight

// This file adds up superblocks of one row in plain Go: sums, one function for
// each type, multiplies codes and activations and scales the products; shares of
// several types come first.

// signed16 adds the products of each 16 values times their signed scales, bytes
// [4][4][lane] with group bytes from four to the next. The panel's biases, moved by
// shift, take the codes' offset off.
func (to *totals) signed16(codes, scales []byte, group int, row panelRow, shift int) {
	for j := range 16 {
		sum := filled(row.bias(j) >> shift)
		row.dot(&sum, codes[256*j:], 4*j, 4)
		for l := range to.scaled {
			to.scaled[l] += int32(int8(scales[group*(j/4)+16*(j%4)+l])) * sum[l]
		}
	}
}

// unsigned32 adds the products of each 32 values times the scales, bytes
// [8][lane], and the activations' sums times the minima, bytes [4][lane][2].
func (to *totals) unsigned32(codes, scales, minima []byte, row panelRow) {
	for j := range 8 {
		var sum [tileLanes]int32
		row.dot(&sum, codes[512*j:], 8*j, 8)
		act := row.sum(j)
		for l := range to.scaled {
			to.scaled[l] += int32(scales[16*j+l]) * sum[l]
			to.minima[l] += int32(minima[32*(j/2)+2*l+j%2]) * act
		}
	}
}

func sumsQ6K(to *totals, codes, tile []byte, row panelRow) {
	to.signed16(codes, tile[q6kScales:], q6kGroup, row, q6kShift)
}

func sumsQ3K(to *totals, codes, tile []byte, row panelRow) {
	to.signed16(codes, tile[q3kScales:], 64, row, q3kShift)
}

func sumsQ4K(to *totals, codes, tile []byte, row panelRow) {
	to.unsigned32(codes, tile[q4kScales:], tile[q4kMinima:], row)
}

func sumsQ5K(to *totals, codes, tile []byte, row panelRow) {
	to.unsigned32(codes, tile[q5kScales:], tile[q5kMinima:], row)
}

// sumsQ2K: scales of 16 values are the low halves of bytes whose high halves are
// minima.
func sumsQ2K(to *totals, codes, tile []byte, row panelRow) {
	scales := tile[q2kScales:]
	for j := range 16 {
		var sum [tileLanes]int32
		row.dot(&sum, codes[256*j:], 4*j, 4)
		act := row.bias(j) / -32
		for l := range to.scaled {
			to.scaled[l] += int32(scales[16*j+l]&15) * sum[l]
			to.minima[l] += int32(scales[16*j+l]>>4) * act
		}
	}
}

// sumsIQ4XS: signed scales of 32 values, bytes [4][lane][2].
func sumsIQ4XS(to *totals, codes, tile []byte, row panelRow) {
	scales := tile[iq4xsScales:]
	for j := range 8 {
		bias := row.bias(2*j) + row.bias(2*j+1)
		sum := filled(4 * bias) // the bias takes off 32 and the codes' offset is 128
		row.dot(&sum, codes[512*j:], 8*j, 8)
		for l := range to.scaled {
			to.scaled[l] += int32(int8(scales[32*(j/2)+2*l+j%2])) * sum[l]
		}
	}
}
