package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduceBlock is vector.ReduceBlock.
const reduceBlock = 512

// reductions writes what sampling asks of a row of logits or weights, in
// blocks of reduceBlock. Callers check lengths: dst has an element for every
// block of x.
func reductions(ctx *build.Context) {
	data := make(map[string]bool)
	for _, wide := range []bool{true, false} {
		l := &lanes{Context: ctx, wide: wide, family: "reduce", data: data}
		l.blockMaxima()
		l.blockExp("blockExpSums", false, "%s adds up exp((x[i]-top)/t) in float64, block by block, a NaN as 0.")
		l.blockExp("blockWeights", true, "%s is blockExpSums and leaves the exponentials in x.")
		l.blockSums()
		l.find()
	}
}

func (l *lanes) blockMaxima() {
	l.function("blockMaxima", "(dst, x []float32)", "%s finds the largest number of each block, -Inf where all are NaN.")
	dst, x, n := l.base("dst"), l.base("x"), l.len("x")
	low := l.fill(l.static("ff800000", repeat(math.Float32bits(float32(math.Inf(-1))))...))
	l.perBlock(dst, x, n, 4, func(count reg.Register) {
		acc := make([]reg.VecVirtual, accumulators)
		for i := range acc {
			acc[i] = l.vec()
			l.VMOVUPS(low, acc[i])
		}
		l.walk(count, accumulators, false, func(p place) {
			v := l.load(x, p)
			l.pad(v, low, p)
			l.VMAXPS(acc[p.turn], v, acc[p.turn]) // of a NaN and acc it gives acc
		})
		l.VMOVSS(l.fold(l.VMAXPS, acc), operand.Mem{Base: dst})
	})
	l.end()
}

func (l *lanes) blockExp(name string, keep bool, doc string) {
	l.function(name, "(dst []float64, x []float32, top, t float32)", doc)
	dst, x, n := l.base("dst"), l.base("x"), l.len("x")
	top, t := l.broadcast("top"), l.broadcast("t")
	low := l.float(float32(math.Inf(-1)))
	exp := l.exponential()
	turns := 1
	if l.wide {
		turns = 2
	}
	zero := l.zero()
	l.perBlock(dst, x, n, 8, func(count reg.Register) {
		acc := l.zeros(2)
		l.walk(count, turns, false, func(p place) {
			v := l.load(x, p)
			l.VSUBPS(top, v, v)
			l.VDIVPS(t, v, v)
			l.VMAXPS(low, v, v) // of a NaN and low it gives low
			v = exp.of(v)
			l.pad(v, zero, p)
			if keep {
				l.store(v, x, p)
			}
			l.addDoubles(v, acc)
		})
		l.VMOVSD(l.foldDoubles(acc), operand.Mem{Base: dst})
	})
	l.end()
}

func (l *lanes) blockSums() {
	l.function("blockSums", "(dst []float64, x []float32, least float32) (count int, lowest, below float32)",
		"%s adds up the x[i] >= least in float64, block by block, and finds their number, the lowest of them and "+
			"the highest of the others.")
	dst, x, n := l.base("dst"), l.base("x"), l.len("x")
	least := l.broadcast("least")
	high := l.fill(l.static("7f800000", repeat(math.Float32bits(float32(math.Inf(1))))...))
	one := l.fill(l.static("00000001", repeat(1)...))
	counts, lowest, below := l.zero(), l.vec(), l.zero()
	l.VMOVUPS(high, lowest)
	l.perBlock(dst, x, n, 8, func(count reg.Register) {
		acc := l.zeros(2)
		l.walk(count, 1, false, func(p place) {
			v, kept := l.load(x, p), l.vec()
			if l.wide {
				k := l.K()
				l.VCMPPS(operand.U8(0x1d), least, v, k)
				l.VMOVAPS_Z(v, k, kept)
				l.VPADDD(one, counts, k, counts)
				l.VMINPS(v, lowest, k, lowest)
			} else {
				m := l.vec()
				l.VCMPPS(operand.U8(0x1d), least, v, m)
				l.VANDPS(m, v, kept)
				l.VPSUBD(m, counts, counts)
				l.VBLENDVPS(m, v, high, m)
				l.VMINPS(m, lowest, lowest)
			}
			l.VXORPS(kept, v, v)
			l.VMAXPS(v, below, below)
			l.addDoubles(kept, acc)
		})
		l.VMOVSD(l.foldDoubles(acc), operand.Mem{Base: dst})
	})
	total := l.GP64()
	l.VMOVD(l.fold(l.VPADDD, []reg.VecVirtual{counts}), total.As32())
	l.Store(total, l.ReturnIndex(0))
	l.Store(l.fold(l.VMINPS, []reg.VecVirtual{lowest}), l.ReturnIndex(1))
	l.Store(l.fold(l.VMAXPS, []reg.VecVirtual{below}), l.ReturnIndex(2))
	l.end()
}

