package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Shapes that package attend fixes, in bytes.
const (
	laneStep      = 4               // query vectors at a time
	scoreStride   = (512 + 16) * 4  // between lanes of scores
	queryBlock    = 40 * 4          // four lanes' codes, scales and corrections of 32 values
	queryScales   = 32 * 4          // in it
	queryBias     = 36 * 4          // in it
	keyBlock      = 512             // key or value codes of 32 values in a tile
	scaleBlock    = 32              // their scales
	codeLane      = 512             // weightCodes: between lanes of codes, and of steps
	codeSteps     = 4 * codeLane    // the steps
	codeBlock     = 8*codeLane + 64 // between blocks of values
	tileFloats    = 16 * 4          // sixteen scores
	segmentRow    = 512 * 4         // scales of a segment's values, as floats
	tilesTogether = 4               // tiles whose weights lie in one register of bytes
	weightMax     = 255
)

// attentions writes the kernels of attention over tiles of sixteen tokens,
// whose layout attend/kv.go describes; attend/kernels.go has each in plain Go.
func attentions(ctx *build.Context) {
	data := make(map[string]bool)
	for _, wide := range []bool{true, false} {
		a := &attention{lanes: &lanes{Context: ctx, wide: wide, family: "attention", data: data}}
		a.quantize()
		a.scoreQ8()
		a.openScales()
		a.weighQ8()
		a.mixQ8()
		for _, half := range []bool{true, false} {
			a.scoreFloats(half)
			a.mixFloats(half)
		}
		a.blend()
		a.rotate()
		a.unpack()
	}
	wide := &attention{lanes: &lanes{Context: ctx, wide: true, family: "attention", data: data}}
	wide.packQ8()
	wide.storeQ8()
	narrow := &lanes{Context: ctx, family: "attention", data: data}
	halve(narrow)
	fetch(narrow)
}

type attention struct {
	*lanes
	asked int // labels of prefetch so far
}

func (a *attention) param(name string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(name), r)
	return r
}

func (a *attention) copyOf(r reg.Register) reg.GPVirtual {
	c := a.GP64()
	a.MOVQ(r, c)
	return c
}

// times runs body count times; count is at least one and is used up.
func (a *attention) times(label string, count reg.Register, by int, body func()) {
	a.Label(label)
	body()
	a.SUBQ(operand.I32(int32(by)), count)
	a.JNZ(operand.LabelRef(label))
}

// next is the address of the tile that tiles points at, n places on.
func (a *attention) next(data, tiles reg.Register, n int) reg.GPVirtual {
	t := a.GP64()
	a.MOVQ(at(tiles, 8*n), t)
	a.ADDQ(data, t)
	return t
}

func (a *attention) loadFloats(m operand.Mem, half bool) reg.VecVirtual {
	v := a.vec()
	if half {
		a.VCVTPH2PS(m, v)
	} else {
		a.VMOVUPS(m, v)
	}
	return v
}

func (a *attention) words(bits uint32) reg.VecVirtual {
	v := a.vec()
	a.VBROADCASTSS(a.static(hex(bits), repeat(bits)...), v)
	return v
}

// laneGroups runs body for each four lanes of a tile. The first ones' also
// prefetches the tile's values, one line for each line of keys that it reads: the
// values are read once the segment's scores are known.
func (a *attention) laneGroups(out reg.Register, body func(ask bool)) {
	n := a.param("lanes")
	body(true)
	a.ADDQ(operand.I32(laneStep*scoreStride), out)
	a.SUBQ(operand.I32(laneStep), n)
	a.JZ(operand.LabelRef("scored"))
	a.times("lanes", n, laneStep, func() {
		body(false)
		a.ADDQ(operand.I32(laneStep*scoreStride), out)
	})
	a.Label("scored")
}

// prefetch prefetches n bytes from begin on; it overwrites begin.
func (a *attention) prefetch(begin, n reg.Register) {
	a.asked++
	end, label := a.copyOf(begin), fmt.Sprint("prefetch", a.asked)
	a.ADDQ(n, end)
	a.Label(label)
	a.PREFETCHT1(at(begin, 0))
	a.ADDQ(operand.U8(64), begin)
	a.CMPQ(begin, end)
	a.JL(operand.LabelRef(label))
}

func kind(half bool) (suffix string, size int) {
	if half {
		return "F16", 2
	}
	return "F32", 4
}

