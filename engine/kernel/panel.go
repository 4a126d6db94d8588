package kernel

import (
	"encoding/binary"
	"math"
)

// A panel holds up to panelRows activation rows side by side, so that a product
// reads one stream. Rows of a step are cut into panels of nearly equal size; a
// row's values and its products do not depend on the cut. With m rows a panel
// is a sequence of blocks:
//
//	kindSuper  int8 [64][m][4], int32 [16][m], int16 [4][m][2], float32 [m]
//	kindBlock  int8 [8][m][4], int32 [m], float32 [m]
//	kindFloat  float32 [m]
//
// where int8 are k-quads of quantised values; the int32 are -32 (kindSuper, for
// each 16 values) or -128 (kindBlock) times their sum, which takes the offset
// off unsigned weights; the int16 are sums of each 32 values, for minima; and
// the float32 are scales.
const panelRows = 8

// Bytes of one row's block in a panel.
const (
	superPanelBytes = 256 + 64 + 16 + 4
	blockPanelBytes = 32 + 4 + 4
	floatPanelBytes = 4
)

// rowBytes is what one row of cols values takes in panels of this kind.
func (k kind) rowBytes(cols int) int {
	switch k {
	case kindSuper:
		return cols / superBlockValues * superPanelBytes
	case kindBlock:
		return cols / blockValues * blockPanelBytes
	default:
		return cols * floatPanelBytes
	}
}

// cut divides rows into panels: the first extra have size+1 rows, the others
// size.
type cut struct {
	panels, size, extra int
}

func cutRows(rows int) cut {
	n := (rows + panelRows - 1) / panelRows
	return cut{panels: n, size: rows / n, extra: rows % n}
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

// fillPanel writes x as row lane of m to a panel.
func fillPanel(level Level, k kind, panel []byte, m, lane int, x []float32) {
	switch {
	case k == kindFloat:
		for i, v := range x {
			binary.LittleEndian.PutUint32(panel[4*(i*m+lane):], math.Float32bits(v))
		}
	case fillPanelFast(level, k, panel, m, lane, x):
	case k == kindSuper:
		for b := 0; len(x) > 0; b++ {
			fillSuper(panel[b*m*superPanelBytes:], m, lane, (*[superBlockValues]float32)(x))
			x = x[superBlockValues:]
		}
	case k == kindBlock:
		for b := 0; len(x) > 0; b++ {
			fillBlock(panel[b*m*blockPanelBytes:], m, lane, (*[blockValues]float32)(x))
			x = x[blockValues:]
		}
	}
}

func fillSuper(panel []byte, m, lane int, x *[superBlockValues]float32) {
	scale, inverse := int8Scale(x[:])
	bias, sums := panel[256*m:], panel[320*m:]
	for i := range 16 {
		sum := fillQuads(panel[16*i*m:], m, lane, x[16*i:16*i+16], inverse)
		binary.LittleEndian.PutUint32(bias[4*(i*m+lane):], uint32(-32*sum))
		at := 4*(i/4*m+lane) + i%4/2*2
		if i%2 == 0 {
			binary.LittleEndian.PutUint16(sums[at:], uint16(sum))
		} else {
			sum += int32(int16(binary.LittleEndian.Uint16(sums[at:])))
			binary.LittleEndian.PutUint16(sums[at:], uint16(sum))
		}
	}
	binary.LittleEndian.PutUint32(panel[4*(84*m+lane):], math.Float32bits(scale))
}

func fillBlock(panel []byte, m, lane int, x *[blockValues]float32) {
	scale, inverse := int8Scale(x[:])
	sum := fillQuads(panel, m, lane, x[:], inverse)
	binary.LittleEndian.PutUint32(panel[4*(8*m+lane):], uint32(-128*sum))
	binary.LittleEndian.PutUint32(panel[4*(9*m+lane):], math.Float32bits(scale))
}

// int8Scale is the scale that maps x to [-127,127], and its inverse; both are 0
// where all values are.
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

// fillQuads rounds x to int8, ties to even, and returns their sum.
func fillQuads(quads []byte, m, lane int, x []float32, inverse float32) (sum int32) {
	for i, v := range x {
		q := int32(math.RoundToEven(float64(v * inverse)))
		quads[4*(i/4*m+lane)+i%4] = byte(q)
		sum += q
	}
	return sum
}