// find writes whole registers of indices where there are masks to pack them
// with, and single ones where there are not.
func (l *lanes) find() {
	l.function("find", "(dst []int32, x []float32, lo, hi float32) int",
		"%s lists the i with lo <= x[i] <= hi in rising order and returns their number; dst has room for len(x)+15.")
	dst, x, n := l.base("dst"), l.base("x"), l.len("x")
	lo, hi := l.broadcast("lo"), l.broadcast("hi")
	nan := l.fill(l.static("7fc00000", repeat(0x7fc00000)...))
	found := l.GP64()
	l.XORQ(found, found)
	var iota, stride reg.VecVirtual
	if l.wide {
		iota, stride = l.vec(), l.fill(l.static("00000010", repeat(16)...))
		l.VMOVDQU32(l.static("iota", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), iota)
	}
	l.walk(n, 1, false, func(p place) {
		v, bits := l.load(x, p), l.GP32()
		l.pad(v, nan, p)
		l.loops++
		next := l.label("next")
		if l.wide {
			k, packed := l.K(), l.vec()
			l.VCMPPS(operand.U8(0x1d), lo, v, k)
			l.VCMPPS(operand.U8(0x12), hi, v, k, k)
			l.KMOVW(k, bits)
			l.TESTL(bits, bits)
			l.JZ(operand.LabelRef(next))
			l.VPCOMPRESSD_Z(iota, k, packed)
			l.VMOVDQU32(packed, operand.Mem{Base: dst, Index: found, Scale: 4})
			l.POPCNTL(bits, bits)
			l.ADDQ(bits.As64(), found)
			l.Label(next)
			l.VPADDD(stride, iota, iota)
			return
		}
		above := l.vec()
		l.VCMPPS(operand.U8(0x1d), lo, v, above)
		l.VCMPPS(operand.U8(0x12), hi, v, v)
		l.VANDPS(above, v, v)
		l.VMOVMSKPS(v, bits)
		l.singly(dst, found, bits, p, next)
	})
	l.Store(found, l.ReturnIndex(0))
	l.end()
}

// singly stores the index of each bit that is set.
func (l *lanes) singly(dst, found reg.Register, bits reg.GPVirtual, p place, next string) {
	again, at := l.label("again"), l.GP64()
	l.Label(again)
	l.TESTL(bits, bits)
	l.JZ(operand.LabelRef(next))
	l.TZCNTL(bits, at.As32())
	l.LEAQ(operand.Mem{Base: p.index, Index: at, Scale: 1, Disp: p.disp}, at)
	l.MOVL(at.As32(), operand.Mem{Base: dst, Index: found, Scale: 4})
	l.BLSRL(bits, bits)
	l.INCQ(found)
	l.JMP(operand.LabelRef(again))
	l.Label(next)
}

// perBlock runs body for each block of the n elements at x, the last of which
// may be short. x and dst move on, dst by size bytes.
func (l *lanes) perBlock(dst, x, n reg.Register, size int, body func(count reg.Register)) {
	count := l.GP64()
	l.Label("block")
	l.TESTQ(n, n)
	l.JLE(operand.LabelRef("end"))
	l.MOVQ(operand.I32(reduceBlock), count)
	l.CMPQ(n, count)
	l.CMOVQLT(n, count)
	body(count)
	l.ADDQ(operand.I32(4*reduceBlock), x)
	l.ADDQ(operand.I32(size), dst)
	l.SUBQ(operand.I32(reduceBlock), n)
	l.JMP(operand.LabelRef("block"))
	l.Label("end")
}

// addDoubles adds the lanes of v, as doubles, to acc: the low half to the
// first, the high half to the second.
func (l *lanes) addDoubles(v reg.VecVirtual, acc []reg.VecVirtual) {
	low, high := l.vec(), l.vec()
	if l.wide {
		l.VCVTPS2PD(v.AsY(), low)
		l.VEXTRACTF64X4(operand.U8(1), v, high.AsY())
		l.VCVTPS2PD(high.AsY(), high)
	} else {
		l.VCVTPS2PD(v.AsX(), low)
		l.VEXTRACTF128(operand.U8(1), v, high.AsX())
		l.VCVTPS2PD(high.AsX(), high)
	}
	l.VADDPD(low, acc[0], acc[0])
	l.VADDPD(high, acc[1], acc[1])
}

// foldDoubles adds up two registers of doubles; the sum is lane 0.
func (l *lanes) foldDoubles(acc []reg.VecVirtual) reg.Register {
	l.VADDPD(acc[1], acc[0], acc[0])
	y := acc[0].AsY()
	if l.wide {
		high := l.YMM()
		l.VEXTRACTF64X4(operand.U8(1), acc[0], high)
		l.VADDPD(high, y, y)
	}
	x, t := acc[0].AsX(), l.XMM()
	if l.wide {
		l.VEXTRACTF64X2(operand.U8(1), y, t) // has names for all 32 registers
	} else {
		l.VEXTRACTF128(operand.U8(1), y, t)
	}
	l.VADDPD(t, x, x)
	l.VPERMILPD(operand.U8(1), x, t)
	l.VADDPD(t, x, x)
	return x
}

// label is one that no other loop of the function has.
func (l *lanes) label(name string) string { return fmt.Sprint(name, l.loops) }
