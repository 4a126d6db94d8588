package main

import (
	"fmt"
	"math"

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

// quantizeWeights runs over the segment twice: for the largest product of
// weight and value scale, and to round them all by it. MAX gives its second
// source where either is NaN, and as an integer NaN is negative, which packing
// makes zero: so what is arbitrary counts as zero.
func (a *attention) quantizeWeights() {
	a.function("quantizeWeights", "(w *byte, p *float32, data *byte, tiles *int, count int)",
		"%s fills weightCodes at w from four lanes of p; see quantizeWeightsPortable.")
	w, p, data := a.param("w"), a.param("p"), a.param("data")
	together := 1 // lanes
	if a.wide {
		together = laneStep
	}
	step := a.GP64() // of the lane
	a.LEAQ(at(w, codeStep), step)
	least, most := a.words(math.Float32bits(0x1p-100)), a.words(math.Float32bits(weightMax))
	share := a.words(math.Float32bits(1 / weightMax))
	turns := a.GP64()
	a.MOVQ(operand.I32(laneStep), turns)
	a.times("lanes", turns, together, func() {
		inverse := make([]reg.VecVirtual, together)
		for l := range inverse {
			inverse[l] = a.vec()
			a.VMOVUPS(least, inverse[l])
		}
		a.overWeights("top", p, data, together, func(l int, _ reg.Register, v []reg.VecVirtual) {
			for _, x := range v {
				a.VMAXPS(inverse[l], x, inverse[l])
			}
		})
		for l, v := range inverse {
			x := a.fold(a.VMAXPS, []reg.VecVirtual{v}).(reg.VecVirtual)
			t := a.XMM()
			a.VMULSS(share.AsX(), x, t)
			a.VMOVSS(t, at(step, 4*l))
			a.VDIVSS(x, most.AsX(), t)
			a.VBROADCASTSS(t, v)
		}
		a.overWeights("codes", p, data, together, func(l int, offset reg.Register, v []reg.VecVirtual) {
			for _, x := range v {
				a.VMULPS(inverse[l], x, x)
				a.VCVTPS2DQ(x, x)
			}
			for i := range len(v) / 2 {
				a.halves(v[i], v[i+len(v)/2], operand.Mem{Base: w, Index: offset, Scale: 2, Disp: l*codeLane + 32*i})
			}
		})
		a.ADDQ(operand.I32(int32(together*codeLane)), w)
		a.ADDQ(operand.I32(int32(together*scoreStride)), p)
		a.ADDQ(operand.U8(uint8(together*4)), step)
	})
	a.end()
}

// overWeights calls body with the products of weight and scale of each lane, in
// the registers of two tiles that begin at offset.
func (a *attention) overWeights(label string, p, data reg.Register, together int,
	body func(l int, offset reg.Register, v []reg.VecVirtual)) {
	tiles, left, offset := a.param("tiles"), a.param("count"), a.GP64()
	a.XORQ(offset, offset)
	a.times(label, left, 2, func() {
		var scales []reg.VecVirtual
		for i := range 2 {
			tile := a.next(data, tiles, i)
			for part := 0; part < 16; part += a.floats() {
				scales = append(scales, a.loadFloats(at(tile, 2*part), true))
			}
		}
		for l := range together {
			var v []reg.VecVirtual
			for i, s := range scales {
				x := a.vec()
				a.VMULPS(operand.Mem{Base: p, Index: offset, Scale: 4, Disp: l*scoreStride + i*4*a.floats()}, s, x)
				v = append(v, x)
			}
			body(l, offset, v)
		}
		a.ADDQ(operand.U8(8*2), tiles)
		a.ADDQ(operand.U8(16*2), offset)
	})
}

// halves stores the upper and lower seven bits of weights of the same tokens of
// two tiles. Packing leaves of each 128 bits four bytes of the first tile's upper
// halves, of the second's, then of the lower halves: [weightCodes] has that order.
func (a *attention) halves(x, y reg.VecVirtual, to operand.Mem) {
	upper := a.vec()
	a.VPACKUSDW(y, x, x)
	a.VPSRLW(operand.U8(7), x, upper)
	if a.wide {
		a.VPANDD(a.words(0x007f007f), x, x)
	} else {
		a.VPAND(a.words(0x007f007f), x, x)
	}
	a.VPACKUSWB(x, upper, x)
	a.VMOVUPS(x, to)
}

// codesOf is where weightCodes has four weights of a tile.
func codesOf(base reg.Register, lane, half, tile, quad int) operand.Mem {
	return at(base, lane*codeLane+codeQuad*quad+codeLow*half+4*tile)
}

// mixQ8 adds up 32 values of four lanes over a segment in integers.
func (a *attention) mixQ8() {
	a.function("mixQ8", "(out *float32, stride int, w *byte, data *byte, tiles *int, count int, keys *byte, scales int, ahead *int)",
		"%s computes out[lane][0:32] from weightCodes at w; see mixQ8Portable.")
	out, stride, w, data := a.param("out"), a.param("stride"), a.param("w"), a.param("data")
	if a.wide {
		a.mixWide(out, stride, w, data)
	} else {
		for pair := range laneStep / 2 {
			a.mixNarrow(pair, out, stride, w, data)
		}
	}
	a.end()
}

func (a *attention) mixWide(out, stride, w, data reg.Register) {
	upper, lower := a.zeros(2*laneStep), a.zeros(2*laneStep)
	tiles, codes := a.param("tiles"), a.copyOf(w)
	keys, scales, ahead := a.param("keys"), a.param("scales"), a.param("ahead")
	a.times("tiles", a.param("count"), 2, func() {
		a.TESTQ(ahead, ahead)
		a.JZ(operand.LabelRef("later"))
		for i := range 2 {
			k := a.next(keys, ahead, i)
			for line := 0; line < keyBlock; line += 64 {
				a.PREFETCHT1(at(k, line))
			}
			a.PREFETCHT1(operand.Mem{Base: k, Index: scales, Scale: 1})
		}
		a.ADDQ(operand.U8(16), ahead)
		a.Label("later")
		for tile := range 2 {
			v := a.next(data, tiles, tile)
			for quad := range 4 {
				x, y := a.vec(), a.vec()
				a.VMOVDQU32(at(v, 128*quad), x)
				a.VMOVDQU32(at(v, 128*quad+64), y)
				for l := range laneStep {
					for half, sums := range [][]reg.VecVirtual{upper, lower} {
						h := a.vec()
						a.VPBROADCASTD(codesOf(codes, l, half, tile, quad), h)
						a.VPDPBUSD(x, h, sums[2*l])
						a.VPDPBUSD(y, h, sums[2*l+1])
					}
				}
			}
		}
		a.ADDQ(operand.U8(16), tiles)
		a.ADDQ(operand.U8(64), codes)
	})
	for l := range laneStep {
		step := a.vec()
		a.VBROADCASTSS(at(w, codeStep+4*l), step)
		for i := range 2 {
			x := upper[2*l+i]
			a.VPSLLD(operand.U8(7), x, x)
			a.VPADDD(lower[2*l+i], x, x)
			a.VCVTDQ2PS(x, x)
			a.VMULPS(step, x, x)
			a.VMOVUPS(x, at(out, 64*i))
		}
		a.LEAQ(operand.Mem{Base: out, Index: stride, Scale: 4}, out)
	}
}

// mixNarrow takes two lanes; halves are put together as pairs of products are
// added.
func (a *attention) mixNarrow(pair int, out, stride, w, data reg.Register) {
	ones, halfs := a.words(0x00010001), a.words(0x00800080)
	sums := a.zeros(8)
	tiles, codes := a.param("tiles"), a.copyOf(w)
	a.times(fmt.Sprint("tiles", pair), a.param("count"), 2, func() {
		for tile := range 2 {
			v := a.next(data, tiles, tile)
			for quad := range 4 {
				var upper, lower [2]reg.VecVirtual
				for l := range 2 {
					upper[l], lower[l] = a.vec(), a.vec()
					a.VPBROADCASTD(codesOf(codes, 2*pair+l, 0, tile, quad), upper[l])
					a.VPBROADCASTD(codesOf(codes, 2*pair+l, 1, tile, quad), lower[l])
				}
				a.mixQuad(at(v, 128*quad), sums, upper, lower, halfs, ones)
			}
		}
		a.ADDQ(operand.U8(16), tiles)
		a.ADDQ(operand.U8(64), codes)
	})
	for l := range 2 {
		step := a.vec()
		a.VBROADCASTSS(at(w, codeStep+4*(2*pair+l)), step)
		for i := range 4 {
			x := sums[4*l+i]
			a.VCVTDQ2PS(x, x)
			a.VMULPS(step, x, x)
			a.VMOVUPS(x, at(out, 32*i))
		}
		a.LEAQ(operand.Mem{Base: out, Index: stride, Scale: 4}, out)
	}
}

// mixQuad adds four tokens' values to the sums of two lanes.
func (a *attention) mixQuad(v operand.Mem, sums []reg.VecVirtual, upper, lower [2]reg.VecVirtual, halfs, ones reg.VecVirtual) {
	for i := range 4 {
		for l := range 2 {
			s := sums[4*l+i]
			for _, half := range []struct{ codes, weight reg.VecVirtual }{{upper[l], halfs}, {lower[l], ones}} {
				x, m := a.vec(), v
				m.Disp += 32 * i
				a.VPMADDUBSW(m, half.codes, x)
				a.VPMADDWD(half.weight, x, x)
				a.VPADDD(x, s, s)
			}
		}
	}
}
