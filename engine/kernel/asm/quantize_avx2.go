package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantizersAVX2 writes the quantisers for AVX2, 32 values at a time.
func quantizersAVX2(ctx *build.Context) {
	ctx.StaticGlobal(unpacked)
	ctx.DataAttributes(rodata)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		ctx.AddDatum(4*i, operand.U32(v))
	}
	q := &quantizer2{quantizer: quantizer{Context: ctx}}
	q.super()
	q.block()
}

// unpacked is the symbol of the order that undoes what packing dwords to bytes
// lane by lane does to their order.
const unpacked = "unpackedOrder"

type quantizer2 struct {
	quantizer
	magnitude, scale, order, ones8, ones16, steps, share reg.VecVirtual
}

func (q *quantizer2) constants() {
	broadcast := func(v uint32) reg.VecVirtual {
		g, y := q.GP32(), q.YMM()
		q.MOVL(operand.U32(v), g)
		q.VMOVD(g, y.AsX())
		q.VPBROADCASTD(y.AsX(), y)
		return y
	}
	q.magnitude, q.scale = broadcast(0x7fffffff), broadcast(0x42fe0000) // 127
	q.steps, q.share = broadcast(127), broadcast(largestShare)
	q.limit(q.YMM())
	q.ones8, q.ones16 = broadcast(0x01010101), broadcast(0x00010001)
	q.order = q.YMM()
	q.VMOVDQU(operand.NewDataAddr(operand.NewStaticSymbol(unpacked), 0), q.order)
}

// across folds v's lanes through t.
func (q *quantizer2) across(v, t reg.VecVirtual, fold func()) {
	q.VPERM2F128(operand.U8(1), v, v, t)
	fold()
	q.VPSHUFD(operand.U8(0x4e), v, t)
	fold()
	q.VPSHUFD(operand.U8(0xb1), v, t)
	fold()
}

// inverse turns max|x|, in all lanes of top, into 127/max|x|, or 0.
func (q *quantizer2) inverse(top, inverse reg.VecVirtual) {
	t := q.YMM()
	q.VPXOR(t, t, t)
	q.VCMPPS(operand.U8(4), t, top, t) // not equal
	q.VDIVPS(top, q.scale, inverse)
	q.VANDPS(t, inverse, inverse)
}

// codes rounds 32 floats at x times inverse, stores those that 127 steps reach as bytes at to, zeros and marks for the
// others, and leaves the sums of their quads in sums. with gets all codes, if it is set.
func (q *quantizer2) codes(x operand.Mem, inverse reg.VecVirtual, to, marks operand.Mem, sums reg.VecVirtual, with func(i int, v reg.VecVirtual)) {
	var v [4]reg.VecVirtual
	t, g := q.YMM(), q.GP32()
	for i := range v {
		v[i] = q.YMM()
		q.VMULPS(x.Offset(32*i), inverse, v[i])
		q.VCVTPS2DQ(v[i], v[i])
		q.VPABSD(v[i], t)
		q.VPCMPGTD(q.steps, t, t)
		q.VMOVMSKPS(t, g)
		q.MOVB(g.As8(), marks.Offset(i))
		if with != nil {
			with(i, v[i])
		}
		q.VPANDN(v[i], t, v[i])
	}
	a, b := q.YMM(), q.YMM()
	q.VPACKSSDW(v[1], v[0], a)
	q.VPACKSSDW(v[3], v[2], b)
	q.VPACKSSWB(b, a, a)
	q.VPERMD(a, q.order, a)
	q.VMOVDQU(a, to)
	q.VPMADDUBSW(a, q.ones8, sums)
	q.VPMADDWD(q.ones16, sums, sums)
}

// within raises top to those of the magnitudes in v that do not exceed the limit. v is spent.
func (q *quantizer2) within(v, top reg.VecVirtual) {
	t := q.YMM()
	q.VCMPPS(operand.U8(2), q.most, v, t) // not more
	q.VANDPS(t, v, v)
	q.VMAXPS(v, top, top)
}

