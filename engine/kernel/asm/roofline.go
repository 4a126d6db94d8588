package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rooflines writes the loops that measure what a machine can do at most. They
// do as little as possible beside what they measure: enough independent
// accumulators to hide the latency, and no work on what was loaded.
func rooflines(c *build.Context) {
	for _, r := range []roof{{c, "512", 64}, {c, "256", 32}} {
		r.read()
		r.int8()
		r.float()
	}
	roof{c, "", 0}.chain()
}

// roof writes loops for registers of so many bytes, whose names end in bits.
type roof struct {
	*build.Context
	bits  string
	bytes int
}

// begin opens a function whose last argument, n, is its rounds.
func (r roof) begin(name, signature, doc string) {
	r.Function(name + r.bits)
	r.Attributes(attr.NOSPLIT)
	r.SignatureExpr(signature)
	r.Pragma("noescape")
	r.Doc(name + r.bits + " " + doc + " n is at least 1.")
}

func (r roof) vector() reg.VecVirtual {
	if r.bytes == 64 {
		return r.ZMM()
	}
	return r.YMM()
}

func (r roof) vectors(n int) []reg.VecVirtual {
	all := make([]reg.VecVirtual, n)
	for i := range all {
		all[i] = r.vector()
	}
	return all
}

// sums are n registers of zeros.
func (r roof) sums(n int) []reg.VecVirtual {
	all := r.vectors(n)
	for _, v := range all {
		if r.bytes == 64 {
			r.VPXORD(v, v, v)
		} else {
			r.VPXOR(v, v, v)
		}
	}
	return all
}

func (r roof) load(from operand.Mem, to reg.VecVirtual) {
	if r.bytes == 64 {
		r.VMOVDQU64(from, to)
	} else {
		r.VMOVDQU(from, to)
	}
}

// factors loads the two vectors that the argument data points at.
func (r roof) factors() (a, b reg.VecVirtual) {
	data := r.Load(r.Param("data"), r.GP64())
	a, b = r.vector(), r.vector()
	r.load(operand.Mem{Base: data}, a)
	r.load(operand.Mem{Base: data, Disp: 64}, b)
	return a, b
}

// repeat runs body as often as the argument n says.
func (r roof) repeat(body func()) {
	n := r.Load(r.Param("n"), r.GP64())
	r.Label("loop")
	body()
	r.DECQ(n)
	r.JNZ(operand.LabelRef("loop"))
}

// end leaves the vector registers as other code expects them.
func (r roof) end() {
	r.VZEROUPPER()
	r.RET()
}

// read loads lines of 256 bytes.
func (r roof) read() {
	r.begin("read", "func(p *byte, n int)", "loads n times 256 bytes from p on;")
	p, into := r.Load(r.Param("p"), r.GP64()), r.vectors(4)
	r.repeat(func() {
		for i := range 256 / r.bytes {
			r.load(operand.Mem{Base: p, Disp: i * r.bytes}, into[i%len(into)])
		}
		r.ADDQ(operand.U32(256), p)
	})
	r.end()
}

// int8 multiplies and adds bytes as the matrix products do: VPDPBUSD in
// AVX-512, three instructions in AVX2. 16 sums of 16 x 4 pairs, or 8 of 8 x 4.
func (r roof) int8() {
	r.begin("int8Products", "func(data *[2][64]byte, n int)", "multiplies and adds pairs of bytes in n rounds;")
	a, b := r.factors()
	if r.bytes == 64 {
		sums := r.sums(16)
		r.repeat(func() {
			for _, s := range sums {
				r.VPDPBUSD(b, a, s)
			}
		})
		r.end()
		return
	}
	ones, sums, pairs := r.vector(), r.sums(8), r.vectors(4)
	r.VPCMPEQW(ones, ones, ones)
	r.VPABSW(ones, ones)
	r.repeat(func() {
		for i, s := range sums {
			t := pairs[i%len(pairs)]
			r.VPMADDUBSW(b, a, t)
			r.VPMADDWD(ones, t, t)
			r.VPADDD(t, s, s)
		}
	})
	r.end()
}

// float does fused multiply-adds: 12 sums of 16 pairs, or of 8.
func (r roof) float() {
	r.begin("floatProducts", "func(data *[2][64]byte, n int)", "multiplies and adds pairs of float32 in n rounds;")
	a, b := r.factors()
	sums := r.sums(12)
	r.repeat(func() {
		for _, s := range sums {
			r.VFMADD231PS(b, a, s)
		}
	})
	r.end()
}

// chain is additions each of which waits for the one before: one a cycle on
// every processor.
func (r roof) chain() {
	r.begin("chain", "func(n int) int", "does 32 dependent additions in n rounds;")
	sum, step := r.GP64(), r.GP64()
	r.XORQ(sum, sum)
	r.MOVQ(operand.U32(3), step)
	r.repeat(func() {
		for range 32 {
			r.ADDQ(step, sum)
		}
	})
	r.Store(sum, r.ReturnIndex(0))
	r.RET()
}
