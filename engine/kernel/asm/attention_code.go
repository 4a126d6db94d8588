package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func hex(bits uint32) string { return fmt.Sprintf("%08x", bits) }

// scoreQ8 sums products of codes exactly, and scales each block of 32. With
// VPDPBUSD keys are the unsigned operand and two tiles share each broadcast of
// four query codes. Without it keys lose their 128 again, and the query's sign
// moves to the key so that VPMADDUBSW gets an unsigned operand; its sums of two
// products are below 2^15.
func (a *attention) scoreQ8() {
	a.function("scoreQ8", "(dst *float32, query *uint32, lanes, blocks int, data *byte, tiles *int, count int)",
		"%s computes dst[lane][16*tile+t] from codes; see scoreQ8Portable.")
	dst, data, tiles, left := a.param("dst"), a.param("data"), a.param("tiles"), a.param("count")
	scales := a.param("blocks") // where they begin in a tile
	a.SHLQ(operand.U8(10), scales)
	step := 1
	if a.wide {
		step = 2
	}
	a.times("tiles", left, step, func() {
		var keys []reg.GPVirtual
		for i := range step {
			keys = append(keys, a.next(data, tiles, i))
		}
		q, out := a.param("query"), a.copyOf(dst)
		a.laneGroups(out, func(ask bool) {
			if a.wide {
				a.scoreWide(keys, scales, q, out, ask)
			} else {
				a.scoreNarrow(keys[0], scales, q, out, ask)
			}
		})
		a.ADDQ(operand.U8(8*step), tiles)
		a.ADDQ(operand.I32(int32(step*tileFloats)), dst)
	})
	a.end()
}

// scalesAhead asks for the scales of a tile's values, which begin after those
// of its keys at s.
func (a *attention) scalesAhead(s, scales reg.Register) {
	values := a.copyOf(scales)
	a.SHRQ(operand.U8(5), values) // keys' scales take a byte for 32 of codes
	a.ADDQ(s, values)
	a.PREFETCHT1(at(values, 0))
}

// scoreWide scores two tiles for four lanes and moves q to the next ones.
func (a *attention) scoreWide(keys []reg.GPVirtual, scales, q, out reg.Register, ask bool) {
	totals := a.zeros(2 * laneStep)
	var k, s []reg.GPVirtual
	for _, tile := range keys {
		k, s = append(k, a.copyOf(tile)), append(s, a.copyOf(tile))
		a.ADDQ(scales, s[len(s)-1])
		if ask {
			a.scalesAhead(s[len(s)-1], scales)
		}
	}
	if ask {
		a.SHRQ(operand.U8(1), scales) // values begin half way to scales
	}
	a.times(fmt.Sprint("blocks", ask), a.param("blocks"), 1, func() {
		sums := make([]reg.VecVirtual, 2*laneStep)
		for i := range sums {
			sums[i] = a.vec()
			a.VPBROADCASTD(at(q, queryBias+i/2*4), sums[i])
		}
		for quad := range 8 {
			x, y := a.vec(), a.vec()
			a.VMOVDQU32(at(k[0], 64*quad), x)
			a.VMOVDQU32(at(k[1], 64*quad), y)
			for i := range k {
				if ask {
					a.PREFETCHT1(operand.Mem{Base: k[i], Index: scales, Scale: 1, Disp: 64 * quad})
				}
			}
			for l := range laneStep {
				w := a.vec()
				a.VPBROADCASTD(at(q, (quad*laneStep+l)*4), w)
				a.VPDPBUSD(w, x, sums[2*l])
				a.VPDPBUSD(w, y, sums[2*l+1])
			}
		}
		x, y := a.loadFloats(at(s[0], 0), true), a.loadFloats(at(s[1], 0), true)
		for l := range laneStep {
			a.addScaled(totals[2*l:2*l+2], sums[2*l:2*l+2], []reg.VecVirtual{x, y}, at(q, queryScales+4*l))
		}
		for i := range k {
			a.ADDQ(operand.I32(keyBlock), k[i])
			a.ADDQ(operand.U8(scaleBlock), s[i])
		}
		a.ADDQ(operand.I32(queryBlock), q)
	})
	if ask {
		a.SHLQ(operand.U8(1), scales)
	}
	for l := range laneStep {
		a.VMOVUPS(totals[2*l], at(out, l*scoreStride))
		a.VMOVUPS(totals[2*l+1], at(out, l*scoreStride+tileFloats))
	}
}

