package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanes writes float32 kernels at one register width, so that AVX-512 and AVX2
// come from one description: 16 lanes with a mask register for the odd end, or
// 8 lanes with a vector of masks.
type lanes struct {
	*build.Context
	wide   bool
	family string          // prefix of the family's static data
	data   map[string]bool // static data written so far; shared by the widths
	loops  int             // labels used in the function
}

func (l *lanes) floats() int {
	if l.wide {
		return 16
	}
	return 8
}

// function begins NAMEAVX512 or NAMEAVX2; %s in doc stands for its name.
func (l *lanes) function(name, signature, doc string) {
	if l.wide {
		name += "AVX512"
	} else {
		name += "AVX2"
	}
	l.loops = 0
	l.Function(name)
	l.Attributes(attr.NOSPLIT)
	l.Pragma("noescape")
	l.SignatureExpr("func" + signature)
	l.Doc(fmt.Sprintf(doc, name))
}

func (l *lanes) end() {
	l.VZEROUPPER()
	l.RET()
}

func (l *lanes) vec() reg.VecVirtual {
	if l.wide {
		return l.ZMM()
	}
	return l.YMM()
}

func (l *lanes) zero() reg.VecVirtual {
	v := l.vec()
	l.VXORPS(v, v, v)
	return v
}

func (l *lanes) zeros(n int) []reg.VecVirtual {
	all := make([]reg.VecVirtual, n)
	for i := range all {
		all[i] = l.zero()
	}
	return all
}

func (l *lanes) base(param string) reg.Register {
	return l.Load(l.Param(param).Base(), l.GP64())
}

func (l *lanes) len(param string) reg.Register {
	return l.Load(l.Param(param).Len(), l.GP64())
}

// static is read-only data of 32-bit words.
func (l *lanes) static(name string, words ...uint32) operand.Mem {
	name = l.family + "_" + name
	if l.data[name] {
		return operand.Mem{Symbol: operand.NewStaticSymbol(name), Base: reg.StaticBase}
	}
	l.data[name] = true
	m := l.StaticGlobal(name)
	l.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, w := range words {
		l.AppendDatum(operand.U32(w))
	}
	return m
}

// constant is bits in every lane: a register where there are many, memory
// where there are few.
func (l *lanes) constant(bits uint32) operand.Op {
	m := l.static(fmt.Sprintf("%08x", bits), bits, bits, bits, bits, bits, bits, bits, bits)
	if !l.wide {
		return m
	}
	return l.fill(m)
}

// fill is a register with the float at m in every lane.
func (l *lanes) fill(m operand.Op) reg.VecVirtual {
	v := l.vec()
	l.VBROADCASTSS(m, v)
	return v
}

// place is where one body of a walk stands.
type place struct {
	turn  int          // of the unrolled bodies
	index reg.Register // first lane's element, less disp
	disp  int          // elements
	mask  reg.Register // nil where all lanes are in use
	half  reg.Register // the mask of half as many lanes
}

func (p place) at(base reg.Register) operand.Mem {
	return operand.Mem{Base: base, Index: p.index, Scale: 4, Disp: 4 * p.disp}
}

// load reads the lanes at p; those beyond the end are 0.
func (l *lanes) load(base reg.Register, p place) reg.VecVirtual {
	v := l.vec()
	switch {
	case p.mask == nil:
		l.VMOVUPS(p.at(base), v)
	case l.wide:
		l.VMOVUPS_Z(p.at(base), p.mask, v)
	default:
		l.VMASKMOVPS(p.at(base), p.mask, v)
	}
	return v
}

func (l *lanes) store(v, base reg.Register, p place) {
	switch {
	case p.mask == nil:
		l.VMOVUPS(v, p.at(base))
	case l.wide:
		l.VMOVUPS(v, p.mask, p.at(base))
	default:
		l.VMASKMOVPS(v, p.mask, p.at(base))
	}
}

// pad puts other's lanes in place of v's beyond the end.
func (l *lanes) pad(v, other reg.Register, p place) {
	switch {
	case p.mask == nil:
	case l.wide:
		l.VBLENDMPS(v, other, p.mask, v)
	default:
		l.VBLENDVPS(p.mask, v, other, v)
	}
}

// walk runs body over count elements: unroll registers at a time, then one,
// then what is left under a mask.
func (l *lanes) walk(count reg.Register, unroll int, halves bool, body func(place)) {
	l.loops++
	label := func(s string) string { return fmt.Sprint(s, l.loops) }
	many, one, rest, done := label("many"), label("one"), label("rest"), label("done")
	i, next := l.GP64(), l.GP64()
	l.XORQ(i, i)
	step := func(here, after string, turns int) {
		l.Label(here)
		l.LEAQ(operand.Mem{Base: i, Disp: turns * l.floats()}, next)
		l.CMPQ(next, count)
		l.JG(operand.LabelRef(after))
		for t := range turns {
			body(place{turn: t, index: i, disp: t * l.floats()})
		}
		l.MOVQ(next, i)
		l.JMP(operand.LabelRef(here))
	}
	if unroll > 1 {
		step(many, one, unroll)
	}
	step(one, rest, 1)
	l.Label(rest)
	left := l.GP64()
	l.MOVQ(count, left)
	l.SUBQ(i, left)
	l.JZ(operand.LabelRef(done))
	end := place{index: i, mask: l.mask(left)}
	if halves {
		l.SHRQ(operand.U8(1), left)
		end.half = l.mask(left)
	}
	body(end)
	l.Label(done)
}

// mask selects the first n lanes.
func (l *lanes) mask(n reg.GPVirtual) reg.Register {
	t := l.GP64()
	if l.wide {
		k := l.K()
		l.MOVQ(operand.I32(-1), t)
		l.BZHIQ(n, t, t)
		l.KMOVW(t.As32(), k)
		return k
	}
	const all = 1<<32 - 1
	table := l.static("mask", all, all, all, all, all, all, all, all, 0, 0, 0, 0, 0, 0, 0, 0)
	back, v := l.GP64(), l.YMM()
	l.LEAQ(table, t)
	l.MOVQ(n, back)
	l.NEGQ(back)
	l.VMOVUPS(operand.Mem{Base: t, Index: back, Scale: 4, Disp: 32}, v)
	return v
}

// operation is a three-operand instruction: op(b, a, dst).
type operation func(...operand.Op)

// fold combines registers pairwise and then their lanes; the result is lane 0.
func (l *lanes) fold(op operation, v []reg.VecVirtual) reg.Register {
	for n := len(v); n > 1; n /= 2 {
		for i := range n / 2 {
			op(v[i+n/2], v[i], v[i])
		}
	}
	y := v[0].AsY()
	if l.wide {
		high := l.YMM()
		l.VEXTRACTF64X4(operand.U8(1), v[0], high)
		op(high, y, y)
	}
	x, t := v[0].AsX(), l.XMM()
	l.VEXTRACTF128(operand.U8(1), y, t)
	op(t, x, x)
	l.VPERMILPS(operand.U8(0x4e), x, t)
	op(t, x, x)
	l.VPERMILPS(operand.U8(0xb1), x, t)
	op(t, x, x)
	return x
}
