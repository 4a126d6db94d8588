package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantizers writes what turns activation rows into the int8 blocks of panels;
// the layouts are described in panel.go.
func quantizers(ctx *build.Context) {
	placeWords(ctx)
	ctx.StaticGlobal(transpose)
	ctx.DataAttributes(rodata)
	for i := range 16 {
		ctx.AddDatum(4*i, operand.U32(uint32(4*(i%4)+i/4)))
	}
	for _, c := range []struct {
		name string
		bits uint32
	}{{steps, 127}, {share, largestShare}, {offset, math.Float32bits(-128)}} {
		ctx.StaticGlobal(c.name)
		ctx.DataAttributes(rodata)
		ctx.AddDatum(0, operand.U32(c.bits))
	}
	q := &quantizer{Context: ctx}
	defineLeastTop(q)
	q.super()
	q.block()
}

// placeWords copies n dwords from src to every stride-th byte of dst.
func placeWords(ctx *build.Context) {
	ctx.Function("placeWords")
	ctx.Pragma("noescape")
	ctx.SignatureExpr("func(dst *float32, stride int, src *float32, n int)")
	dst := ctx.Load(ctx.Param("dst"), ctx.GP64())
	stride := ctx.Load(ctx.Param("stride"), ctx.GP64())
	src := ctx.Load(ctx.Param("src"), ctx.GP64())
	n := ctx.Load(ctx.Param("n"), ctx.GP64())
	v := ctx.GP32()
	four, third := ctx.GP64(), ctx.GP64()
	ctx.MOVQ(n, four)
	ctx.SHRQ(operand.U8(2), four)
	ctx.JZ(operand.LabelRef("rest"))
	ctx.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, third)
	ctx.Label("fours")
	for i, to := range []operand.Mem{
		at(dst, 0), {Base: dst, Index: stride, Scale: 1}, {Base: dst, Index: stride, Scale: 2}, {Base: dst, Index: third, Scale: 1},
	} {
		ctx.MOVL(at(src, 4*i), v)
		ctx.MOVL(v, to)
	}
	ctx.LEAQ(operand.Mem{Base: dst, Index: stride, Scale: 4}, dst)
	ctx.ADDQ(operand.U8(16), src)
	ctx.DECQ(four)
	ctx.JNZ(operand.LabelRef("fours"))
	ctx.Label("rest")
	ctx.ANDQ(operand.U8(3), n)
	ctx.JZ(operand.LabelRef("done"))
	ctx.Label("ones")
	ctx.MOVL(at(src, 0), v)
	ctx.MOVL(v, at(dst, 0))
	ctx.ADDQ(stride, dst)
	ctx.ADDQ(operand.U8(4), src)
	ctx.DECQ(n)
	ctx.JNZ(operand.LabelRef("ones"))
	ctx.Label("done")
	ctx.RET()
}

// quantizer writes functions that round blocks of a row, see panel.go: dst takes what the panel holds of them.
// A block with values above limit takes as scale that of its other values. Those that exceed 127 steps
// are zeros among the codes and bits in marks, a bit for each value, which the
// inverse of the scale follows; they return whether any block has values above limit.
type quantizer struct {
	*build.Context
	dst, x, blocks, marks reg.Register
	most                  reg.VecVirtual // limit, in all lanes
}

// largestCode is the code of a large value at most: see panel.go.
const largestCode = 16300

// largestShare is how much of largestCode a block's largest value may be, in terms of the 127 of those that are not large.
var largestShare = math.Float32bits(127.0 / largestCode)

func (q *quantizer) begin(name string) {
	q.Function(name)
	q.Pragma("noescape")
	q.SignatureExpr("func(dst *float32, x *float32, blocks int, limit float32, marks *uint32) bool")
	q.dst = q.Load(q.Param("dst"), q.GP64())
	q.x = q.Load(q.Param("x"), q.GP64())
	q.blocks = q.Load(q.Param("blocks"), q.GP64())
	q.marks = q.Load(q.Param("marks"), q.GP64())
	q.answer(0)
}

// answer sets what the function returns.
func (q *quantizer) answer(v uint8) {
	to, err := q.ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	q.MOVB(operand.U8(v), to.Addr)
}

// limit broadcasts the limit to a register.
func (q *quantizer) limit(v reg.VecVirtual) {
	x := q.XMM()
	q.Load(q.Param("limit"), x)
	q.VBROADCASTSS(x, v)
	q.most = v
}