// addScaled computes totals += sums * (scales * query) and leaves sums used up.
func (a *attention) addScaled(totals, sums, scales []reg.VecVirtual, query operand.Mem) {
	f := a.vec()
	a.VBROADCASTSS(query, f)
	for i := range totals {
		t := a.vec()
		a.VMULPS(f, scales[i], t)
		a.VCVTDQ2PS(sums[i], sums[i])
		a.VFMADD231PS(t, sums[i], totals[i])
	}
}

// scoreNarrow scores one tile for four lanes, two at a time for want of
// registers, and moves q to the next ones.
func (a *attention) scoreNarrow(tile, scales, q, out reg.Register, ask bool) {
	top, ones := a.words(0x80808080), a.words(0x00010001)
	begin := a.copyOf(q)
	for pair := range laneStep / 2 {
		a.MOVQ(begin, q)
		totals := a.zeros(4)
		k, s := a.copyOf(tile), a.copyOf(tile)
		a.ADDQ(scales, s)
		a.times(fmt.Sprintf("blocks%d%t", pair, ask), a.param("blocks"), 1, func() {
			sums := a.zeros(4)
			for quad := range 8 {
				x, y := a.vec(), a.vec()
				a.VPXOR(at(k, 64*quad), top, x)
				a.VPXOR(at(k, 64*quad+32), top, y)
				for l := range 2 {
					w, size := a.vec(), a.vec()
					a.VPBROADCASTD(at(q, (quad*laneStep+2*pair+l)*4), w)
					a.VPABSB(w, size)
					for i, keys := range []reg.VecVirtual{x, y} {
						t := a.vec()
						a.VPSIGNB(w, keys, t)
						a.VPMADDUBSW(t, size, t)
						a.VPMADDWD(ones, t, t)
						a.VPADDD(t, sums[2*l+i], sums[2*l+i])
					}
				}
			}
			x, y := a.loadFloats(at(s, 0), true), a.loadFloats(at(s, 16), true)
			for l := range 2 {
				a.addScaled(totals[2*l:2*l+2], sums[2*l:2*l+2], []reg.VecVirtual{x, y}, at(q, queryScales+4*(2*pair+l)))
			}
			a.ADDQ(operand.I32(keyBlock), k)
			a.ADDQ(operand.U8(scaleBlock), s)
			a.ADDQ(operand.I32(queryBlock), q)
		})
		for l := range 2 {
			a.VMOVUPS(totals[2*l], at(out, (2*pair+l)*scoreStride))
			a.VMOVUPS(totals[2*l+1], at(out, (2*pair+l)*scoreStride+32))
		}
	}
}

// mixQ8 adds up 32 values of four lanes over a segment: sixteen tokens that share a step in integers, the sixteens in
// floats.
func (a *attention) mixQ8() {
	a.function("mixQ8", "(out *float32, stride int, shares *float32, w *byte, data *byte, tiles *int, count int, keys *byte, scales int, ahead *int)",
		"%s adds to out[lane][0:32] from weightCodes at w; see mixQ8Portable.")
	out, stride, w, data := a.param("out"), a.param("stride"), a.param("w"), a.param("data")
	if a.wide {
		a.mixWide(out, stride, w, data)
	} else {
		lanes, shares := a.GP64(), a.param("shares")
		a.MOVQ(operand.I32(laneStep), lanes)
		a.times("lanes", lanes, 1, func() {
			a.mixNarrow(out, shares, w, data)
			a.LEAQ(operand.Mem{Base: out, Index: stride, Scale: 4}, out)
			a.ADDQ(operand.U8(8), shares)
			a.ADDQ(operand.I32(codeLane), w)
		})
	}
	a.end()
}

