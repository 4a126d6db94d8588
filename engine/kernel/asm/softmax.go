package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmax finds the tops of all rows before it needs the first: so no row waits until lanes are folded.
func (l *lanes) softmax() {
	l.function("softmax", "(x *float32, stride, width, rows int, seen *int, out *float32)",
		"%s turns the scores of rows into weights; see softmaxPortable.")
	low := l.fill(l.static("ff800000", repeat(math.Float32bits(float32(math.Inf(-1))))...))
	l.perRow("tops", func(r softmaxRow) {
		acc := make([]reg.VecVirtual, accumulators)
		for i := range acc {
			acc[i] = l.vec()
			l.VMOVUPS(low, acc[i])
		}
		l.walk(r.n, accumulators, false, func(p place) {
			v := l.load(r.x, p)
			l.pad(v, low, p)
			l.VMAXPS(v, acc[p.turn], acc[p.turn])
		})
		l.VMOVSS(l.fold(l.VMAXPS, acc), at(r.out, 0))
	})
	exp, zero, turns := l.exponential(), l.zero(), 1
	if l.wide {
		turns = 2
	}
	l.perRow("weights", func(r softmaxRow) {
		hide := func(p place) { l.store(zero, r.begin, p) }
		l.walk(r.first, 1, false, hide)
		top, acc := l.fill(at(r.out, 0)), l.zeros(turns)
		l.walk(r.n, turns, false, func(p place) {
			v := l.load(r.x, p)
			l.VSUBPS(top, v, v)
			v = exp.belowZero(v)
			l.pad(v, zero, p)
			l.VADDPS(v, acc[p.turn], acc[p.turn])
			l.store(v, r.x, p)
		})
		l.VMOVSS(l.fold(l.VADDPS, acc), at(r.out, 4))
		width := l.Load(l.Param("width"), l.GP64())
		l.LEAQ(operand.Mem{Base: r.x, Index: r.n, Scale: 4}, r.begin)
		l.SUBQ(r.first, width)
		l.SUBQ(r.n, width)
		l.walk(width, 1, false, hide)
	})
	l.end()
}

// softmaxRow is a row of scores: n of them from x on count, first of them before, from begin on, do not.
type softmaxRow struct{ begin, x, first, n, out reg.GPVirtual }

// perRow runs body for each row; there is one at least.
func (l *lanes) perRow(label string, body func(softmaxRow)) {
	load := func(name string) reg.GPVirtual {
		r := l.GP64()
		l.Load(l.Param(name), r)
		return r
	}
	x, seen, out, rows := load("x"), load("seen"), load("out"), load("rows")
	r := softmaxRow{begin: l.GP64(), x: l.GP64(), first: l.GP64(), n: l.GP64(), out: out}
	l.Label(label)
	l.MOVQ(at(seen, 0), r.first)
	l.MOVQ(at(seen, 8), r.n)
	l.MOVQ(x, r.begin)
	l.LEAQ(operand.Mem{Base: x, Index: r.first, Scale: 4}, r.x)
	body(r)
	stride := load("stride")
	l.LEAQ(operand.Mem{Base: x, Index: stride, Scale: 4}, x)
	l.ADDQ(operand.U8(16), seen)
	l.ADDQ(operand.U8(8), out)
	l.SUBQ(operand.U8(1), rows)
	l.JNZ(operand.LabelRef(label))
}
