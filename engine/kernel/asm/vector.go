package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectors writes the row operations. Callers check lengths: every slice has at
// least as many elements as the one that a kernel's comment counts by.
func vectors(ctx *build.Context) {
	data := make(map[string]bool)
	for _, wide := range []bool{true, false} {
		l := &lanes{Context: ctx, wide: wide, family: "vector", data: data}
		l.sumSquares()
		l.scaleBy()
		l.sum()
		l.sumDeviations()
		l.centerBy()
		l.absMax()
		l.swiglu()
		l.gelu()
		l.geglu()
		l.clampedGLU()
		l.addScaled()
		l.softCap()
		l.softmax()
		l.ropeNeox()
		l.ropeNorm()
	}
}

// accumulators is how many registers a sum or maximum runs in.
const accumulators = 4

func (l *lanes) sumSquares() {
	l.function("sumSquares", "(x []float32) float32", "%s returns the sum of x[i]*x[i].")
	x, n := l.base("x"), l.len("x")
	acc := l.zeros(accumulators)
	l.walk(n, accumulators, false, func(p place) {
		v := l.load(x, p)
		l.VFMADD231PS(v, v, acc[p.turn])
	})
	l.Store(l.fold(l.VADDPS, acc), l.ReturnIndex(0))
	l.end()
}

func (l *lanes) scaleBy() {
	l.function("scaleBy", "(dst, x, w []float32, f float32)", "%s computes dst[i] = x[i]*f*w[i] over dst.")
	dst, n, x, w := l.base("dst"), l.len("dst"), l.base("x"), l.base("w")
	f := l.broadcast("f")
	l.walk(n, accumulators, false, func(p place) {
		v := l.load(x, p)
		l.VMULPS(f, v, v)
		l.VMULPS(l.load(w, p), v, v)
		l.store(v, dst, p)
	})
	l.end()
}

func (l *lanes) sum() {
	l.function("sum", "(x []float32) float32", "%s returns the sum of x[i].")
	x, n := l.base("x"), l.len("x")
	acc := l.zeros(accumulators)
	l.walk(n, accumulators, false, func(p place) {
		l.VADDPS(l.load(x, p), acc[p.turn], acc[p.turn])
	})
	l.Store(l.fold(l.VADDPS, acc), l.ReturnIndex(0))
	l.end()
}

func (l *lanes) sumDeviations() {
	l.function("sumDeviations", "(x []float32, mean float32) float32", "%s returns the sum of (x[i]-mean)^2.")
	x, n := l.base("x"), l.len("x")
	mean, zero := l.broadcast("mean"), l.zero()
	acc := l.zeros(accumulators)
	l.walk(n, accumulators, false, func(p place) {
		v := l.load(x, p)
		l.VSUBPS(mean, v, v)
		l.pad(v, zero, p)
		l.VFMADD231PS(v, v, acc[p.turn])
	})
	l.Store(l.fold(l.VADDPS, acc), l.ReturnIndex(0))
	l.end()
}

func (l *lanes) centerBy() {
	l.function("centerBy", "(dst, x, w, b []float32, mean, f float32)", "%s computes dst[i] = (x[i]-mean)*f*w[i] + b[i] over dst.")
	dst, n, x, w, b := l.base("dst"), l.len("dst"), l.base("x"), l.base("w"), l.base("b")
	mean, f := l.broadcast("mean"), l.broadcast("f")
	l.walk(n, accumulators, false, func(p place) {
		v := l.load(x, p)
		l.VSUBPS(mean, v, v)
		l.VMULPS(f, v, v)
		l.VFMADD213PS(l.load(b, p), l.load(w, p), v)
		l.store(v, dst, p)
	})
	l.end()
}

// absMax compares as integers, where a NaN is above infinity and is kept.
func (l *lanes) absMax() {
	l.function("absMax", "(x []float32) float32", "%s returns the largest |x[i]|, 0 of none, NaN if one is NaN.")
	x, n := l.base("x"), l.len("x")
	magnitude := l.fill(l.static("7fffffff", repeat(0x7fffffff)...))
	acc := l.zeros(accumulators)
	l.walk(n, accumulators, false, func(p place) {
		v := l.load(x, p)
		l.VANDPS(magnitude, v, v)
		l.VPMAXSD(v, acc[p.turn], acc[p.turn])
	})
	l.Store(l.fold(l.VPMAXSD, acc), l.ReturnIndex(0))
	l.end()
}