func (q *quantizer) constant(v uint32) reg.VecVirtual {
	g, z := q.GP32(), q.ZMM()
	q.MOVL(operand.U32(v), g)
	q.VPBROADCASTD(g, z)
	return z
}

// top returns the register of max|x|, in all lanes.
func (q *quantizer) top(values []reg.VecVirtual, magnitude, t reg.VecVirtual) reg.VecVirtual {
	top := q.ZMM()
	q.VPANDD(magnitude, values[0], top)
	for _, v := range values[1:] {
		q.VPANDD(magnitude, v, t)
		q.VMAXPS(t, top, top)
	}
	q.acrossLanes(top, t, func() { q.VMAXPS(t, top, top) })
	return top
}

// inverse leaves limit/top in inverse, 0 where top is.
func (q *quantizer) inverse(top, limit, inverse, t reg.VecVirtual) {
	k := q.K()
	q.VPXORD(t, t, t)
	q.VCMPPS(operand.U8(4), t, top, k) // not equal
	q.VDIVPS_Z(top, limit, k, inverse)
}

// small stores the codes of sixteen values that 127 steps reach, and zeros and marks for the others.
func (q *quantizer) small(codes reg.VecVirtual, i int, t reg.VecVirtual) {
	k := q.K()
	q.VPABSD(codes, t)
	q.VPCMPD_BCST(operand.U8(2), word(steps), t, k) // not more
	q.VMOVDQA32_Z(codes, k, t)
	q.VPMOVSDB(t, at(q.dst, 16*i))
	q.KNOTW(k, k)
	q.KMOVW(k, at(q.marks, 2*i))
}

// acrossLanes folds v with its own halves, quarters and so on in t, leaving
// the result in all lanes.
func (q *quantizer) acrossLanes(v, t reg.VecVirtual, fold func()) {
	q.VSHUFF32X4(operand.U8(0x4e), v, v, t)
	fold()
	q.VSHUFF32X4(operand.U8(0xb1), v, v, t)
	fold()
	q.VPSHUFD(operand.U8(0x4e), v, t)
	fold()
	q.VPSHUFD(operand.U8(0xb1), v, t)
	fold()
}

func (q *quantizer) zmms(n int) []reg.VecVirtual {
	all := make([]reg.VecVirtual, n)
	for i := range all {
		all[i] = q.ZMM()
	}
	return all
}

// super quantises blocks of 256 values.
func (q *quantizer) super() {
	q.begin("quantizeSuperAVX512")
	magnitude, limit := q.constant(0x7fffffff), q.constant(0x42fe0000) // 127
	ones := q.constant(0x01010101)
	var second [3]reg.Register // one of each four dwords
	for i := range second {
		g := q.GP32()
		q.MOVL(operand.U32(0x2222<<i), g)
		second[i] = q.K()
		q.KMOVW(g, second[i])
	}
	order := q.ZMM()
	q.VMOVDQU32(operand.NewDataAddr(operand.NewStaticSymbol(transpose), 0), order)
	q.limit(q.ZMM())
	q.Label("loop")
	values := q.zmms(16)
	for i, v := range values {
		q.VMOVUPS(at(q.x, 64*i), v)
	}
	nothing, zero := q.ZMM(), q.ZMM()
	q.VPXORD(zero, zero, zero)
	q.VMULPS(zero, values[0], nothing)
	for _, v := range values[1:] {
		q.VFMADD231PS(zero, v, nothing)
	}
	q.acrossLanes(nothing, zero, func() { q.VADDPS(zero, nothing, nothing) })
	inverse, t := q.ZMM(), q.ZMM()
	top := q.top(values, magnitude, t)
	q.VUCOMISS(q.most.AsX(), top.AsX())
	q.JHI(operand.LabelRef("large"))
	q.inverse(top, limit, inverse, t)
	for i, v := range values {
		q.VMULPS(inverse, v, v)
		q.VCVTPS2DQ(v, v)
		q.VPMOVSDB(v, at(q.dst, 16*i))
	}
	q.VPXORD(t, t, t)
	q.VMOVDQU32(t.AsY(), at(q.marks, 0))
	q.Label("rounded")
	q.VADDPS(nothing, top, top) // a maximum may lose a NaN, a sum of products with 0 does not
	q.VDIVPS(limit, top, top)
	q.VMOVSS(top.AsX(), at(q.dst, 336))
	sums := q.zmms(4)
	for i, s := range sums {
		q.VPXORD(s, s, s)
		q.VPDPBUSD(at(q.dst, 64*i), ones, s)
		q.VPSHUFD(operand.U8(0xb1), s, t)
		q.VPADDD(t, s, s)
		q.VPSHUFD(operand.U8(0x4e), s, t)
		q.VPADDD(t, s, s)
	}
	all := sums[0]
	for i := range second {
		q.VMOVDQA32(sums[i+1], second[i], all)
	}
	q.VPERMD(all, order, all)
	q.VPSHUFD(operand.U8(0xb1), all, t)
	q.VPADDD(all, t, t)
	q.VPMOVQW(t, at(q.dst, 320))
	q.VPSLLD(operand.U8(5), all, all)
	q.VPXORD(t, t, t)
	q.VPSUBD(all, t, t)
	q.VMOVDQU32(t, at(q.dst, 256))
	q.ADDQ(operand.U32(1024), q.x)
	q.ADDQ(operand.U32(340), q.dst)
	q.ADDQ(operand.U32(superMarks), q.marks)
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()

	q.Label("large")
	q.answer(1)
	sum := q.ZMM()
	q.VPXORD(top, top, top)
	q.VPXORD(sum, sum, sum)
	two := q.zmms(2)
	for i := 0; i < len(values); i += 2 {
		for j, v := range two {
			k := q.K()
			q.VPANDD(magnitude, values[i+j], v)
			q.VCMPPS(operand.U8(2), q.most, v, k) // not more
			q.VMAXPS(v, top, k, top)
		}
		q.VADDPS(two[0], two[1], two[0])
		q.VMAXPS(two[0], sum, sum)
	}
	q.acrossLanes(top, t, func() { q.VMAXPS(t, top, top) })
	q.acrossLanes(sum, t, func() { q.VADDPS(t, sum, sum) })
	q.VMULPS_BCST(word(share), sum, sum)
	q.VMAXPS(sum, top, top)
	q.inverse(top, limit, inverse, t)
	for i, v := range values {
		q.VMULPS(inverse, v, v)
		q.VCVTPS2DQ(v, v)
		q.small(v, i, t)
	}
	q.VMOVSS(inverse.AsX(), at(q.marks, superMarks-4))
	q.JMP(operand.LabelRef("rounded"))
}

