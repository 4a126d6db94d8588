package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file rounds four blocks of 32 values at a time, which share what a block alone spends on folding lanes: a
// third of the instructions. Blocks have the same bits as one at a time. Four of which one has large values, nothing but
// zeros, values that are no numbers or so small that 127 steps overflow are left to the other loop.

// leastTop is a largest magnitude whose 127th part has a finite inverse.
const leastTop = "leastTop"

func defineLeastTop(q *quantizer) {
	q.StaticGlobal(leastTop)
	q.DataAttributes(rodata)
	q.AddDatum(0, operand.U32(math.Float32bits(0x1p-120)))
}

// fours is the loop over four blocks. It goes on at label "alone" with the number of blocks to round one at a time in n,
// and at label "done".
func (q *quantizer) fours(magnitude, steps reg.VecVirtual, n reg.Register) {
	order, ones := q.ZMM(), q.constant(0x01010101)
	q.VMOVDQU32(operand.NewDataAddr(operand.NewStaticSymbol(transpose), 0), order)
	q.Label("fours")
	q.MOVQ(q.blocks, n)
	q.CMPQ(n, operand.I8(4))
	q.JLT(operand.LabelRef("rest"))
	q.MOVQ(operand.U32(4), n)
	var values [4][]reg.VecVirtual
	for b := range values {
		values[b] = q.zmms(2)
		for i, v := range values[b] {
			q.VMOVUPS(at(q.x, 128*b+64*i), v)
		}
	}
	top := q.fourTops(values, magnitude)
	inside, above := q.K(), q.K()
	q.VCMPPS(operand.U8(2), q.most.AsX(), top.AsX(), inside) // not more than the limit
	q.VCMPPS_BCST(operand.U8(13), word(leastTop), top.AsX(), above)
	q.KANDW(inside, above, above)
	bits := q.GP32()
	q.KMOVW(above, bits)
	q.CMPL(bits, operand.U32(15))
	q.JNE(operand.LabelRef("alone"))
	inverse := q.ZMM()
	q.VDIVPS(top.AsX(), steps.AsX(), inverse.AsX())
	q.VSHUFF32X4(operand.U8(0), inverse, inverse, inverse)
	codes := q.fourRoundings(values, inverse)
	sums, squares := q.fourSums(codes, ones, order)
	fit := q.fourFits(values)
	q.VCVTDQ2PS(squares.AsX(), squares.AsX())
	q.VDIVPS(squares.AsX(), fit.AsX(), fit.AsX())
	q.VPSLLD(operand.U8(7), sums.AsX(), sums.AsX())
	zero := q.XMM()
	q.VPXORD(zero, zero, zero)
	q.VPSUBD(sums.AsX(), zero, sums.AsX())
	for pair, unpack := range []func(a, b, c operand.Op){
		func(a, b, c operand.Op) { q.VUNPCKLPS(a, b, c) }, func(a, b, c operand.Op) { q.VUNPCKHPS(a, b, c) },
	} {
		t := q.XMM()
		unpack(fit.AsX(), sums.AsX(), t)
		q.VMOVLPS(t, at(q.dst, 80*pair+32))
		q.VMOVHPS(t, at(q.dst, 80*pair+40+32))
	}
	for b := range values {
		q.MOVL(operand.U32(0), at(q.marks, blockMarks*b))
	}
	q.ADDQ(operand.U32(512), q.x)
	q.ADDQ(operand.U32(160), q.dst)
	q.ADDQ(operand.U32(4*blockMarks), q.marks)
	q.SUBQ(operand.U32(4), q.blocks)
	q.JMP(operand.LabelRef("fours"))
	q.Label("rest")
	q.TESTQ(n, n)
	q.JZ(operand.LabelRef("done"))
	q.Label("alone")
}

// fourTops returns a register of the four blocks' largest magnitudes. As integers they are in order, too, and what is no number
// is above all.
func (q *quantizer) fourTops(values [4][]reg.VecVirtual, magnitude reg.VecVirtual) reg.VecVirtual {
	var tops [4]reg.VecVirtual
	t := q.ZMM()
	for b, v := range values {
		tops[b] = q.ZMM()
		q.VPANDD(magnitude, v[0], tops[b])
		q.VPANDD(magnitude, v[1], t)
		q.VPMAXUD(t, tops[b], tops[b])
	}
	larger := func(a, b reg.VecVirtual) { q.VPMAXUD(a, b, b) }
	q.fold4(tops, larger)
	top := tops[0]
	q.VEXTRACTF64X4(operand.U8(1), top, t.AsY())
	q.VPMAXUD(t.AsY(), top.AsY(), top.AsY())
	q.VEXTRACTF32X4(operand.U8(1), top.AsY(), t.AsX())
	q.VPMAXUD(t.AsX(), top.AsX(), top.AsX())
	return top
}

