package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// openScales converts the scales of a segment's values once, for all lanes.
func (a *attention) openScales() {
	a.function("openScales", "(dst *float32, data *byte, tiles *int, count, blocks int)",
		"%s writes the float16 scales that data has at each tile, sixteen for each block of values, as dst[block][16*tile+t].")
	dst, data, tiles := a.param("dst"), a.param("data"), a.param("tiles")
	a.times("tiles", a.param("count"), 1, func() {
		s, to := a.next(data, tiles, 0), a.copyOf(dst)
		a.times("blocks", a.param("blocks"), 1, func() {
			for i := 0; i < 16; i += a.floats() {
				a.VMOVUPS(a.loadFloats(at(s, 2*i), true), at(to, 4*i))
			}
			a.ADDQ(operand.U8(scaleBlock), s)
			a.ADDQ(operand.I32(segmentRow), to)
		})
		a.ADDQ(operand.U8(8), tiles)
		a.ADDQ(operand.U8(tileFloats), dst)
	})
	a.end()
}

// weighQ8 takes four lanes at once where there are registers for them: each step of theirs is independent of the others'.
func (a *attention) weighQ8() {
	a.function("weighQ8", "(w *byte, blocks int, x *float32, width int, seen *int, scales, out *float32)",
		"%s turns the scores of four lanes into a softmax each and weightCodes for each block of values; see weighQ8Portable.")
	w, x, seen, out, turns := a.param("w"), a.param("x"), a.param("seen"), a.param("out"), a.GP64()
	low := a.fill(a.static("ff800000", repeat(math.Float32bits(float32(math.Inf(-1))))...))
	a.MOVQ(operand.I32(laneStep), turns)
	a.times("hide", turns, 1, func() {
		a.hide(x, seen, low)
		a.ADDQ(operand.I32(scoreStride), x)
		a.ADDQ(operand.U8(16), seen)
	})
	a.SUBQ(operand.I32(laneStep*scoreStride), x)
	together := 1
	if a.wide {
		together = laneStep
	}
	a.MOVQ(operand.I32(laneStep), turns)
	a.times("lanes", turns, together, func() {
		a.tops(together, x, out)
		a.powers(together, x, out)
		a.roundWeights(together, w, x)
		a.ADDQ(operand.I32(int32(together*scoreStride)), x)
		a.ADDQ(operand.I32(int32(together*codeLane)), w)
		a.ADDQ(operand.U8(uint8(together*8)), out)
	})
	a.end()
}

// hide makes the scores that do not count the least.
func (a *attention) hide(x, seen, low reg.Register) {
	first, width, begin := a.GP64(), a.param("width"), a.GP64()
	a.MOVQ(at(seen, 0), first)
	a.walk(first, 1, false, func(p place) { a.store(low, x, p) })
	a.ADDQ(at(seen, 8), first)
	a.LEAQ(operand.Mem{Base: x, Index: first, Scale: 4}, begin)
	a.SUBQ(first, width)
	a.walk(width, 1, false, func(p place) { a.store(low, begin, p) })
}

// score is where a lane's score of a tile of the four at place is.
func score(x, place reg.Register, lane, tile, first int) operand.Mem {
	return operand.Mem{Base: x, Index: place, Scale: 4, Disp: lane*scoreStride + tileFloats*tile + 4*first}
}

// overTiles runs body for each four tiles of a segment, at place in tokens.
func (a *attention) overTiles(label string, body func(place reg.Register)) {
	place := a.GP64()
	a.XORQ(place, place)
	a.times(label, a.param("width"), 16*tilesTogether, func() {
		body(place)
		a.ADDQ(operand.U8(16*tilesTogether), place)
	})
}

// tops finds the largest score of each lane.
func (a *attention) tops(lanes int, x, out reg.Register) {
	tops := make([]reg.VecVirtual, 2*lanes)
	for i := range tops {
		tops[i] = a.vec()
		if i < lanes {
			a.VMOVUPS(at(x, i*scoreStride), tops[i])
		} else {
			a.VMOVUPS(tops[i-lanes], tops[i])
		}
	}
	a.overTiles("tops", func(place reg.Register) {
		for i := 0; i < 16*tilesTogether; i += a.floats() {
			for l := range lanes {
				m := tops[l+i/a.floats()%2*lanes]
				a.VMAXPS(score(x, place, l, 0, i), m, m)
			}
		}
	})
	for l := range lanes {
		a.VMOVSS(a.fold(a.VMAXPS, []reg.VecVirtual{tops[l], tops[l+lanes]}), at(out, 8*l))
	}
}

