package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rotateValues is how many values are rotated in registers; where more are rotated together, runs of as many
// are, and the further steps go through memory.
const rotateValues = 64

// rotate does the steps whose two values lie in one register with a swap and a multiplication by
// signs, the others register by register.
func (a *attention) rotate() {
	a.function("rotate", "(dst, x *float32, n, headDim, heads, rows, dstSkip, xSkip int, factors *float32)",
		"%s writes factors[i] times the Walsh-Hadamard transform of each n values of head i, which is not scaled; n is a power of two, 32 at "+
			"least. Rows of heads are so many floats apart.")
	dst, x, bytes, factors := a.param("dst"), a.param("x"), a.param("n"), a.param("factors")
	a.SHLQ(operand.U8(2), bytes)
	var signs []reg.VecVirtual
	for h := 1; h < a.floats(); h *= 2 {
		signs = append(signs, a.signs(h))
	}
	a.times("rows", a.param("rows"), 1, func() {
		a.times("heads", a.param("heads"), 1, func() { a.rotateHead(dst, x, bytes, factors, signs) })
		for _, skip := range []struct {
			by string
			p  reg.Register
		}{{"dstSkip", dst}, {"xSkip", x}} {
			a.LEAQ(operand.Mem{Base: skip.p, Index: a.param(skip.by), Scale: 4}, skip.p)
		}
	})
	a.end()
}

// rotateHead rotates all values of a head; dst, x and factors move on.
func (a *attention) rotateHead(dst, x, bytes, factors reg.Register, signs []reg.VecVirtual) {
	factor, left := a.vec(), a.param("headDim")
	a.VBROADCASTSS(at(factors, 0), factor)
	a.ADDQ(operand.U8(4), factors)
	a.SHLQ(operand.U8(2), left)
	a.CMPQ(bytes, operand.I32(4*rotateValues))
	a.JE(operand.LabelRef("few"))
	a.JG(operand.LabelRef("many"))
	a.times("half", left, 4*rotateValues/2, func() { a.rotateRun(rotateValues/2, dst, x, signs, factor) })
	a.JMP(operand.LabelRef("done"))
	a.Label("few")
	a.times("run", left, 4*rotateValues, func() { a.rotateRun(rotateValues, dst, x, signs, factor) })
	a.JMP(operand.LabelRef("done"))
	a.Label("many")
	a.rotateMany(dst, x, bytes, left, signs, factor)
	a.Label("done")
}

// rotateMany rotates runs of more values than registers hold, until left is used up; dst and x move on.
func (a *attention) rotateMany(dst, x, bytes, left reg.Register, signs []reg.VecVirtual, factor reg.Register) {
	begin, count, h, p := a.copyOf(dst), a.copyOf(bytes), a.GP64(), a.GP64()
	a.times("inner", count, 4*rotateValues, func() { a.rotateRun(rotateValues, dst, x, signs, nil) })
	a.SUBQ(bytes, left)
	a.MOVQ(operand.I32(4*rotateValues), h)
	half := a.copyOf(bytes)
	a.SHRQ(operand.U8(1), half)
	a.Label("step")
	a.MOVQ(begin, p)
	a.CMPQ(h, half)
	a.JE(operand.LabelRef("last"))
	a.Label("span")
	a.farPairs("pairs", p, h, nil)
	a.ADDQ(h, p)
	a.CMPQ(p, dst)
	a.JL(operand.LabelRef("span"))
	a.SHLQ(operand.U8(1), h)
	a.JMP(operand.LabelRef("step"))
	a.Label("last")
	a.farPairs("all", p, h, factor)
	a.TESTQ(left, left)
	a.JNZ(operand.LabelRef("many"))
}

// rotateRun rotates n values in registers, times factor if there is one, and moves dst and x behind them.
func (a *attention) rotateRun(n int, dst, x reg.Register, signs []reg.VecVirtual, factor reg.Register) {
	width, v := 4*a.floats(), make([]reg.VecVirtual, n/a.floats())
	for i := range v {
		v[i] = a.loadFloats(at(x, i*width), false)
	}
	for i, s := range signs {
		for _, r := range v {
			other := a.swapped(r, 1<<i)
			a.VFMADD213PS(other, s, r)
		}
	}
	for h := 1; h < len(v); h *= 2 {
		for i := range v {
			if i&h == 0 {
				sum := a.vec()
				a.VADDPS(v[i+h], v[i], sum)
				a.VSUBPS(v[i+h], v[i], v[i+h])
				v[i] = sum
			}
		}
	}
	for i, r := range v {
		if factor != nil {
			a.VMULPS(factor, r, r)
		}
		a.VMOVUPS(r, at(dst, i*width))
	}
	a.ADDQ(operand.I32(int32(4*n)), x)
	a.ADDQ(operand.I32(int32(4*n)), dst)
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
