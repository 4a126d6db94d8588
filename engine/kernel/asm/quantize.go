package main

import (
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
	q := &quantizer{Context: ctx}
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
	four := ctx.GP64()
	ctx.MOVQ(n, four)
	ctx.SHRQ(operand.U8(2), four)
	ctx.JZ(operand.LabelRef("rest"))
	ctx.Label("fours")
	for i := range 4 {
		ctx.MOVL(at(src, 4*i), v)
		ctx.MOVL(v, at(dst, 0))
		ctx.ADDQ(stride, dst)
	}
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

type quantizer struct {
	*build.Context
	dst, x, blocks reg.Register
}

func (q *quantizer) begin(name string) {
	q.Function(name)
	q.Pragma("noescape")
	q.SignatureExpr("func(dst *float32, x *float32, blocks int)")
	q.dst = q.Load(q.Param("dst"), q.GP64())
	q.x = q.Load(q.Param("x"), q.GP64())
	q.blocks = q.Load(q.Param("blocks"), q.GP64())
}

func (q *quantizer) constant(v uint32) reg.VecVirtual {
	g, z := q.GP32(), q.ZMM()
	q.MOVL(operand.U32(v), g)
	q.VPBROADCASTD(g, z)
	return z
}

// scales leaves 127/max|x| in inverse, 0 where all values are, and returns the
// register of max|x|, in all lanes.
func (q *quantizer) scales(values []reg.VecVirtual, magnitude, limit, inverse reg.VecVirtual) reg.VecVirtual {
	top, t := q.ZMM(), q.ZMM()
	q.VPANDD(magnitude, values[0], top)
	for _, v := range values[1:] {
		q.VPANDD(magnitude, v, t)
		q.VMAXPS(t, top, top)
	}
	q.acrossLanes(top, t, func() { q.VMAXPS(t, top, top) })
	k := q.K()
	q.VPXORD(t, t, t)
	q.VCMPPS(operand.U8(4), t, top, k) // not equal
	q.VDIVPS_Z(top, limit, k, inverse)
	return top
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
	inverse := q.ZMM()
	top := q.scales(values, magnitude, limit, inverse)
	q.VADDPS(nothing, top, top) // a maximum may lose a NaN, a sum of products with 0 does not
	for i, v := range values {
		q.VMULPS(inverse, v, v)
		q.VCVTPS2DQ(v, v)
		q.VPMOVSDB(v, at(q.dst, 16*i))
	}
	q.VDIVPS(limit, top, top)
	q.VMOVSS(top.AsX(), at(q.dst, 336))
	sums := q.zmms(4)
	t := q.ZMM()
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
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()
}

// block quantises blocks of 32 values.
func (q *quantizer) block() {
	q.begin("quantizeBlockAVX512")
	magnitude, limit := q.constant(0x7fffffff), q.constant(0x42fe0000) // 127
	q.Label("loop")
	values := q.zmms(2)
	for i, v := range values {
		q.VMOVUPS(at(q.x, 64*i), v)
	}
	inverse := q.ZMM()
	q.scales(values, magnitude, limit, inverse)
	codes := q.zmms(2)
	for i, v := range values {
		q.VMULPS(inverse, v, codes[i])
		q.VCVTPS2DQ(codes[i], codes[i])
		q.VPMOVSDB(codes[i], at(q.dst, 16*i))
	}
	sum, t := q.ZMM(), q.ZMM()
	q.VPADDD(codes[0], codes[1], sum)
	q.acrossLanes(sum, t, func() { q.VPADDD(t, sum, sum) })
	q.VPSLLD(operand.U8(7), sum, sum)
	q.VPXORD(t, t, t)
	q.VPSUBD(sum, t, sum)
	q.VMOVD(sum.AsX(), at(q.dst, 32))
	fit, square := q.ZMM(), q.ZMM()
	for i, c := range codes {
		q.VCVTDQ2PS(c, c)
		if i == 0 {
			q.VMULPS(c, values[0], fit)
			q.VMULPS(c, c, square)
		} else {
			q.VFMADD231PS(c, values[1], fit)
			q.VFMADD231PS(c, c, square)
		}
	}
	q.acrossLanes(fit, t, func() { q.VADDPS(t, fit, fit) })
	q.acrossLanes(square, t, func() { q.VADDPS(t, square, square) })
	k := q.K()
	q.VPXORD(t, t, t)
	q.VCMPPS(operand.U8(4), t, square, k)
	q.VDIVPS_Z(square, fit, k, fit)
	q.VMOVSS(fit.AsX(), at(q.dst, 36))
	q.ADDQ(operand.U32(128), q.x)
	q.ADDQ(operand.U32(40), q.dst)
	q.DECQ(q.blocks)
	q.JNZ(operand.LabelRef("loop"))
	q.VZEROUPPER()
	q.RET()
}

// transpose is the symbol of an order that puts dword i of lane l, 4l+i, at
// 4i+l.
const transpose = "transpose4x4"