func (l *lanes) swiglu() {
	l.function("swiglu", "(dst, gate, up []float32)", "%s computes dst[i] = gate[i]/(1+exp(-gate[i]))*up[i] over dst.")
	dst, n, gate, up := l.base("dst"), l.len("dst"), l.base("gate"), l.base("up")
	exp := l.exponential()
	sign := l.constant(1 << 31)
	unroll := 1
	if l.wide {
		unroll = 2
	}
	l.walk(n, unroll, false, func(p place) {
		g, e := l.load(gate, p), l.vec()
		l.VXORPS(sign, g, e)
		e = exp.of(e)
		l.VADDPS(exp.one, e, e)
		l.VDIVPS(e, g, g)
		l.VMULPS(l.load(up, p), g, g)
		l.store(g, dst, p)
	})
	l.end()
}

func (l *lanes) gelu() {
	l.function("gelu", "(x []float32)", "%s replaces x[i] by x[i]/2*(1+tanh(sqrt(2/pi)*(x[i]+0.044715*x[i]^3))).")
	x, n := l.base("x"), l.len("x")
	gelu := l.geluOf()
	l.walk(n, 1, false, func(p place) { l.store(gelu(l.load(x, p)), x, p) })
	l.end()
}

func (l *lanes) geglu() {
	l.function("geglu", "(dst, gate, up []float32)",
		"%s computes dst[i] = gate[i]/2*(1+tanh(sqrt(2/pi)*(gate[i]+0.044715*gate[i]^3)))*up[i] over dst.")
	dst, n, gate, up := l.base("dst"), l.len("dst"), l.base("gate"), l.base("up")
	gelu := l.geluOf()
	l.walk(n, 1, false, func(p place) {
		g := gelu(l.load(gate, p))
		l.VMULPS(l.load(up, p), g, g)
		l.store(g, dst, p)
	})
	l.end()
}

// clampedGLU takes minima with the limit first, so that a NaN stays one.
func (l *lanes) clampedGLU() {
	l.function("clampedGLU", "(dst, gate, up []float32, slope, limit float32)",
		"%s computes dst[i] = g/(1+exp(-slope*g))*(u+1) over dst, where g = min(gate[i], limit) and u = up[i] within [-limit,limit].")
	dst, n, gate, up := l.base("dst"), l.len("dst"), l.base("gate"), l.base("up")
	slope, limit := l.broadcast("slope"), l.broadcast("limit")
	exp := l.exponential()
	sign := l.constant(1 << 31)
	least, fall := l.vec(), l.vec()
	l.VXORPS(sign, limit, least)
	l.VXORPS(sign, slope, fall)
	l.walk(n, 1, false, func(p place) {
		g, u, e := l.load(gate, p), l.load(up, p), l.vec()
		l.VMINPS(g, limit, g)
		l.VMINPS(u, limit, u)
		l.VMAXPS(u, least, u)
		l.VMULPS(fall, g, e)
		e = exp.of(e)
		l.VADDPS(exp.one, e, e)
		l.VDIVPS(e, g, g)
		l.VADDPS(exp.one, u, u)
		l.VMULPS(u, g, g)
		l.store(g, dst, p)
	})
	l.end()
}

func (l *lanes) addScaled() {
	l.function("addScaled", "(dst, x []float32, f float32)", "%s adds x[i]*f to dst[i] over dst.")
	dst, n, x := l.base("dst"), l.len("dst"), l.base("x")
	f := l.broadcast("f")
	l.walk(n, accumulators, false, func(p place) {
		v, to := l.load(x, p), l.load(dst, p)
		l.VFMADD231PS(v, f, to)
		l.store(to, dst, p)
	})
	l.end()
}

// geluOf uses that (1+tanh(u))/2 is 1/(1+exp(-2u)); it overwrites its operand.
func (l *lanes) geluOf() func(x reg.VecVirtual) reg.VecVirtual {
	const (
		linear = -2 * 0.7978845608028654 // sqrt(2/pi)
		cubic  = linear * 0.044715
	)
	exp := l.exponential()
	first, third := l.float(linear), l.float(cubic)
	return func(x reg.VecVirtual) reg.VecVirtual {
		e, square := l.vec(), l.vec()
		l.VMULPS(x, x, square)
		l.VMOVUPS(first, e)
		l.VFMADD231PS(third, square, e)
		l.VMULPS(x, e, e)
		e = exp.of(e)
		l.VADDPS(exp.one, e, e)
		l.VDIVPS(e, x, x)
		return x
	}
}

