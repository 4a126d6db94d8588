package main

import "fmt"

// weightType describes a weight type: products and quantities
// of the generated code follow from its row in weightTypes. Functions of package
// weight go by the name: packQ4K, unpackQ4K, expandQ4K, decodeQ4K, and sumsQ4K of
// superblocks.
type weightType struct {
	name   string // in the names of functions; its constant in package gguf is Type and this, or constant
	kind   panelKind
	bytes  int   // of a row's block in the file
	tile   parts // of a row's block in a tile
	offset int   // by how much codes exceed the values that they encode

	avx512 func(*product)
	avx2   func(*product2)
	far    far // the zero value is prefetching as prefetchAhead does

	constant string // in package gguf, where the name is another
}

// panelKind is how activations are laid out for a type, as package weight names it.
type panelKind string

const (
	kindSuper panelKind = "kindSuper" // int8 with one scale for 256 values
	kindBlock panelKind = "kindBlock" // int8 with one scale for 32 values
	kindFloat panelKind = "kindFloat"
)

// values is how many values of a row make a block.
func (k panelKind) values() int {
	return map[panelKind]int{kindSuper: superValues, kindBlock: blockValues, kindFloat: 1}[k]
}

// parts are the sizes of what a tile holds of a row's block, in bytes, in the
// order in which they lie there: each part of all the tile's rows together. Where
// there are groups, the codes, high bits and scales of a group of columns lie side
// by side, one group behind the other: a product then reads one stream, which the
// hardware prefetches, instead of three.
type parts struct {
	codes  int // the low bits of the codes, or floats
	high   int // the bits above them
	scales int // a byte each, of MXFP4 exponents; of Q2_K with a minimum in the high half
	minima int // a byte each
	factor int // float16, of the scales or for them
	least  int // float16, of the minima or for them
	groups int // of as many columns each, or 0
}

// far is how products of one tile prefetch weights with AVX-512, in a stream of their own, where that was measured to be faster than
// what prefetchAhead does otherwise: into the second-level cache so many bytes ahead, with more than fewRows rows also into the first-level
// cache, where less is enough. More rows than those named do not. Other distances, half a block more or less, are up to a quarter slower.
type far struct{ second, first, rows int }

// layout are the offsets of a block's parts in a tile, in bytes: high and scales
// those of the first group, and group is from there to the next.
type layout struct{ high, scales, group, minima, factor, least, size int }

func (p parts) layout() (l layout) {
	groups := max(p.groups, 1)
	l.high = tileRows * p.codes / groups
	l.scales = l.high + tileRows*p.high/groups
	l.group = l.scales + tileRows*p.scales/groups
	l.minima = groups * l.group
	l.factor = l.minima + tileRows*p.minima
	l.least = l.factor + tileRows*p.factor
	l.size = l.least + tileRows*p.least
	return l
}

// tileRows is how many weight rows lie interleaved in a tile.
const tileRows = 16

