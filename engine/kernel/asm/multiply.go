package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// multiplications writes the product of a row with a matrix as it stands in memory.
func multiplications(ctx *build.Context) {
	data := make(map[string]bool)
	for _, wide := range []bool{true, false} {
		l := &lanes{Context: ctx, wide: wide, family: "multiply", data: data}
		l.multiply()
	}
}

// multiplyTurns is how many registers of columns a call computes; their sums run side
// by side, which hides the latency of each.
const multiplyTurns = 4

func (l *lanes) multiply() {
	l.function("multiply", "(dst, x, w []float32, stride int)",
		"%s computes dst[i] = the sum of x[j]*w[j*stride+i], in the order of j; dst has four registers at most.")
	dst, left, x, k, w := l.base("dst"), l.len("dst"), l.base("x"), l.len("x"), l.base("w")
	stride := l.Load(l.Param("stride"), l.GP64())
	l.SHLQ(operand.U8(2), stride)
	zero, full, n := l.GP64(), l.GP64(), l.GP64()
	l.XORQ(zero, zero)
	l.MOVQ(operand.I32(int32(l.floats())), full)
	var places [multiplyTurns]place
	for t := range places {
		l.MOVQ(left, n)
		l.CMPQ(n, full)
		l.CMOVQGT(full, n)
		l.CMPQ(n, zero)
		l.CMOVQLT(zero, n)
		l.SUBQ(full, left)
		places[t] = place{turn: t, index: zero, disp: t * l.floats(), mask: l.mask(n)}
	}
	acc := l.zeros(multiplyTurns)
	l.TESTQ(k, k)
	l.JZ(operand.LabelRef("done"))
	b := l.vec()
	l.Label("next")
	l.VBROADCASTSS(operand.Mem{Base: x}, b)
	for t, p := range places {
		l.VFMADD231PS(l.load(w, p), b, acc[t])
	}
	l.ADDQ(operand.U8(4), x)
	l.ADDQ(stride, w)
	l.DECQ(k)
	l.JNZ(operand.LabelRef("next"))
	l.Label("done")
	for t, p := range places {
		l.store(acc[t], dst, p)
	}
	l.end()
}