// powers makes scores weights, and adds them up.
func (a *attention) powers(lanes int, x, out reg.Register) {
	p, sums := a.power(), a.zeros(lanes)
	shifts := make([]reg.VecVirtual, lanes)
	for l := range shifts {
		shifts[l] = a.fill(at(out, 8*l))
		a.VMULPS(p.log2e, shifts[l], shifts[l])
	}
	a.overTiles("powers", func(place reg.Register) {
		for i := 0; i < 16*tilesTogether; i += a.floats() {
			v := make([]reg.VecVirtual, lanes)
			for l := range v {
				v[l] = a.vec()
				a.VMOVUPS(score(x, place, l, 0, i), v[l])
			}
			v = p.below(v, shifts)
			for l := range v {
				a.VADDPS(v[l], sums[l], sums[l])
				a.VMOVUPS(v[l], score(x, place, l, 0, i))
			}
		}
	})
	for l := range sums {
		a.VMOVSS(a.fold(a.VADDPS, sums[l:l+1]), at(out, 8*l+4))
	}
}

// roundWeights writes the codes and steps of each block of values. MAX gives its second source where either is NaN, and as an
// integer NaN is negative, which packing makes zero: so what is arbitrary counts as zero.
func (a *attention) roundWeights(lanes int, w, x reg.Register) {
	least, most, share := a.float(0x1p-100), a.float(weightMax), a.float(1/float32(weightMax))
	a.overTiles("fours", func(place reg.Register) {
		scales, to := a.param("scales"), a.copyOf(w)
		a.times("blocks", a.param("blocks"), 1, func() {
			for first := 0; first < 16; first += a.floats() {
				v := a.products(lanes, x, scales, place, first)
				tops := a.topsOfFours(v, least)
				for l, top := range tops {
					inverse := a.vec()
					a.VMOVUPS(most, inverse)
					a.VDIVPS(top, inverse, inverse)
					a.VMULPS(share, top, top)
					a.VMOVUPS(top, operand.Mem{Base: to, Index: place, Scale: 1, Disp: codeSteps + l*codeLane + 4*first})
					for _, x := range v[l] {
						a.VMULPS(inverse, x, x)
					}
				}
				for l := range v {
					a.pack(v[l], operand.Mem{Base: to, Index: place, Scale: 1, Disp: l*codeLane + 4*first})
				}
			}
			a.ADDQ(operand.I32(segmentRow), scales)
			a.ADDQ(operand.I32(codeBlock), to)
		})
	})
}

// products are weights times scales, of each lane and tile.
func (a *attention) products(lanes int, x, scales, place reg.Register, first int) [][]reg.VecVirtual {
	v := make([][]reg.VecVirtual, lanes)
	for tile := range tilesTogether {
		s := a.vec()
		a.VMOVUPS(score(scales, place, 0, tile, first), s)
		for l := range v {
			y := a.vec()
			a.VMULPS(score(x, place, l, tile, first), s, y)
			v[l] = append(v[l], y)
		}
	}
	return v
}

// topsOfFours finds for each lane the largest of each four neighbours in any of its registers, four times.
func (a *attention) topsOfFours(v [][]reg.VecVirtual, least operand.Op) []reg.VecVirtual {
	tops := make([]reg.VecVirtual, len(v))
	for l := range tops {
		tops[l] = a.vec()
		a.VMOVUPS(least, tops[l])
	}
	for tile := range v[0] {
		for l, top := range tops {
			a.VMAXPS(top, v[l][tile], top)
		}
	}
	for _, swap := range []uint8{0x4e, 0xb1} {
		for _, top := range tops {
			t := a.vec()
			a.VPERMILPS(operand.U8(swap), top, t)
			a.VMAXPS(t, top, top)
		}
	}
	return tops
}

// pack rounds four tiles' weights to bytes.
func (a *attention) pack(v []reg.VecVirtual, to operand.Mem) {
	for _, x := range v {
		a.VCVTPS2DQ(x, x)
	}
	a.VPACKUSDW(v[1], v[0], v[0])
	a.VPACKUSDW(v[3], v[2], v[2])
	a.VPACKUSWB(v[2], v[0], v[0])
	a.VMOVUPS(v[0], to)
}
