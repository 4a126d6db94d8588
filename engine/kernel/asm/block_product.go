package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// blockTypes are the types with blocks of 32 values.
var blockTypes = []weightType{
	{"Q80", 544, (*product).q80, (*product2).q80},
	{"Q40", 288, (*product).q40, (*product2).q40},
	{"Q41", 320, (*product).q41, (*product2).q41},
	{"Q50", 352, (*product).q50, (*product2).q50},
	{"Q51", 384, (*product).q51, (*product2).q51},
	{"IQ4NL", 288, (*product).iq4nl, (*product2).iq4nl},
	{"MXFP4", 272, (*product).mxfp4, (*product2).mxfp4},
}

func blockProducts(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 128)
	table16(ctx, e2m1, e2m1Values, 16)
	products(ctx, blockTypes)
}

func blockProductsAVX2(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 0)
	table16(ctx, e2m1, e2m1Values, 16)
	productsAVX2(ctx, blockTypes)
}

// block32 is the loop over blocks of 32 values with one scale each: codes bytes
// of codes, then 16 float16 scales. shift divides the panel's bias, -128 times
// the activations' sum, to fit the codes' offset.
func (p *product) block32(codes, shift int, body func()) {
	p.sum = p.zmms()
	p.loop(p.blocks, func() {
		p.soon(p.tile, codes)
		p.pace(1, 8)
		p.offset(p.panel, 32*p.rows, shift)
		body()
		p.factor(codes, 36*p.rows, p.sum)
		p.ADDQ(operand.U32(uint32(codes+32)), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}

// q80: 8 x 64 codes, 128 above their value.
func (p *product) q80() {
	p.block32(512, 0, func() {
		for kq := range 8 {
			for t, w := range p.w {
				p.VMOVDQU32(p.weight(p.tile, 64*kq, t), w)
			}
			p.dot(kq)
		}
	})
}

// q40: 4 x 64 bytes; low nibbles are k-quads 0 to 3, high ones 4 to 7; codes are
// 8 above their value.
func (p *product) q40() {
	low := p.constant(0x0f0f0f0f)
	p.block32(256, 4, func() {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.dot(kq)
		}
	})
}

// q50: as q40 with 64 bytes of fifth bits, bit kq for k-quad kq; codes are 16
// above their value.
func (p *product) q50() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.block32(320, 3, func() {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.high(p.tile, 256, 4-kq, fifth)
			p.dot(kq)
		}
	})
}

// iq4nl: as q40, the nibble being an index into sixteen values, here 128 above
// themselves.
func (p *product) iq4nl() {
	table := p.ZMM()
	p.VBROADCASTI32X4(operand.NewDataAddr(operand.NewStaticSymbol(nonlinear), 0), table)
	low := p.constant(0x0f0f0f0f)
	p.block32(256, 0, func() {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.lookup(table)
			p.dot(kq)
		}
	})
}

// minus128th is the float -1/128, which makes sums of the panel's biases.
const minus128th = 0xbc000000

// minimum32 is the loop over blocks of 32 values with a scale and a minimum
// each: codes bytes of codes, 16 float16 scales, 16 minima.
func (p *product) minimum32(codes int, body func(kq int)) {
	p.sum = p.zmms()
	unit := p.constant(minus128th)
	p.loop(p.blocks, func() {
		p.soon(p.tile, codes+64)
		p.pace(1, 8)
		p.zero(p.sum)
		for kq := range 8 {
			body(kq)
			p.dot(kq)
		}
		d, least, acts := p.ZMM(), p.ZMM(), p.ZMM()
		for t := range p.tiles {
			p.VCVTPH2PS(p.weight(p.tile, codes, t), d)
			p.VCVTPH2PS(p.weight(p.tile, codes+32, t), least)
			p.VMULPS(unit, least, least)
			for r, s := range p.sum[t] {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(d, s, s)
				p.VCVTDQ2PS_BCST(at(p.panel, 32*p.rows+4*r), acts)
				p.VFMADD231PS(acts, least, s)
				p.accumulate(t, r, 36*p.rows+4*r, s)
			}
		}
		p.ADDQ(operand.U32(uint32(codes+64)), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}

// q41: codes as q40's.
func (p *product) q41() {
	low := p.constant(0x0f0f0f0f)
	p.minimum32(256, func(kq int) { p.nibble(p.tile, 64*(kq%4), kq/4, low) })
}

// q51: codes as q50's.
func (p *product) q51() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.minimum32(320, func(kq int) {
		p.nibble(p.tile, 64*(kq%4), kq/4, low)
		p.high(p.tile, 256, 4-kq, fifth)
	})
}

// e2m1 is the symbol of the sixteen values of MXFP4, doubled, plus 16.
const e2m1 = "e2m1"

var e2m1Values = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// mxfp4: as iq4nl with values of its own, here 16 above themselves, and a byte of
// exponent for scale.
func (p *product) mxfp4() {
	const exponents, size = 256, 272
	table := p.ZMM()
	p.VBROADCASTI32X4(operand.NewDataAddr(operand.NewStaticSymbol(e2m1), 0), table)
	low := p.constant(0x0f0f0f0f)
	normal, small := p.constant(1<<23), p.constant(1<<21)
	p.sum = p.zmms()
	p.loop(p.blocks, func() {
		p.soon(p.tile, size)
		p.pace(1, 8)
		p.offset(p.panel, 32*p.rows, 3)
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.lookup(table)
			p.dot(kq)
		}
		scale, tiny := p.ZMM(), p.ZMM()
		for t := range p.tiles {
			// 2^(e-128) is (e-1)<<23 as bits, of the two smallest (e+1)<<21,
			// which is less than the other for all others.
			p.VPMOVZXBD(p.weight(p.tile, exponents, t), tiny)
			p.VPSLLD(operand.U8(23), tiny, scale)
			p.VPSUBD(normal, scale, scale)
			p.VPSLLD(operand.U8(21), tiny, tiny)
			p.VPADDD(small, tiny, tiny)
			p.VPMAXSD(tiny, scale, scale)
			for r, s := range p.sum[t] {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(scale, s, s)
				p.accumulate(t, r, 36*p.rows+4*r, s)
			}
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}