func (q *quantizer2) super() {
	q.begin("quantizeSuperAVX2")
	q.constants()
	q.Label("loop")
	top, t, nothing, zero := q.YMM(), q.YMM(), q.YMM(), q.YMM()
	q.VPXOR(zero, zero, zero)
	q.VPXOR(nothing, nothing, nothing)
	for i := range 32 {
		q.VPAND(at(q.x, 32*i), q.magnitude, t)
		q.VFMADD231PS(zero, t, nothing)
		if i == 0 {
			q.VMOVAPS(t, top)
		} else {
			q.VMAXPS(t, top, top)
		}
	}
	q.across(top, t, func() { q.VMAXPS(t, top, top) })
	q.across(nothing, t, func() { q.VADDPS(t, nothing, nothing) })
	inverse, sums := q.YMM(), q.YMM()
	q.VUCOMISS(q.most.AsX(), top.AsX())
	q.JHI(operand.LabelRef("large"))
	q.Label("scaled")
	q.inverse(top, inverse)
	q.VMOVSS(inverse.AsX(), at(q.marks, superMarks-4))
	q.VADDPS(nothing, top, top) // a maximum may lose a NaN, a sum of products with 0 does not
	q.VDIVPS(q.scale, top, top)
	q.VMOVSS(top.AsX(), at(q.dst, 336))
	low, high := q.GP32(), q.GP32()
	for i := range 8 {
		q.codes(at(q.x, 128*i), inverse, at(q.dst, 32*i), at(q.marks, 4*i), sums, nil)
		q.VPHADDD(sums, sums, sums)
		q.VPHADDD(sums, sums, sums)
		q.VMOVD(sums.AsX(), low)
		q.VEXTRACTI128(operand.U8(1), sums, t.AsX())
		q.VMOVD(t.AsX(), high)
		sum := q.GP32()
		q.MOVL(low, sum)
		q.ADDL(high, sum)
		q.MOVW(sum.As16(), at(q.dst, 320+2*i))
		for j, s := range []reg.GPVirtual{low, high} {
			q.SHLL(operand.U8(5), s)
			q.NEGL(s)
			q.MOVL(s, at(q.dst, 256+8*i+4*j))
		}
	}
	q.ADDQ(operand.U32(1024), q.x)
	q.ADDQ(operand.U32(340), q.dst)
	q.ADDQ(operand.U32(superMarks), q.marks)
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()

	q.Label("large")
	q.answer(1)
	q.VPXOR(top, top, top)
	half := [2]reg.VecVirtual{q.YMM(), q.YMM()} // the largest sums, of lanes 0 to 7 and of 8 to 15
	for j, h := range half {
		q.VPXOR(h, h, h)
		for i := range 8 {
			two := [2]reg.VecVirtual{q.YMM(), q.YMM()}
			for n, v := range two {
				q.VPAND(at(q.x, 128*i+64*n+32*j), q.magnitude, v)
			}
			q.VADDPS(two[0], two[1], t)
			q.VMAXPS(t, h, h)
			q.within(two[0], top)
			q.within(two[1], top)
		}
	}
	q.across(top, t, func() { q.VMAXPS(t, top, top) })
	sum := half[0]
	q.VADDPS(half[1], sum, sum)
	q.across(sum, t, func() { q.VADDPS(t, sum, sum) })
	q.VMULPS(q.share, sum, sum)
	q.VMAXPS(sum, top, top)
	q.JMP(operand.LabelRef("scaled"))
}

func (q *quantizer2) block() {
	q.begin("quantizeBlockAVX2")
	q.constants()
	q.Label("loop")
	top, t := q.YMM(), q.YMM()
	q.VPAND(at(q.x, 0), q.magnitude, top)
	for i := 1; i < 4; i++ {
		q.VPAND(at(q.x, 32*i), q.magnitude, t)
		q.VMAXPS(t, top, top)
	}
	q.across(top, t, func() { q.VMAXPS(t, top, top) })
	inverse, sums := q.YMM(), q.YMM()
	q.VUCOMISS(q.most.AsX(), top.AsX())
	q.JHI(operand.LabelRef("large"))
	q.Label("scaled")
	q.inverse(top, inverse)
	q.VMOVSS(inverse.AsX(), at(q.marks, blockMarks-4))
	fit, square, c := q.YMM(), q.YMM(), q.YMM()
	q.VPXOR(fit, fit, fit)
	q.VPXOR(square, square, square)
	q.codes(at(q.x, 0), inverse, at(q.dst, 0), at(q.marks, 0), sums, func(i int, v reg.VecVirtual) {
		q.VCVTDQ2PS(v, c)
		q.VFMADD231PS(at(q.x, 32*i), c, fit)
		q.VFMADD231PS(c, c, square)
	})
	q.across(sums, t, func() { q.VPADDD(t, sums, sums) })
	g := q.GP32()
	q.VMOVD(sums.AsX(), g)
	q.SHLL(operand.U8(7), g)
	q.NEGL(g)
	q.MOVL(g, at(q.dst, 32))
	q.across(fit, t, func() { q.VADDPS(t, fit, fit) })
	q.across(square, t, func() { q.VADDPS(t, square, square) })
	q.VPXOR(t, t, t)
	q.VCMPPS(operand.U8(4), t, square, t)
	q.VDIVPS(square, fit, fit)
	q.VANDPS(t, fit, fit)
	q.VMOVSS(fit.AsX(), at(q.dst, 36))
	q.ADDQ(operand.U32(128), q.x)
	q.ADDQ(operand.U32(40), q.dst)
	q.ADDQ(operand.U32(blockMarks), q.marks)
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()

	q.Label("large")
	q.answer(1)
	q.VMULPS(q.share, top, top)
	for i := range 4 {
		v := q.YMM()
		q.VPAND(at(q.x, 32*i), q.magnitude, v)
		q.within(v, top)
	}
	q.across(top, t, func() { q.VMAXPS(t, top, top) })
	q.JMP(operand.LabelRef("scaled"))
}
