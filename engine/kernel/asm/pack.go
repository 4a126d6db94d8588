package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fours rounds 32 values of each of four vectors to codes: of four queries, or of four tokens' keys or values. As
// registers of the four are packed one into the other, 128 bits get the codes of the same four values of each.
type fours struct {
	a           *attention
	x           reg.Register // the values; vectors lie stride bytes apart
	stride      reg.Register
	thrice      reg.Register
	magnitude   reg.VecVirtual
	steps, one  reg.VecVirtual // 127 and 1
	lowest      reg.VecVirtual // bytes of -127
	firsts      reg.VecVirtual // where each 128 bits begin
	least, most reg.VecVirtual // 0, and the largest finite number
}

func (a *attention) fours(x, stride reg.GPVirtual) *fours {
	f := &fours{a: a, x: x, stride: stride, thrice: a.GP64()}
	a.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, f.thrice)
	f.magnitude, f.lowest = a.words(0x7fffffff), a.words(0x81818181)
	f.steps, f.one = a.words(math.Float32bits(127)), a.words(math.Float32bits(1))
	f.least, f.most = a.zero(), a.words(math.Float32bits(math.MaxFloat32))
	f.firsts = a.vec()
	a.VMOVDQU32(a.static("firsts", 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12), f.firsts)
	return f
}

// load reads 32 values of each vector from disp bytes behind x.
func (f *fours) load(x reg.Register) (v [4][2]reg.VecVirtual) {
	for l := range v {
		m := operand.Mem{Base: x}
		switch l {
		case 1, 2:
			m.Index, m.Scale = f.stride, uint8(l)
		case 3:
			m.Index, m.Scale = f.thrice, 1
		}
		for i := range v[l] {
			m.Disp = 64 * i
			v[l][i] = f.a.loadFloats(m, false)
		}
	}
	return v
}

// tops leaves the largest magnitude of each vector, a NaN as one, in an element of a narrow register. They are reduced
// together: what is left of two fills a register again.
func (f *fours) tops(v [4][2]reg.VecVirtual) reg.Register {
	a := f.a
	var m [4]reg.VecVirtual
	for l := range v {
		other := a.vec()
		m[l] = a.vec()
		a.VPANDD(f.magnitude, v[l][0], m[l])
		a.VPANDD(f.magnitude, v[l][1], other)
		a.VPMAXSD(other, m[l], m[l])
	}
	join := func(low, high uint8, x, y reg.VecVirtual) reg.VecVirtual {
		s, t := a.vec(), a.vec()
		a.VSHUFI64X2(operand.U8(low), y, x, s)
		a.VSHUFI64X2(operand.U8(high), y, x, t)
		a.VPMAXSD(s, t, s)
		return s
	}
	all := join(0x88, 0xdd, join(0x44, 0xee, m[0], m[1]), join(0x44, 0xee, m[2], m[3]))
	for _, order := range []uint8{0x4e, 0xb1} {
		other := a.vec()
		a.VPSHUFD(operand.U8(order), all, other)
		a.VPMAXSD(other, all, all)
	}
	a.VPERMD(all, f.firsts, all)
	return all.AsX()
}

// inverses is one over each of four scales, 0 of what is not above 0.
func (f *fours) inverses(scales reg.Register) reg.VecVirtual {
	a, k, v := f.a, f.a.K(), f.a.vec()
	a.VCMPPS(operand.U8(0x1e), f.least.AsX(), scales, k)
	a.VDIVPS_Z(scales, f.one.AsX(), k, v.AsX())
	return v
}

// codes rounds the values times inverses, and leaves the codes of values 0 to 15 and 16 to 31.
func (f *fours) codes(v [4][2]reg.VecVirtual, inverses reg.VecVirtual) (codes [2]reg.VecVirtual) {
	a := f.a
	for l := range v {
		factor := a.vec()
		if l > 0 {
			a.VPERMILPS(operand.U8(uint8(l)), inverses.AsX(), factor.AsX())
			a.VBROADCASTSS(factor.AsX(), factor)
		} else {
			a.VBROADCASTSS(inverses.AsX(), factor)
		}
		for _, r := range v[l] {
			a.VMULPS(factor, r, r)
			a.VCVTPS2DQ(r, r)
		}
	}
	for i := range codes {
		a.VPACKSSDW(v[1][i], v[0][i], v[0][i])
		a.VPACKSSDW(v[3][i], v[2][i], v[2][i])
		a.VPACKSSWB(v[2][i], v[0][i], v[0][i])
		a.VPMAXSB(f.lowest, v[0][i], v[0][i])
		codes[i] = v[0][i]
	}
	return codes
}