// block quantises blocks of 32 values.
func (q *quantizer) block() {
	q.begin("quantizeBlockAVX512")
	magnitude, most := q.constant(0x7fffffff), q.constant(0x42fe0000) // 127
	q.limit(q.ZMM())
	n := q.GP64()
	q.fours(magnitude, most, n)
	zero := q.XMM()
	q.VPXORD(zero, zero, zero)
	q.Label("loop")
	values, codes := q.zmms(2), q.zmms(2)
	for i, v := range values {
		q.VMOVUPS(at(q.x, 64*i), v)
	}
	sum, t, inverse := q.ZMM(), q.ZMM(), q.ZMM()
	top := q.ZMM()
	q.VPANDD(magnitude, values[0], top)
	q.VPANDD(magnitude, values[1], t)
	q.VMAXPS(t, top, top)
	q.first(top, t, func(a, b, c operand.Op) { q.VMAXPS(a, b, c) })
	q.VUCOMISS(q.most.AsX(), top.AsX())
	q.JHI(operand.LabelRef("large"))
	q.quotient(top.AsX(), most.AsX(), inverse.AsX(), zero)
	q.VBROADCASTSS(inverse.AsX(), inverse)
	for i, v := range values {
		q.VMULPS(inverse, v, codes[i])
		q.VCVTPS2DQ(codes[i], codes[i])
		q.VPMOVSDB(codes[i], at(q.dst, 16*i))
	}
	q.MOVL(operand.U32(0), at(q.marks, 0))
	q.VPADDD(codes[0], codes[1], sum)
	q.Label("rounded")
	q.VCVTDQ2PS(sum, sum)
	fit, square := q.ZMM(), q.ZMM()
	for _, c := range codes {
		q.VCVTDQ2PS(c, c)
	}
	q.VMULPS(codes[0], values[0], fit)
	q.VMULPS(codes[0], codes[0], square)
	q.VFMADD231PS(codes[1], values[1], fit)
	q.VFMADD231PS(codes[1], codes[1], square)
	all := q.sums(sum, fit, square).AsX()
	q.VMULPS_BCST(word(offset), all, sum.AsX())
	q.VCVTPS2DQ(sum.AsX(), sum.AsX())
	q.VMOVD(sum.AsX(), at(q.dst, 32))
	q.VPSHUFD(operand.U8(1), all, fit.AsX())
	q.VPSHUFD(operand.U8(2), all, square.AsX())
	q.quotient(square.AsX(), fit.AsX(), fit.AsX(), zero)
	q.VMOVSS(fit.AsX(), at(q.dst, 36))
	q.ADDQ(operand.U32(128), q.x)
	q.ADDQ(operand.U32(40), q.dst)
	q.ADDQ(operand.U32(blockMarks), q.marks)
	q.DECQ(q.blocks)
	q.DECQ(n)
	q.JNZ(operand.LabelRef("loop"))
	q.JMP(operand.LabelRef("fours"))
	q.Label("done")
	q.VZEROUPPER()
	q.RET()

	q.Label("large")
	q.answer(1)
	q.VBROADCASTSS(top.AsX(), top)
	q.VMULPS_BCST(word(share), top, top)
	for _, v := range values {
		k := q.K()
		q.VPANDD(magnitude, v, t)
		q.VCMPPS(operand.U8(2), q.most, t, k) // not more
		q.VMAXPS(t, top, k, top)
	}
	q.first(top, t, func(a, b, c operand.Op) { q.VMAXPS(a, b, c) })
	q.quotient(top.AsX(), most.AsX(), inverse.AsX(), zero)
	q.VMOVSS(inverse.AsX(), at(q.marks, blockMarks-4))
	q.VBROADCASTSS(inverse.AsX(), inverse)
	q.VPXORD(sum, sum, sum)
	for i, v := range values {
		q.VMULPS(inverse, v, codes[i])
		q.VCVTPS2DQ(codes[i], codes[i])
		q.small(codes[i], i, t)
		q.VPADDD(t, sum, sum)
	}
	q.JMP(operand.LabelRef("rounded"))
}

