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
	magnitude, limit, order, ones8, ones16 reg.VecVirtual
}

func (q *quantizer2) constants() {
	broadcast := func(v uint32) reg.VecVirtual {
		g, y := q.GP32(), q.YMM()
		q.MOVL(operand.U32(v), g)
		q.VMOVD(g, y.AsX())
		q.VPBROADCASTD(y.AsX(), y)
		return y
	}
	q.magnitude, q.limit = broadcast(0x7fffffff), broadcast(0x42fe0000) // 127
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
	q.VDIVPS(top, q.limit, inverse)
	q.VANDPS(t, inverse, inverse)
}

// codes rounds 32 floats at x times inverse, stores them as bytes at to and
// leaves the sums of their quads in sums.
func (q *quantizer2) codes(x operand.Mem, inverse reg.VecVirtual, to operand.Mem, sums reg.VecVirtual) [4]reg.VecVirtual {
	var v [4]reg.VecVirtual
	for i := range v {
		v[i] = q.YMM()
		q.VMULPS(x.Offset(32*i), inverse, v[i])
		q.VCVTPS2DQ(v[i], v[i])
	}
	a, b := q.YMM(), q.YMM()
	q.VPACKSSDW(v[1], v[0], a)
	q.VPACKSSDW(v[3], v[2], b)
	q.VPACKSSWB(b, a, a)
	q.VPERMD(a, q.order, a)
	q.VMOVDQU(a, to)
	q.VPMADDUBSW(a, q.ones8, sums)
	q.VPMADDWD(q.ones16, sums, sums)
	return v
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
	q.inverse(top, inverse)
	q.VADDPS(nothing, top, top) // a maximum may lose a NaN, a sum of products with 0 does not
	q.VDIVPS(q.limit, top, top)
	q.VMOVSS(top.AsX(), at(q.dst, 336))
	low, high := q.GP32(), q.GP32()
	for i := range 8 {
		q.codes(at(q.x, 128*i), inverse, at(q.dst, 32*i), sums)
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
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()
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
	q.inverse(top, inverse)
	codes := q.codes(at(q.x, 0), inverse, at(q.dst, 0), sums)
	q.across(sums, t, func() { q.VPADDD(t, sums, sums) })
	g := q.GP32()
	q.VMOVD(sums.AsX(), g)
	q.SHLL(operand.U8(7), g)
	q.NEGL(g)
	q.MOVL(g, at(q.dst, 32))
	fit, square := q.YMM(), q.YMM()
	q.VPXOR(fit, fit, fit)
	q.VPXOR(square, square, square)
	for i, c := range codes {
		q.VCVTDQ2PS(c, c)
		q.VFMADD231PS(at(q.x, 32*i), c, fit)
		q.VFMADD231PS(c, c, square)
	}
	q.across(fit, t, func() { q.VADDPS(t, fit, fit) })
	q.across(square, t, func() { q.VADDPS(t, square, square) })
	q.VPXOR(t, t, t)
	q.VCMPPS(operand.U8(4), t, square, t)
	q.VDIVPS(square, fit, fit)
	q.VANDPS(t, fit, fit)
	q.VMOVSS(fit.AsX(), at(q.dst, 36))
	q.ADDQ(operand.U32(128), q.x)
	q.ADDQ(operand.U32(40), q.dst)
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()
}