// scoreFloats takes two tiles at a time, or one in two narrow registers, and
// four lanes: eight sums in flight hide the latency of the additions.
func (a *attention) scoreFloats(half bool) {
	suffix, size := kind(half)
	a.function("score"+suffix, "(dst *float32, query *uint32, lanes, headDim int, data *byte, tiles *int, count int)",
		"%s computes dst[lane][16*tile+t] = sum_d query[lane][d]*key[tile][d][t].")
	dst, data, tiles, left := a.param("dst"), a.param("data"), a.param("tiles"), a.param("count")
	step := 1
	if a.wide {
		step = 2
	}
	a.times("tiles", left, step, func() {
		first, second, shift := a.next(data, tiles, 0), reg.Register(nil), 0
		if a.wide {
			second = a.next(data, tiles, 1)
		} else {
			second, shift = first, 8*size
		}
		values := a.param("headDim") // begin after as many keys, in bytes
		a.SHLQ(operand.U8(uint8(4+size/2)), values)
		q, out := a.param("query"), a.copyOf(dst)
		a.laneGroups(out, func(ask bool) {
			sums := a.zeros(2 * laneStep)
			k0, k1, d := a.copyOf(first), a.copyOf(second), a.param("headDim")
			a.times(fmt.Sprint("dims", ask), d, 1, func() {
				x, y := a.loadFloats(at(k0, 0), half), a.loadFloats(at(k1, shift), half)
				if ask {
					a.PREFETCHT1(operand.Mem{Base: k0, Index: values, Scale: 1})
				}
				if ask && a.wide {
					a.PREFETCHT1(operand.Mem{Base: k1, Index: values, Scale: 1})
				}
				for l := range laneStep {
					f := a.vec()
					a.VBROADCASTSS(at(q, 4*l), f)
					a.VFMADD231PS(f, x, sums[2*l])
					a.VFMADD231PS(f, y, sums[2*l+1])
				}
				a.ADDQ(operand.U8(16*size), k0)
				a.ADDQ(operand.U8(16*size), k1)
				a.ADDQ(operand.U8(4*laneStep), q)
			})
			for l := range laneStep {
				a.VMOVUPS(sums[2*l], at(out, l*scoreStride))
				a.VMOVUPS(sums[2*l+1], at(out, l*scoreStride+4*a.floats()))
			}
		})
		a.ADDQ(operand.U8(8*step), tiles)
		a.ADDQ(operand.I32(int32(step*tileFloats)), dst)
	})
	a.end()
}

// mixFloats keeps four lanes' sums over a run of elements in registers while it
// walks the positions: all of the run's additions come in order of position.
func (a *attention) mixFloats(half bool) {
	suffix, size := kind(half)
	a.function("mix"+suffix, "(out, weights *float32, headDim int, data *byte, tiles *int, n int, keys *byte, ahead *int)",
		"%s computes out[lane][d] += weights[lane][i]*value[i][d] for n positions i; n > 0.")
	out, weights, dim := a.param("out"), a.param("weights"), a.param("headDim")
	data := a.param("data")
	left, ahead, most := a.copyOf(dim), a.param("ahead"), 2
	if a.wide {
		most = 4
	}
	stride := a.copyOf(dim) // between positions, in bytes of 2 or 4 an element
	a.SHLQ(operand.U8(uint8(size/2)), stride)
	for run := most; run > 0; run /= 2 {
		begin, after := "run"+string(rune('0'+run)), "after"+string(rune('0'+run))
		a.Label(begin)
		a.CMPQ(left, operand.I32(int32(run*a.floats())))
		a.JL(operand.LabelRef(after))
		a.mixRun(begin, run, half, mixRegisters{out, weights, dim, data, stride, ahead})
		a.XORQ(ahead, ahead) // asked for once
		a.ADDQ(operand.I32(int32(run*a.floats()*4)), out)
		a.ADDQ(operand.I32(int32(run*a.floats()*size)), data)
		a.SUBQ(operand.I32(int32(run*a.floats())), left)
		a.JMP(operand.LabelRef(begin))
		a.Label(after)
	}
	a.end()
}

// mixRegisters are the registers that mixFloats and its runs share.
type mixRegisters struct{ out, weights, dim, data, stride, ahead reg.Register }

// mixRun adds up run registers of elements of each lane over all positions.
func (a *attention) mixRun(label string, run int, half bool, r mixRegisters) {
	_, size := kind(half)
	sums, row := make([]reg.VecVirtual, run*laneStep), a.copyOf(r.out)
	for i := range sums {
		sums[i] = a.vec()
		a.VMOVUPS(at(row, i%run*4*a.floats()), sums[i])
		if i%run == run-1 {
			a.LEAQ(operand.Mem{Base: row, Index: r.dim, Scale: 4}, row)
		}
	}
	p, tiles, n := a.copyOf(r.weights), a.param("tiles"), a.param("n")
	a.Label(label + "tiles")
	a.TESTQ(r.ahead, r.ahead)
	a.JZ(operand.LabelRef(label + "later"))
	size16 := a.copyOf(r.stride)
	a.SHLQ(operand.U8(4), size16)
	a.prefetch(a.next(a.param("keys"), r.ahead, 0), size16)
	a.ADDQ(operand.U8(8), r.ahead)
	a.Label(label + "later")
	v, turns := a.next(r.data, tiles, 0), a.GP64()
	a.MOVQ(operand.I32(16), turns)
	a.CMPQ(n, turns)
	a.CMOVQLT(n, turns)
	a.SUBQ(turns, n)
	a.times(label+"positions", turns, 1, func() {
		values := make([]reg.VecVirtual, run)
		for i := range values {
			values[i] = a.loadFloats(at(v, i*a.floats()*size), half)
		}
		for l := range laneStep {
			f := a.vec()
			a.VBROADCASTSS(at(p, l*scoreStride), f)
			for i, x := range values {
				a.VFMADD231PS(f, x, sums[l*run+i])
			}
		}
		a.ADDQ(r.stride, v)
		a.ADDQ(operand.U8(4), p)
	})
	a.ADDQ(operand.U8(8), tiles)
	a.TESTQ(n, n)
	a.JNZ(operand.LabelRef(label + "tiles"))
	row = a.copyOf(r.out)
	for i, s := range sums {
		a.VMOVUPS(s, at(row, i%run*4*a.floats()))
		if i%run == run-1 {
			a.LEAQ(operand.Mem{Base: row, Index: r.dim, Scale: 4}, row)
		}
	}
}

