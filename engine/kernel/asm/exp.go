package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential holds the constants of exp, which package vector
// explains: x = n*ln2 + r, exp(x) = 2^n * (1 + r + r^2*q(r)).
type exponential struct {
	l            *lanes
	low, high    operand.Op // beyond them 0 and infinity
	log2e        operand.Op
	ln2hi, ln2lo operand.Op
	q            []operand.Op // from the highest power
	one, bias    operand.Op
}

func (l *lanes) exponential() *exponential {
	e := &exponential{
		l:     l,
		low:   l.float(-104),
		high:  l.float(89),
		log2e: l.float(math.Log2E),
		ln2hi: l.float(0.693359375),
		ln2lo: l.float(-2.12194440e-4),
		one:   l.float(1),
	}
	for _, bits := range []uint32{0x3ab5112b, 0x3c091d81, 0x3d2aac7c, 0x3e2aaa48, 0x3efffffe} {
		e.q = append(e.q, l.constant(bits))
	}
	if !l.wide {
		e.bias = l.constant(127)
	}
	return e
}

func (l *lanes) float(f float32) operand.Op { return l.constant(math.Float32bits(f)) }

// of overwrites x by exp(x). A NaN stays one: MIN and MAX give their second
// source where either is NaN.
func (e *exponential) of(x reg.VecVirtual) reg.VecVirtual {
	e.l.VMINPS(x, e.inRegister(e.high), x)
	return e.belowZero(x)
}

// belowZero is of where x is no larger than zero, or NaN.
func (e *exponential) belowZero(x reg.VecVirtual) reg.VecVirtual {
	l := e.l
	n, square, p := l.vec(), l.vec(), l.vec()
	l.VMAXPS(x, e.inRegister(e.low), x)
	l.VMULPS(e.log2e, x, n)
	if l.wide {
		l.VRNDSCALEPS(operand.U8(8), n, n)
	} else {
		l.VROUNDPS(operand.U8(8), n, n)
	}
	l.VFNMADD231PS(e.ln2hi, n, x)
	l.VFNMADD231PS(e.ln2lo, n, x)
	l.VMOVUPS(e.q[0], p)
	for _, q := range e.q[1:] {
		l.VFMADD213PS(q, x, p)
	}
	l.VMULPS(x, x, square)
	l.VFMADD213PS(x, square, p)
	l.VADDPS(e.one, p, p)
	if l.wide {
		l.VSCALEFPS(n, p, p)
	} else {
		e.raise(p, n)
	}
	return p
}

// inRegister is a constant where an instruction takes it first.
func (e *exponential) inRegister(c operand.Op) operand.Op {
	if e.l.wide {
		return c
	}
	v := e.l.vec()
	e.l.VMOVUPS(c, v)
	return v
}

// raise multiplies p by 2^n in two steps, so that neither factor leaves the
// range of exponents where the product is within it.
func (e *exponential) raise(p, n reg.VecVirtual) {
	l := e.l
	part := l.vec()
	l.VCVTPS2DQ(n, n)
	l.VPSRAD(operand.U8(1), n, part)
	l.VPSUBD(part, n, n)
	for _, power := range []reg.VecVirtual{part, n} {
		l.VPADDD(e.bias, power, power)
		l.VPSLLD(operand.U8(23), power, power)
		l.VMULPS(power, p, p)
	}
}

// power holds the constants of exp as attention's weights of 8 bits need it, within 3e-6 of the value:
// exp(x) = 2^(n+f), f in [-1/2,1/2], 2^f = 1 + f*q(f).
type power struct {
	l          *lanes
	log2e, low operand.Op
	one        operand.Op
	q          []operand.Op // from the highest power
	bias       operand.Op
}

func (l *lanes) power() *power {
	p := &power{l: l, log2e: l.float(math.Log2E), one: l.float(1)}
	for _, bits := range []uint32{0x3c1d0166, 0x3d64fe23, 0x3e7601bc, 0x3f317096} {
		p.q = append(p.q, l.constant(bits))
	}
	if l.wide {
		p.low = l.float(-200) // 2^-200 is zero
	} else {
		p.low, p.bias = l.float(-127), l.constant(127) // whose bits are zero
	}
	return p
}

// below is exp of scores x less their tops, which times log2e are shifts; a NaN stays one. It overwrites x.
func (p *power) below(x, shifts []reg.VecVirtual) []reg.VecVirtual {
	l, n, v := p.l, make([]reg.VecVirtual, len(x)), make([]reg.VecVirtual, len(x))
	for i := range x {
		l.VFMSUB132PS(p.log2e, shifts[i], x[i])
	}
	for i := range x {
		n[i], v[i] = l.vec(), l.vec()
		if l.wide {
			l.VMAXPS(x[i], p.low, x[i])
			l.VRNDSCALEPS(operand.U8(8), x[i], n[i])
		} else {
			l.VMOVUPS(p.low, n[i])
			l.VMAXPS(x[i], n[i], x[i])
			l.VROUNDPS(operand.U8(8), x[i], n[i])
		}
	}
	for i := range x {
		l.VSUBPS(n[i], x[i], x[i])
		l.VMOVUPS(p.q[0], v[i])
	}
	for _, q := range append(p.q[1:], p.one) {
		for i := range x {
			l.VFMADD213PS(q, x[i], v[i])
		}
	}
	for i := range x {
		if l.wide {
			l.VSCALEFPS(n[i], v[i], v[i])
			continue
		}
		l.VCVTPS2DQ(n[i], n[i])
		l.VPADDD(p.bias, n[i], n[i])
		l.VPSLLD(operand.U8(23), n[i], n[i])
		l.VMULPS(n[i], v[i], v[i])
	}
	return v
}