// packQ8 writes four lanes of queries as scoreQ8 reads them.
func (a *attention) packQ8() {
	a.function("packQ8", "(query *uint32, x *float32, headDim int, factor float32)",
		"%s packs four queries, scales times factor; see packFour.")
	q, x, stride, factor := a.param("query"), a.param("x"), a.param("headDim"), a.broadcast("factor")
	a.SHLQ(operand.U8(2), stride)
	f, bias := a.fours(x, stride), a.words(0x80808080)
	a.times("blocks", a.copyOf(stride), 4*32, func() {
		v := f.load(x)
		scales := f.tops(v)
		a.VDIVPS(f.steps.AsX(), scales, scales)
		codes := f.codes(v, f.inverses(scales))
		a.VMULPS(factor.AsX(), scales, scales)
		a.VMOVUPS(scales, at(q, queryScales))
		sum, half := a.zero(), a.YMM()
		for i, c := range codes {
			a.VMOVUPS(c, at(q, 64*i))
			a.VPDPBUSD(c, bias, sum)
		}
		a.VEXTRACTI64X4(operand.U8(1), sum, half)
		a.VPADDD(half, sum.AsY(), sum.AsY())
		a.VEXTRACTI32X4(operand.U8(1), sum.AsY(), half.AsX())
		a.VPADDD(half.AsX(), sum.AsX(), sum.AsX())
		a.VPSUBD(sum.AsX(), f.least.AsX(), sum.AsX())
		a.VMOVUPS(sum.AsX(), at(q, queryBias))
		a.ADDQ(operand.I32(4*32), x)
		a.ADDQ(operand.I32(queryBlock), q)
	})
	a.end()
}

// storeQ8 writes keys and values of four tokens that share words in a tile. What is not finite is left to the caller.
func (a *attention) storeQ8() {
	a.function("storeQ8", "(keys *byte, values *byte, scales *byte, k *float32, v *float32, headDim int, stride int) bool",
		"%s stores keys and values of four tokens, stride floats apart, and their scales; false: some are not finite. See storeQ8.")
	keys, values, scales := a.param("keys"), a.param("values"), a.param("scales")
	k, v, dim, stride := a.param("k"), a.param("v"), a.param("headDim"), a.param("stride")
	valueScales := a.GP64()
	a.LEAQ(operand.Mem{Base: scales, Index: dim, Scale: 1}, valueScales)
	a.SHLQ(operand.U8(2), stride)
	f, bias, turn := a.fours(k, stride), a.words(0x80808080), a.vec()
	a.VBROADCASTI32X4(a.static("turn", 0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703), turn)
	a.times("blocks", dim, 32, func() {
		codes := f.halves(k, scales)
		for i, c := range codes {
			a.VPXORD(bias, c, c)
			a.VMOVUPS(c.AsX(), at(keys, 4*64*i))
			for part := 1; part < 4; part++ {
				a.VEXTRACTI32X4(operand.U8(uint8(part)), c, at(keys, 64*(4*i+part)))
			}
		}
		codes = f.halves(v, valueScales)
		for i, c := range codes {
			a.VPSHUFB(turn, c, c)
			a.VMOVDQU32(c, at(values, 64*i))
		}
		for _, r := range []reg.Register{keys, values} {
			a.ADDQ(operand.I32(keyBlock), r)
		}
		for _, r := range []reg.Register{scales, valueScales} {
			a.ADDQ(operand.I32(scaleBlock), r)
		}
		for _, r := range []reg.Register{k, v} {
			a.ADDQ(operand.I32(4*32), r)
		}
	})
	ok := a.GP8()
	a.MOVB(operand.U8(1), ok)
	a.Store(ok, a.ReturnIndex(0))
	a.end()
	a.Label("odd")
	a.MOVB(operand.U8(0), ok)
	a.Store(ok, a.ReturnIndex(0))
	a.end()
}

// halves is the codes of four vectors at x, whose scales it stores as float16.
func (f *fours) halves(x, scales reg.Register) [2]reg.VecVirtual {
	a, odd, bits := f.a, f.a.K(), f.a.GP32()
	v := f.load(x)
	s, h := f.tops(v), a.XMM()
	a.VCMPPS(operand.U8(0x16), f.most.AsX(), s, odd) // not at most: or NaN
	a.KMOVW(odd, bits)
	a.TESTL(bits, bits)
	a.JNZ(operand.LabelRef("odd"))
	a.VDIVPS(f.steps.AsX(), s, s)
	a.VCVTPS2PH(operand.U8(0), s, h) // to nearest, ties to even
	a.VMOVQ(h, at(scales, 0))
	a.VCVTPH2PS(h, s)
	return f.codes(v, f.inverses(s))
}