// softCap takes the hyperbolic tangent as a quotient of two polynomials, an odd one of degree 13 and an even one of degree 6,
// within [-tanhLimit,tanhLimit]: beyond, a float32 is 1. A NaN stays one.
func (l *lanes) softCap() {
	l.function("softCap", "(x []float32, limit, inverse float32)", "%s replaces x[i] by limit*tanh(x[i]*inverse).")
	x, n := l.base("x"), l.len("x")
	limit, inverse := l.broadcast("limit"), l.broadcast("inverse")
	odd := []float32{-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03}
	even := []float32{1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03}
	var above, below []operand.Op
	for _, v := range odd {
		above = append(above, l.float(v))
	}
	for _, v := range even {
		below = append(below, l.float(v))
	}
	const tanhLimit = 7.90531110763549805
	high, low := l.vec(), l.vec()
	l.VMOVUPS(l.float(tanhLimit), high)
	l.VMOVUPS(l.float(-tanhLimit), low)
	polynomial := func(of []operand.Op, square reg.VecVirtual) reg.VecVirtual {
		p := l.vec()
		l.VMOVUPS(of[0], p)
		for _, c := range of[1:] {
			l.VFMADD213PS(c, square, p)
		}
		return p
	}
	l.walk(n, 1, false, func(p place) {
		v, square := l.load(x, p), l.vec()
		l.VMULPS(inverse, v, v)
		l.VMINPS(v, high, v)
		l.VMAXPS(v, low, v)
		l.VMULPS(v, v, square)
		up := polynomial(above, square)
		l.VMULPS(v, up, up)
		l.VDIVPS(polynomial(below, square), up, up)
		l.VMULPS(limit, up, up)
		l.store(up, x, p)
	})
	l.end()
}

func (l *lanes) ropeNeox() {
	l.function("ropeNeox", "(x, cos, sin []float32, heads, headDim int)",
		"%s rotates the pairs (i, i+len(cos)) of each head of x.")
	l.perHead(func(x, cos, sin, half reg.Register) {
		far := l.GP64()
		l.LEAQ(operand.Mem{Base: x, Index: half, Scale: 4}, far)
		l.walk(half, 1, false, func(p place) {
			c, s, u, v := l.load(cos, p), l.load(sin, p), l.load(x, p), l.load(far, p)
			a, b := l.vec(), l.vec()
			l.VMULPS(s, v, a)
			l.VFMSUB231PS(c, u, a)
			l.VMULPS(s, u, b)
			l.VFMADD231PS(c, v, b)
			l.store(a, x, p)
			l.store(b, far, p)
		})
	})
}

func (l *lanes) ropeNorm() {
	l.function("ropeNorm", "(x, cos, sin []float32, heads, headDim int)",
		"%s rotates the pairs (2i, 2i+1), i < len(cos), of each head of x.")
	l.perHead(func(x, cos, sin, half reg.Register) {
		count := l.GP64()
		l.LEAQ(operand.Mem{Base: half, Index: half, Scale: 1}, count)
		l.walk(count, 1, true, func(p place) {
			v, other := l.load(x, p), l.vec()
			c, s := l.pairs(cos, p), l.pairs(sin, p)
			l.VPERMILPS(operand.U8(0xb1), v, other)
			l.VMULPS(other, s, s)
			l.VFMADDSUB213PS(s, c, v)
			l.store(v, x, p)
		})
	})
}

// perHead runs body for each head, x moving on by headDim.
func (l *lanes) perHead(body func(x, cos, sin, half reg.Register)) {
	x, cos, half, sin := l.base("x"), l.base("cos"), l.len("cos"), l.base("sin")
	heads := l.Load(l.Param("heads"), l.GP64())
	stride := l.Load(l.Param("headDim"), l.GP64())
	l.Label("head")
	l.DECQ(heads)
	l.JL(operand.LabelRef("end"))
	body(x, cos, sin, half)
	l.LEAQ(operand.Mem{Base: x, Index: stride, Scale: 4}, x)
	l.JMP(operand.LabelRef("head"))
	l.Label("end")
	l.end()
}

// pairs loads an angle's value for each pair of lanes at p, in both of them.
func (l *lanes) pairs(base reg.Register, p place) reg.VecVirtual {
	from := operand.Mem{Base: base, Index: p.index, Scale: 2, Disp: 2 * p.disp}
	v := l.vec()
	switch {
	case p.mask == nil:
		l.VPMOVZXDQ(from, v)
	case l.wide:
		l.VPMOVZXDQ_Z(from, p.half, v)
	default:
		l.VMASKMOVPS(from, p.half.(reg.VecVirtual).AsX(), v.AsX())
		l.VPMOVZXDQ(v.AsX(), v)
	}
	l.VMOVSLDUP(v, v)
	return v
}

func (l *lanes) broadcast(param string) reg.VecVirtual {
	x := l.XMM()
	l.Load(l.Param(param), x)
	v := l.vec()
	l.VBROADCASTSS(x, v)
	return v
}

func repeat(bits uint32) []uint32 {
	return []uint32{bits, bits, bits, bits, bits, bits, bits, bits}
}