// halve needs no wide registers: it is over before they would pay.
func halve(l *lanes) {
	l.function("halve", "(dst *uint16, x *float32, n int)", "%s rounds n values to float16, a multiple of 8 above 0.")
	dst, x, n := l.Load(l.Param("dst"), l.GP64()), l.Load(l.Param("x"), l.GP64()), l.Load(l.Param("n"), l.GP64())
	l.Label("eight")
	v := l.YMM()
	l.VMOVUPS(at(x, 0), v)
	l.VCVTPS2PH(operand.U8(0), v, at(dst, 0)) // to nearest, ties to even
	l.ADDQ(operand.U8(32), x)
	l.ADDQ(operand.U8(16), dst)
	l.SUBQ(operand.U8(8), n)
	l.JNZ(operand.LabelRef("eight"))
	l.end()
}

// fetch asks for many lines at once, where reading them would wait for a few at a time.
func fetch(l *lanes) {
	l.function("fetch", "(x *float32, n, stride, rows int)",
		"%s prefetches rows of n bytes, each stride bytes behind the one before; n and rows are above 0.")
	x, n := l.Load(l.Param("x"), l.GP64()), l.Load(l.Param("n"), l.GP64())
	stride, rows := l.Load(l.Param("stride"), l.GP64()), l.Load(l.Param("rows"), l.GP64())
	p, end := l.GP64(), l.GP64()
	l.Label("row")
	l.MOVQ(x, p)
	l.LEAQ(operand.Mem{Base: x, Index: n, Scale: 1}, end)
	l.Label("line")
	l.PREFETCHT0(at(p, 0))
	l.ADDQ(operand.U8(64), p)
	l.CMPQ(p, end)
	l.JLT(operand.LabelRef("line"))
	l.ADDQ(stride, x)
	l.SUBQ(operand.U8(1), rows)
	l.JNZ(operand.LabelRef("row"))
	l.RET()
}

func (a *attention) blend() {
	a.function("blend", "(acc, x []float32, a, b float32)", "%s computes acc[i] = acc[i]*a + x[i]*b over acc.")
	acc, n, x := a.base("acc"), a.len("acc"), a.base("x")
	f, g := a.broadcast("a"), a.broadcast("b")
	a.walk(n, 1, false, func(p place) {
		v, t := a.load(acc, p), a.load(x, p)
		a.VMULPS(g, t, t)
		a.VFMADD213PS(t, f, v)
		a.store(v, acc, p)
	})
	a.end()
}

// quantize rounds 32 values to the nearest codes, ties to even.
func (a *attention) quantize() {
	a.function("quantize", "(codes *int8, x *float32, inverse float32)",
		"%s computes codes[i] = round(x[i]*inverse) for 32 values, within [-127,127].")
	codes, x, f := a.param("codes"), a.param("x"), a.broadcast("inverse")
	var v []reg.VecVirtual
	for i := 0; i < 32; i += a.floats() {
		r := a.vec()
		a.VMULPS(at(x, 4*i), f, r)
		a.VCVTPS2DQ(r, r)
		v = append(v, r)
	}
	if a.wide {
		low := a.words(minus(127))
		for i, r := range v {
			a.VPMAXSD(low, r, r)
			a.VPMOVSDB(r, at(codes, 16*i))
		}
	} else {
		a.VPACKSSDW(v[1], v[0], v[0])
		a.VPACKSSDW(v[3], v[2], v[2])
		a.VPACKSSWB(v[2], v[0], v[0])
		a.VPMAXSB(a.words(0x81818181), v[0], v[0])
		a.VPERMD(v[0], a.loadFloats(a.static("unpack", 0, 4, 1, 5, 2, 6, 3, 7), false), v[0])
		a.VMOVDQU(v[0], at(codes, 0))
	}
	a.end()
}

func minus(n int32) uint32 { return uint32(-n) }
