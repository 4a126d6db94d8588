package weight

import (
	"encoding/binary"
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// A panel holds some activation rows side by side, so that a product
// reads one stream. Rows of a step are cut into panels of nearly equal size; a
// row's values and its products do not depend on the cut. With m rows a panel
// is a sequence of blocks:
//
//	kindSuper  int8 [64][m][4], int32 [16][m], int16 [4][m][2], float32 [m]
//	kindBlock  int8 [8][m][4], int32 [m], float32 [m]
//	kindFloat  float32 [m]
//	kindPair   bfloat16 [m][2]
//
// where int8 are k-quads of quantised values; the int32 are -32 (kindSuper, for
// each 16 values) or -128 (kindBlock) times their sum, which takes the offset
// off unsigned weights; the int16 are sums of each 32 values, for minima; and
// the float32 are scales.
//
// Up to panelRows rows are one panel; more are cut into panels of 4 to pairRows,
// which meet two tiles at a time. With AVX2, which has half the registers of
// half the width, panels have at most narrowRows.

// floatPanelBytes is what a panel of floats holds of a column of one row.
const floatPanelBytes = 4

// rowBytes is what one row of cols values takes in panels of this kind.
func (k kind) rowBytes(cols int) int {
	switch k {
	case kindSuper:
		return cols / superBlockValues * superPanelBytes
	case kindBlock:
		return cols / blockValues * blockPanelBytes
	case kindPair:
		return 2 * cols
	default:
		return cols * floatPanelBytes
	}
}

// cut divides rows into panels: the first extra have size+1 rows, the others
// size.
type cut struct {
	panels, size, extra int
}

func cutRows(level isa.Level, rows int) cut {
	n := 1
	if most := PanelRows(level); rows > panelRows || level == isa.AVX2 {
		n = (rows + most - 1) / most
	}
	return cut{panels: n, size: rows / n, extra: rows % n}
}

// PanelRows is how many rows the panels of a large step have: a step of a few
// rows more takes as long as one of a whole further panel.
func PanelRows(level isa.Level) int {
	if level == isa.AVX2 {
		return narrowRows
	}
	return pairRows
}

// panel returns the first row and the number of rows of panel p.
func (c cut) panel(p int) (first, rows int) {
	if p < c.extra {
		return p * (c.size + 1), c.size + 1
	}
	return p*c.size + c.extra, c.size
}

// locate returns the panel that row r is in.
func (c cut) locate(r int) int {
	if wide := c.extra * (c.size + 1); r >= wide {
		return c.extra + (r-wide)/c.size
	}
	return r / (c.size + 1)
}

// words is how many dwords of a panel a row's block takes; its dword i lies at
// index i*m+lane.
func (k kind) words(cols int) int { return k.rowBytes(cols) / 4 }

// panelPlace is the place of one row in a panel.
type panelPlace struct {
	panel []float32 // dwords of several types
	rows  int       // of the panel
	row   int
}

// fill writes x to its place. scratch holds at least words(len(x)) floats.
func (p panelPlace) fill(level isa.Level, k kind, x, scratch []float32) {
	row := x
	if k != kindFloat {
		if row = scratch[:k.words(len(x))]; p.rows == 1 {
			row = p.panel[:len(row)]
		}
		quantizeRow(level, k, row, x)
	}
	if p.rows > 1 || k == kindFloat {
		placeRow(level, p.panel[p.row:], p.rows, row)
	}
}

// quantizeRow writes what a panel of this row alone holds. dst is memory for
// dwords of several types, seen as floats.
func quantizeRow(level isa.Level, k kind, dst, x []float32) {
	if quantizeRowFast(level, k, dst, x) {
		return
	}
	size, one := superBlockValues, quantizeSuper
	if k == kindBlock {
		size, one = blockValues, quantizeBlock
	}
	for ; len(x) > 0; x = x[size:] {
		one(vector.Bytes(dst[:k.words(size)]), x[:size])
		dst = dst[k.words(size):]
	}
}

// placeRow copies the words of row to every m-th word of panel.
func placeRow(level isa.Level, panel []float32, m int, row []float32) {
	if placeRowFast(level, panel, m, row) {
		return
	}
	for i, v := range row {
		panel[i*m] = v
	}
}

func quantizeSuper(dst []byte, x []float32) {
	scale, inverse := int8Scale(x)
	for i := range 16 {
		sum := int32(0)
		for j, v := range x[16*i : 16*i+16] {
			q := roundInt8(v * inverse)
			dst[16*i+j] = byte(q)
			sum += q
		}
		putQuad(dst, superBiases+4*i, uint32(-32*sum))
		if at := superSums + i/2*2; i%2 == 0 {
			binary.LittleEndian.PutUint16(dst[at:], uint16(sum))
		} else {
			sum += int32(int16(binary.LittleEndian.Uint16(dst[at:])))
			binary.LittleEndian.PutUint16(dst[at:], uint16(sum))
		}
	}
	putQuad(dst, superScale, math.Float32bits(scale))
}

// quantizeBlock takes as scale the one that fits the rounded values best, by
// least squares: a block is short enough for that to matter.
func quantizeBlock(dst []byte, x []float32) {
	scale, inverse := int8Scale(x)
	var sum, square int32
	fit := float32(0)
	for i, v := range x {
		q := roundInt8(v * inverse)
		dst[i] = byte(q)
		sum += q
		square += q * q
		fit += v * float32(q)
	}
	putQuad(dst, blockBiases, uint32(-128*sum))
	if square > 0 {
		scale = fit / float32(square)
	}
	putQuad(dst, blockScale, math.Float32bits(scale))
}

func roundInt8(v float32) int32 { return int32(math.RoundToEven(float64(v))) }

// int8Scale is the scale that maps x to [-127,127], and its inverse; both are 0
// where all values are. A value that is not finite makes a scale that is not:
// it has to show in the result.
func int8Scale(x []float32) (scale, inverse float32) {
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	if top == 0 {
		return 0, 0
	}
	return top / 127, 127 / top
}

// rest writes to dst what the rounding of a row to int8 takes from it: x less the
// values that a panel of kind k holds. scratch is as for fill.
func rest(level isa.Level, k kind, dst, x, scratch []float32) {
	row := scratch[:k.words(len(x))]
	quantizeRow(level, k, row, x)
	size, scaleAt := blockValues, blockScale
	if k == kindSuper {
		size, scaleAt = superBlockValues, superScale
	}
	for ; len(x) > 0; x, dst = x[size:], dst[size:] {
		block := vector.Bytes(row[:k.words(size)])
		scale := math.Float32frombits(binary.LittleEndian.Uint32(block[scaleAt:]))
		codes, from, to := block[:size], x[:size], dst[:size]
		for i, c := range codes {
			to[i] = from[i] - scale*float32(int8(c))
		}
		row = row[k.words(size):]
	}
}
