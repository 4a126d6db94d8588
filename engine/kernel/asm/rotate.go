package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rotate does the steps whose two values lie in one register with a swap and a multiplication by
// signs, the others register by register.
func (a *attention) rotate() {
	a.function("rotate", "(dst, x *float32, n int, factor float32)",
		"%s writes factor times the Walsh-Hadamard transform of n values, which is not scaled; n is a power of two, 32 at least.")
	dst, x, bytes, factor := a.param("dst"), a.param("x"), a.param("n"), a.broadcast("factor")
	a.SHLQ(operand.U8(2), bytes)
	p, left := a.copyOf(dst), a.copyOf(bytes)
	width := 4 * a.floats()
	var signs []reg.VecVirtual
	for h := 1; h < a.floats(); h *= 2 {
		signs = append(signs, a.signs(h))
	}
	a.times("within", left, width, func() {
		v := a.loadFloats(at(x, 0), false)
		for i, s := range signs {
			other := a.swapped(v, 1<<i)
			a.VFMADD213PS(other, s, v)
		}
		a.VMOVUPS(v, at(p, 0))
		a.ADDQ(operand.U8(uint8(width)), x)
		a.ADDQ(operand.U8(uint8(width)), p)
	})
	h, end := a.GP64(), a.copyOf(dst)
	a.MOVQ(operand.I32(int32(width)), h)
	a.ADDQ(bytes, end)
	a.SHRQ(operand.U8(1), bytes)
	a.Label("step")
	a.MOVQ(dst, p)
	a.CMPQ(h, bytes)
	a.JE(operand.LabelRef("last"))
	a.Label("span")
	a.farPairs("pairs", p, h, nil)
	a.ADDQ(h, p)
	a.CMPQ(p, end)
	a.JL(operand.LabelRef("span"))
	a.SHLQ(operand.U8(1), h)
	a.JMP(operand.LabelRef("step"))
	a.Label("last")
	a.farPairs("all", p, h, factor)
	a.end()
}

// farPairs replaces the values of [p,p+h) and those h bytes behind them by their sums and differences, times factor if there is
// one, and leaves p at its end.
func (a *attention) farPairs(label string, p, h, factor reg.Register) {
	width, left := 4*a.floats(), a.copyOf(h)
	a.times(label, left, width, func() {
		far := operand.Mem{Base: p, Index: h, Scale: 1}
		v, w, sum := a.loadFloats(at(p, 0), false), a.loadFloats(far, false), a.vec()
		a.VADDPS(w, v, sum)
		a.VSUBPS(w, v, v)
		if factor != nil {
			a.VMULPS(factor, sum, sum)
			a.VMULPS(factor, v, v)
		}
		a.VMOVUPS(sum, at(p, 0))
		a.VMOVUPS(v, far)
		a.ADDQ(operand.U8(uint8(width)), p)
	})
}

// signs is 1 in the lanes that get the sum of two lanes h apart, -1 in those that get the difference.
func (a *attention) signs(h int) reg.VecVirtual {
	const one = 0x3f800000
	words := make([]uint32, 16)
	for i := range words {
		words[i] = one | uint32(i/h%2)<<31
	}
	v := a.vec()
	a.VMOVUPS(a.static(fmt.Sprint("signs", h), words...), v)
	return v
}

// swapped is v with lanes h apart exchanged.
func (a *attention) swapped(v reg.VecVirtual, h int) reg.VecVirtual {
	s := a.vec()
	switch {
	case h == 1:
		a.VPERMILPS(operand.U8(0xb1), v, s)
	case h == 2:
		a.VPERMILPS(operand.U8(0x4e), v, s)
	case h == 4 && a.wide:
		a.VSHUFF32X4(operand.U8(0xb1), v, v, s)
	case h == 4:
		a.VPERM2F128(operand.U8(0x01), v, v, s)
	default:
		a.VSHUFF32X4(operand.U8(0x4e), v, v, s)
	}
	return s
}
