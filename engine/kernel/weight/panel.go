package weight

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"sync"

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
// A few values of a row are far larger than the rest, and would take from those that share their scale
// most of their eight bits. Values beyond limit times the root mean square of their row are therefore no part of
// what the scale fits; where they exceed 127 of its steps they are zeros among the int8 and lie as int16
// beside them: in pairs of the first and third or of the second and fourth value of a k-quad, as products of
// int16 take them. The sums have them all the same. What a panel of m rows has beside is
//
//	uint32 [values/32][16][m]  the pairs; of 32 values, pair i begins with value i%8*4 + i/8
//	uint16 [values/32]         whose bit i says whether any row has large values in pair i
//
// Pairs without a bit are not read and hold anything. Rows without large values in a pair have zeros there, so that a
// row's products are the same integers whatever other rows have.
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

// panelSplit divides rows into panels: the first extra have size+1 rows, the others
// size.
type panelSplit struct {
	panels, size, extra int
}

func cutRows(level isa.Level, rows int) panelSplit {
	n := 1
	if most := PanelRows(level); rows > panelRows || level == isa.AVX2 {
		n = (rows + most - 1) / most
	}
	return panelSplit{panels: n, size: rows / n, extra: rows % n}
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
func (c panelSplit) panel(p int) (first, rows int) {
	if p < c.extra {
		return p * (c.size + 1), c.size + 1
	}
	return p*c.size + c.extra, c.size
}

// run returns how many panels from panel p on have as many rows as it has; at most most.
func (c panelSplit) run(p, most int) int {
	if p < c.extra {
		return min(most, c.extra-p)
	}
	return min(most, c.panels-p)
}

// locate returns the panel that row r is in.
func (c panelSplit) locate(r int) int {
	if wide := c.extra * (c.size + 1); r >= wide {
		return c.extra + (r-wide)/c.size
	}
	return r / (c.size + 1)
}

// words is how many dwords of a panel a row's block takes; its dword i lies at
// index i*m+lane.
func (k kind) words(cols int) int { return k.rowBytes(cols) / 4 }

// Limits of what a row's scales fit, in terms of its root mean square. Values above cost a product of their own, for all
// rows of a panel. Superblocks share a scale among eight times as many values.
const (
	superLimit  = 8
	blockLimit  = 10
	outputLimit = 3 // see Product.Output
)

// limit is how many times the root mean square of its row a value may be large from.
func (k kind) limit(output bool) float32 {
	switch {
	case output:
		return outputLimit
	case k == kindBlock:
		return blockLimit
	}
	return superLimit
}

func rootMeanSquare(level isa.Level, x []float32) float32 {
	return float32(math.Sqrt(float64(vector.SumSquares(level, x) / float32(len(x)))))
}

// blockSize is how many values of a row have a scale, and how many dwords are noted of them.
func (k kind) blockSize() (values, marks int) {
	if k == kindSuper {
		return superBlockValues, superMarks
	}
	return blockValues, blockMarks
}

// rounds reports whether panels of this kind hold codes with scales.
func (k kind) rounds() bool { return k == kindSuper || k == kindBlock }

// panelPlace is the place of one row in a panel.
type panelPlace struct {
	panel []float32 // dwords of several types
	rows  int       // of the panel
	row   int

	large []uint32 // the panel's pairs
	masks []uint16
	lock  *sync.Mutex // of large and masks
}

// round brings a row into the form that panels hold except for the place, in scratch or, where the place takes all of a panel, in it. It
// returns the row, what it noted in marks, see quantizeRow, and whether the row has large values, which its sums contain; limit is as
// kind.limit gives it. scratch holds at least two times len(x) floats.
func (p panelPlace) round(level isa.Level, k kind, limit float32, x, scratch []float32) (row, marks []float32, large bool) {
	row = x
	if k != kindFloat {
		if row = scratch[:k.words(len(x))]; p.rows == 1 {
			row = p.panel[:len(row)]
		}
	}
	switch k {
	case kindSuper, kindBlock:
		size, n := k.blockSize()
		marks = scratch[len(x):][:len(x)/size*n]
		if large = quantizeRow(level, k, limit*rootMeanSquare(level, x), row, x, marks); large {
			for i, steps := range k.large(x, marks) {
				k.addToSums(row, i, steps)
			}
		}
	case kindPair:
		quantizeRowFast(level, k, 0, row, x, nil)
	default:
	}
	return row, marks, large
}

// fill writes a row that round has made of x to its place.
func (p panelPlace) fill(level isa.Level, k kind, row, x, marks []float32, large bool) {
	if large {
		p.spread(k, x, marks)
	}
	if p.rows > 1 || k == kindFloat {
		placeRow(level, p.panel[p.row:], p.rows, row)
		return
	}
	if to := p.panel[:len(row)]; &to[0] != &row[0] {
		copy(to, row)
	}
}

// spread writes the large values of a row, which marks names, to the panel's pairs.
func (p panelPlace) spread(k kind, x, marks []float32) {
	locked := false
	for i, steps := range k.large(x, marks) {
		if !locked {
			p.lock.Lock()
			locked = true
		}
		p.put(i, steps)
	}
	if locked {
		p.lock.Unlock()
	}
}

// large are the values of a row that its marks name: their indices, and how many steps of their block's scale they are.
func (k kind) large(x, marks []float32) iter.Seq2[int, int32] {
	return func(yield func(int, int32) bool) {
		values, words := k.blockSize()
		for b := range len(x) / values {
			block := marks[b*words:][:words]
			for w, mark := range block[:words-1] {
				for m := math.Float32bits(mark); m != 0; m &= m - 1 {
					i := b*values + 32*w + bits.TrailingZeros32(m)
					if !yield(i, roundStep(x[i]*block[words-1])) {
						return
					}
				}
			}
		}
	}
}

// put adds a large value to the panel's pairs.
func (p panelPlace) put(index int, steps int32) {
	block, i := index/blockValues, index%blockValues
	pair := i/4 + i%2*8
	all := p.large[(16*block+pair)*p.rows:][:p.rows]
	if p.masks[block]>>pair&1 == 0 {
		p.masks[block] |= 1 << pair
		clear(all)
	}
	all[p.row] |= uint32(uint16(steps)) << (i % 4 / 2 * 16)
}

// addToSums adds a large value to the sums of a row.
func (k kind) addToSums(row []float32, index int, steps int32) {
	if k == kindBlock {
		block := vector.Bytes(row[index/blockValues*k.words(blockValues):])
		addQuad(block, blockBiases, -128*steps)
		return
	}
	i := index % superBlockValues
	block := vector.Bytes(row[index/superBlockValues*k.words(superBlockValues):])
	addQuad(block, superBiases+i/16*4, -32*steps)
	sum := block[superSums+i/32*2:]
	binary.LittleEndian.PutUint16(sum, binary.LittleEndian.Uint16(sum)+uint16(steps))
}

func addQuad(b []byte, i int, v int32) { putQuad(b, i, quad(b, i)+uint32(v)) }

// quantizeRow writes what a panel of this row alone holds except for the large values, which it notes in marks: of each
// block a bit for each value and the inverse of the scale. It reports whether any block has values above limit.
// dst and marks are memory for dwords of several types, seen as floats.
func quantizeRow(level isa.Level, k kind, limit float32, dst, x, marks []float32) (large bool) {
	if large, done := quantizeRowFast(level, k, limit, dst, x, marks); done {
		return large
	}
	size, n := k.blockSize()
	one := quantizeSuper
	if k == kindBlock {
		one = quantizeBlock
	}
	for ; len(x) > 0; x = x[size:] {
		large = one(vector.Bytes(dst[:k.words(size)]), x[:size], limit, vector.Bytes(marks[:n])) || large
		dst, marks = dst[k.words(size):], marks[n:]
	}
	return large
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

func quantizeSuper(dst []byte, x []float32, limit float32, marks []byte) (large bool) {
	top := largest(x)
	if large = top > limit; large {
		top = max(largestUpTo(x, limit), sumBound(x)*largestShare)
	}
	scale, inverse := int8Scale(top)
	clear(marks)
	putQuad(marks, superBlockValues/8, math.Float32bits(inverse))
	for i := range 16 {
		sum := int32(0)
		for j, v := range x[16*i : 16*i+16] {
			q := roundStep(v * inverse)
			if q > 127 || q < -127 {
				marks[2*i+j/8] |= 1 << (j % 8)
				q = 0
			}
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
	return large
}

// quantizeBlock takes as scale the one that fits the rounded values best, by
// least squares: a block is short enough for that to matter.
func quantizeBlock(dst []byte, x []float32, limit float32, marks []byte) (large bool) {
	top := largest(x)
	if large = top > limit; large {
		top = max(largestUpTo(x, limit), top*largestShare)
	}
	scale, inverse := int8Scale(top)
	clear(marks)
	putQuad(marks, blockValues/8, math.Float32bits(inverse))
	sum, square, fit := int32(0), float32(0), float32(0)
	for i, v := range x {
		q := roundStep(v * inverse)
		square += float32(q) * float32(q)
		fit += v * float32(q)
		if q > 127 || q < -127 {
			marks[i/8] |= 1 << (i % 8)
			q = 0
		}
		dst[i] = byte(q)
		sum += q
	}
	putQuad(dst, blockBiases, uint32(-128*sum))
	if square > 0 || math.IsNaN(float64(square)) {
		scale = fit / square
	}
	putQuad(dst, blockScale, math.Float32bits(scale))
	return large
}

func roundStep(v float32) int32 { return int32(math.RoundToEven(float64(v))) }

// largest is the largest magnitude in x, NaN if there is one.
func largest(x []float32) float32 { return largestUpTo(x, float32(math.Inf(1))) }

// largestUpTo is the largest magnitude in x of those up to limit.
func largestUpTo(x []float32, limit float32) float32 {
	top := float32(0)
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); !(a > limit) {
			top = max(top, a)
		}
	}
	return top
}

// largestShare keeps the sum of 32 codes' magnitudes, and so each of them, below what pairs, sums of 32 values and the integer
// totals of superblocks hold.
const largestShare = float32(127.0 / largestCode)

// sumBound is at least the sum of the magnitudes of any 32 values of a superblock. It is of the
// largest in each of sixteen lanes, added up as vectors do.
func sumBound(x []float32) float32 {
	var lanes [16]float32
	for ; len(x) > 0; x = x[32:] {
		for i := range lanes {
			lanes[i] = max(lanes[i], float32(math.Abs(float64(x[i])))+float32(math.Abs(float64(x[i+16]))))
		}
	}
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			lanes[i] += lanes[i+n]
		}
	}
	return lanes[0]
}

// int8Scale is the scale that maps values up to top to [-127,127], and its inverse; both are 0
// where top is. A top that is not finite makes a scale that is not:
// it has to show in the result.
func int8Scale(top float32) (scale, inverse float32) {
	if top == 0 {
		return 0, 0
	}
	return top / 127, 127 / top
}

// rest writes to dst what the rounding of x to row and marks took from it.
func (k kind) rest(dst, x, row, marks []float32) {
	size, _ := k.blockSize()
	scaleAt := blockScale
	if k == kindSuper {
		scaleAt = superScale
	}
	scale := func(i int) float32 { return row[i/size*k.words(size)+scaleAt/4] }
	for b := 0; b < len(x); b += size {
		codes, from, to := vector.Bytes(row[b/size*k.words(size):])[:size], x[b:][:size], dst[b:][:size]
		step := scale(b)
		for i, c := range codes {
			to[i] = from[i] - step*float32(int8(c))
		}
	}
	for i, steps := range k.large(x, marks) {
		dst[i] = x[i] - scale(i)*float32(steps)
	}
}