func (a *attention) mixWide(out, stride, w, data reg.Register) {
	totals := a.zeros(2 * laneStep)
	tiles := a.param("tiles")
	keys, scales, ahead := a.param("keys"), a.param("scales"), a.param("ahead")
	a.times("tiles", a.param("count"), tilesTogether, func() {
		a.keysAhead(keys, scales, ahead)
		var v []reg.GPVirtual
		for i := range tilesTogether {
			v = append(v, a.next(data, tiles, i))
		}
		for quad := range 4 {
			sums := a.zeros(2 * laneStep)
			for tile := range v {
				x, y := a.vec(), a.vec()
				a.VMOVDQU32(at(v[tile], 128*quad), x)
				a.VMOVDQU32(at(v[tile], 128*quad+64), y)
				for l := range laneStep {
					c := a.vec()
					a.VPBROADCASTD(at(w, l*codeLane+16*quad+4*tile), c)
					a.VPDPBUSD(x, c, sums[2*l])
					a.VPDPBUSD(y, c, sums[2*l+1])
				}
			}
			for l := range laneStep {
				step := a.vec()
				a.VBROADCASTSS(at(w, codeSteps+l*codeLane+16*quad), step)
				for i := range 2 {
					a.VCVTDQ2PS(sums[2*l+i], sums[2*l+i])
					a.VFMADD231PS(step, sums[2*l+i], totals[2*l+i])
				}
			}
		}
		a.ADDQ(operand.U8(8*tilesTogether), tiles)
		a.ADDQ(operand.U8(16*tilesTogether), w)
	})
	shares := a.param("shares")
	for l := range laneStep {
		a.addShare(totals[2*l:2*l+2], out, at(shares, 8*l), at(shares, 8*l+4))
		a.LEAQ(operand.Mem{Base: out, Index: stride, Scale: 4}, out)
	}
}

// addShare computes out = out*old + totals*now, in the order of blend.
func (a *attention) addShare(totals []reg.VecVirtual, out reg.Register, old, now operand.Mem) {
	f, g := a.fill(old), a.fill(now)
	for i, t := range totals {
		m := at(out, 4*i*a.floats())
		v := a.vec()
		a.VMOVUPS(m, v)
		a.VMULPS(g, t, t)
		a.VFMADD213PS(t, f, v)
		a.VMOVUPS(v, m)
	}
}

// keysAhead prefetches the keys and their scales of as many tiles, if there are any ahead.
func (a *attention) keysAhead(keys, scales, ahead reg.Register) {
	a.TESTQ(ahead, ahead)
	a.JZ(operand.LabelRef("later"))
	for i := range tilesTogether {
		k := a.next(keys, ahead, i)
		for line := 0; line < keyBlock; line += 64 {
			a.PREFETCHT1(at(k, line))
		}
		a.PREFETCHT1(operand.Mem{Base: k, Index: scales, Scale: 1})
	}
	a.ADDQ(operand.U8(8*tilesTogether), ahead)
	a.Label("later")
}

// mixNarrow adds up the values of one lane. VPMADDUBSW adds two products of bytes in 16 bits, which hold those of weights up
// to 128 only: so each weight is two addends.
func (a *attention) mixNarrow(out, shares, w, data reg.Register) {
	ones, totals := a.words(0x00010001), a.zeros(4)
	tiles, codes := a.param("tiles"), a.copyOf(w)
	a.times("tiles", a.param("count"), tilesTogether, func() {
		v, quads := a.copyOf(data), a.GP64()
		a.MOVQ(operand.I32(4), quads)
		a.times("quads", quads, 1, func() {
			sums := a.zeros(4)
			for tile := range tilesTogether {
				below, above, t := a.vec(), a.vec(), a.next(v, tiles, tile)
				a.VPBROADCASTD(at(codes, 4*tile), above)
				a.VPSRLW(operand.U8(1), above, below)
				a.VPAND(a.static("half", repeat(0x7f7f7f7f)...), below, below)
				a.VPSUBB(below, above, above)
				for i, s := range sums {
					for _, part := range []reg.VecVirtual{below, above} {
						x := a.vec()
						a.VPMADDUBSW(at(t, 32*i), part, x)
						a.VPMADDWD(ones, x, x)
						a.VPADDD(x, s, s)
					}
				}
			}
			step := a.vec()
			a.VBROADCASTSS(at(codes, codeSteps), step)
			for i, s := range sums {
				a.VCVTDQ2PS(s, s)
				a.VFMADD231PS(step, s, totals[i])
			}
			a.ADDQ(operand.U8(16), codes)
			a.ADDQ(operand.I32(128), v)
		})
		a.ADDQ(operand.U8(8*tilesTogether), tiles)
	})
	a.addShare(totals, out, at(shares, 0), at(shares, 4))
}