// fold4 folds the four values of each quarter of four registers into one, and leaves in the quarters of the first one
// that of each.
func (q *quantizer) fold4(v [4]reg.VecVirtual, fold func(a, b reg.VecVirtual)) {
	t := q.ZMM()
	for i := 0; i < 4; i += 2 {
		q.VUNPCKHPS(v[i+1], v[i], t)
		q.VUNPCKLPS(v[i+1], v[i], v[i])
		fold(t, v[i])
	}
	q.VUNPCKHPD(v[2], v[0], t)
	q.VUNPCKLPD(v[2], v[0], v[0])
	fold(t, v[0])
}

// fourRoundings turns values into what their codes times them, by lanes, add up to, and returns the codes as bytes, of each two blocks: of
// the first one in the quarters' first and second dwords, of the second one in the third and fourth. inverse has those of the four
// blocks' steps in each quarter.
func (q *quantizer) fourRoundings(values [4][]reg.VecVirtual, inverse reg.VecVirtual) (packed [2]reg.VecVirtual) {
	var words [4]reg.VecVirtual
	scale, low, high := q.ZMM(), q.ZMM(), q.ZMM()
	for b, v := range values {
		q.VPSHUFD(operand.U8(uint8(0x55*b)), inverse, scale)
		q.VMULPS(scale, v[0], low)
		q.VMULPS(scale, v[1], high)
		q.VCVTPS2DQ(low, low)
		q.VCVTPS2DQ(high, high)
		words[b] = q.ZMM()
		q.VPACKSSDW(high, low, words[b])
		q.VCVTDQ2PS(low, low)
		q.VCVTDQ2PS(high, high)
		q.VMULPS(low, v[0], v[0])
		q.VFMADD231PS(high, v[1], v[0])
	}
	for i := range packed {
		packed[i] = words[2*i]
		q.VPACKSSWB(words[2*i+1], words[2*i], packed[i])
	}
	return packed
}

// fourSums stores the codes, and returns the sums of the four blocks' codes and of their squares.
func (q *quantizer) fourSums(codes [2]reg.VecVirtual, ones, order reg.VecVirtual) (sums, squares reg.VecVirtual) {
	var all [4]reg.VecVirtual // sums of blocks 0 and 1, of 2 and 3, squares of 0 and 1, of 2 and 3
	size := q.ZMM()
	for i, c := range codes {
		q.VPERMD(c, order, c)
		q.VMOVDQU32(c.AsY(), at(q.dst, 80*i))
		q.VEXTRACTI64X4(operand.U8(1), c, at(q.dst, 80*i+40))
		all[i], all[i+2] = q.ZMM(), q.ZMM()
		q.VPXORD(all[i], all[i], all[i])
		q.VPDPBUSD(c, ones, all[i])
		q.VPABSB(c, size)
		q.VPXORD(all[i+2], all[i+2], all[i+2])
		q.VPDPBUSD(size, size, all[i+2])
	}
	q.fold4(all, func(a, b reg.VecVirtual) { q.VPADDD(a, b, b) })
	t := q.ZMM()
	q.VSHUFF32X4(operand.U8(0xb1), all[0], all[0], t)
	q.VPADDD(t, all[0], all[0]) // of blocks 0 and 2 in the first quarter, of 1 and 3 in the third
	q.VEXTRACTF32X4(operand.U8(2), all[0], t.AsX())
	q.VUNPCKLPS(t.AsX(), all[0].AsX(), all[1].AsX())
	q.VUNPCKHPS(t.AsX(), all[0].AsX(), all[2].AsX())
	return all[1], all[2]
}

// fourFits adds up the lanes of the first register of each block, as sums does.
func (q *quantizer) fourFits(values [4][]reg.VecVirtual) reg.VecVirtual {
	var fits [4]reg.VecVirtual
	t := q.ZMM()
	for b, v := range values {
		fits[b] = v[0]
		q.VEXTRACTF64X4(operand.U8(1), v[0], t.AsY())
		q.VADDPS(t.AsY(), v[0].AsY(), v[0].AsY())
	}
	q.fold4(fits, func(a, b reg.VecVirtual) { q.VADDPS(a, b, b) })
	q.VEXTRACTF32X4(operand.U8(1), fits[0].AsY(), t.AsX())
	q.VADDPS(t.AsX(), fits[0].AsX(), fits[0].AsX())
	return fits[0]
}