// first folds all lanes of v into its first one, with t.
func (q *quantizer) first(v, t reg.VecVirtual, fold func(a, b, c operand.Op)) {
	q.VEXTRACTF64X4(operand.U8(1), v, t.AsY())
	fold(t.AsY(), v.AsY(), v.AsY())
	q.VEXTRACTF32X4(operand.U8(1), v.AsY(), t.AsX())
	fold(t.AsX(), v.AsX(), v.AsX())
	q.VPSHUFD(operand.U8(0x4e), v.AsX(), t.AsX())
	fold(t.AsX(), v.AsX(), v.AsX())
	q.VPSHUFD(operand.U8(0xb1), v.AsX(), t.AsX())
	fold(t.AsX(), v.AsX(), v.AsX())
}

// sums leaves the sums of the lanes of a, b and c in the first three lanes of a register, which it returns.
func (q *quantizer) sums(a, b, c reg.VecVirtual) reg.VecVirtual {
	t, u := q.ZMM(), q.ZMM()
	for _, v := range []reg.VecVirtual{a, b, c} {
		q.VEXTRACTF64X4(operand.U8(1), v, t.AsY())
		q.VADDPS(t.AsY(), v.AsY(), v.AsY())
	}
	q.VUNPCKLPS(b.AsY(), a.AsY(), t.AsY())
	q.VUNPCKHPS(b.AsY(), a.AsY(), u.AsY())
	q.VADDPS(u.AsY(), t.AsY(), t.AsY()) // by halves: two of a and b in turn
	q.VPSHUFD(operand.U8(0x4e), c.AsY(), u.AsY())
	q.VADDPS(u.AsY(), c.AsY(), c.AsY())
	q.VSHUFPS(operand.U8(0x04), c.AsY(), t.AsY(), u.AsY()) // the first of a, b, c
	q.VSHUFPS(operand.U8(0x5e), c.AsY(), t.AsY(), t.AsY()) // the second
	q.VADDPS(u.AsY(), t.AsY(), t.AsY())
	q.VEXTRACTF32X4(operand.U8(1), t.AsY(), u.AsX())
	q.VADDPS(u.AsX(), t.AsX(), t.AsX())
	return t
}

// quotient is a/b in the first lane, 0 where b is.
func (q *quantizer) quotient(b, a, to, zero reg.Register) {
	k := q.K()
	q.VCMPSS(operand.U8(4), zero, b, k) // not equal
	q.VDIVSS_Z(b, a, k, to)
}

// steps is the symbol of the largest code that is not large, share of largestShare, and offset of the factor of biases.
const (
	steps  = "mostSteps"
	share  = "largestShare"
	offset = "biasFactor"
)

// word is a symbol's memory.
func word(symbol string) operand.Mem { return operand.NewDataAddr(operand.NewStaticSymbol(symbol), 0) }

// transpose is the symbol of an order that puts dword i of lane l, 4l+i, at
// 4i+l.
const transpose = "transpose4x4"