// weightTypes has every type that a file may hold.
var weightTypes = []weightType{
	{name: "Q2K", kind: kindSuper, bytes: 84, tile: parts{codes: 64, scales: 16, factor: 2, least: 2}, avx512: (*product).q2k,
		avx2: (*product2).q2k},
	{name: "Q3K", kind: kindSuper, bytes: 110, tile: parts{codes: 64, high: 32, scales: 16, factor: 2}, offset: 4,
		avx512: (*product).q3k, avx2: (*product2).q3k, far: far{5472, 1824, maxRows}},
	{name: "Q4K", kind: kindSuper, bytes: 144, tile: parts{codes: 128, scales: 8, minima: 8, factor: 2, least: 2},
		avx512: (*product).q4k, avx2: (*product2).q4k, far: far{1184, 592, fewRows}},
	{name: "Q5K", kind: kindSuper, bytes: 176, tile: parts{codes: 128, high: 32, scales: 8, minima: 8, factor: 2, least: 2},
		avx512: (*product).q5k, avx2: (*product2).q5k, far: far{7200, 2880, maxRows}},
	{name: "Q6K", kind: kindSuper, bytes: 210, tile: parts{codes: 128, high: 64, scales: 16, factor: 2, groups: 4}, offset: 32,
		avx512: (*product).q6k, avx2: (*product2).q6k, far: far{8400, 3360, maxRows}},
	{name: "IQ4XS", kind: kindSuper, bytes: 136, tile: parts{codes: 128, scales: 8, factor: 2}, offset: 128,
		avx512: (*product).iq4xs, avx2: (*product2).iq4xs, far: far{5520, 2208, maxRows}},
	{name: "Q80", constant: "Q8_0", kind: kindBlock, bytes: 34, tile: parts{codes: 32, factor: 2}, offset: 128,
		avx512: (*product).q80, avx2: (*product2).q80, far: far{1088, 544, fewRows}},
	{name: "Q40", constant: "Q4_0", kind: kindBlock, bytes: 18, tile: parts{codes: 16, factor: 2}, offset: 8,
		avx512: (*product).q40, avx2: (*product2).q40},
	{name: "Q41", constant: "Q4_1", kind: kindBlock, bytes: 20, tile: parts{codes: 16, factor: 2, least: 2},
		avx512: (*product).q41, avx2: (*product2).q41},
	{name: "Q50", constant: "Q5_0", kind: kindBlock, bytes: 22, tile: parts{codes: 16, high: 4, factor: 2}, offset: 16,
		avx512: (*product).q50, avx2: (*product2).q50},
	{name: "Q51", constant: "Q5_1", kind: kindBlock, bytes: 24, tile: parts{codes: 16, high: 4, factor: 2, least: 2},
		avx512: (*product).q51, avx2: (*product2).q51},
	{name: "IQ4NL", kind: kindBlock, bytes: 18, tile: parts{codes: 16, factor: 2}, offset: 128, avx512: (*product).iq4nl,
		avx2: (*product2).iq4nl},
	{name: "MXFP4", kind: kindBlock, bytes: 17, tile: parts{codes: 16, scales: 1}, offset: 16, avx512: (*product).mxfp4,
		avx2: (*product2).mxfp4},
	{name: "F32", kind: kindFloat, bytes: 4, tile: parts{codes: 4}, avx512: (*product).f32, avx2: (*product2).f32},
	{name: "F16", kind: kindFloat, bytes: 2, tile: parts{codes: 2}, avx512: (*product).f16, avx2: (*product2).f16},
	{name: "BF16", kind: kindFloat, bytes: 2, tile: parts{codes: 2}, avx512: (*product).bf16, avx2: (*product2).bf16},
}

// ofKind are the rows of a kind.
func ofKind(k panelKind) []weightType {
	var all []weightType
	for _, t := range weightTypes {
		if t.kind == k {
			all = append(all, t)
		}
	}
	return all
}

// panelOffset is what a kind's panels hold sums of activations for: minus so much
// times each sum, in an int32.
func (k panelKind) panelOffset() int {
	return map[panelKind]int{kindSuper: 32, kindBlock: 128}[k]
}

// shift is by how many bits the panel's biases, which are made for codes that
// are panelOffset above what they stand for, have to be moved right for this
// type. It is negative where they have to be moved left.
func (t weightType) shift() int {
	if t.offset == 0 || t.kind == kindFloat {
		return 0
	}
	s := 0
	for o := t.offset; o < t.kind.panelOffset(); o *= 2 {
		s++
	}
	for o := t.offset; o > t.kind.panelOffset(); o /= 2 {
		s--
	}
	return s
}

// Values of a row in a block.
const (
	superValues = 256
	blockValues = 32
)

// Offsets of the parts of a row's block in panels, in bytes per row: int8 values,
// int32 biases, in superblocks int16 sums of pairs, and the float32 scale.
const (
	superBiases = superValues
	superSums   = superBiases + 4*superValues/16
	superScale  = superSums + 2*superValues/32
	superBytes  = superScale + 4

	blockBiases = blockValues
	blockScale  = blockBiases + 4
	blockBytes  = blockScale + 4
)

// Bytes of what is noted of a row's block beside: a bit for each value that is large, and the inverse of the scale.
const (
	superMarks = superValues/8 + 4
	blockMarks = blockValues/8 + 4
)

// Names of a type's products of so many rows: with AVX-512 of a tile, of two or of
// four, with AVX2 of a tile.

func (t weightType) product512(rows int) string {
	return fmt.Sprintf("product%sx%dAVX512", t.name, rows)
}
func (t weightType) pair512(rows int) string {
	return fmt.Sprintf("product%sx%dPairAVX512", t.name, rows)
}
func (t weightType) quad512(rows int) string {
	return fmt.Sprintf("product%sx%dQuadAVX512", t.name, rows)
}
func (t weightType) product256(rows int) string { return fmt.Sprintf("product%sx%dAVX2", t.name, rows) }
