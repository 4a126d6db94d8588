package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

func blockProducts(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 128)
	table16(ctx, e2m1, e2m1Values, 16)
	wordTables(ctx)
	products(ctx, ofKind(kindBlock))
}

func blockProductsAVX2(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 0)
	table16(ctx, e2m1, e2m1Values, 16)
	wordTables(ctx)
	productsAVX2(ctx, ofKind(kindBlock))
}

// block32 is the loop over blocks of 32 values with one float16 scale each, which
// lie after all codes; of says where the codes are.
func (p *product) block32(of pairsOf, body func()) {
	p.sum = p.zmms()
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.factor)
		p.prefetchNextTiles(1, 8)
		p.offset(p.panel, blockBiases*p.rows)
		p.large(0, of)
		body()
		p.factor(blockScale*p.rows, p.sum)
		p.nextBlock()
	})
}

// nextBlock goes on to the next 32 columns.
func (f *frame) nextBlock() {
	f.ADDQ(operand.U32(uint32(f.part.size)), f.tile)
	f.ADDQ(operand.U32(uint32(blockBytes*f.rows)), f.panel)
	f.ADDQ(operand.U32(uint32(64*f.rows)), f.large)
	f.ADDQ(operand.U32(2), f.masks)
}

// bytes8 says where q80's codes are, nibbles where q40's are, and fifths where q50's.
func (f *frame) bytes8() pairsOf  { return pairsOf{base: f.tile, quads: 8, mask: 0xff} }
func (f *frame) nibbles() pairsOf { return pairsOf{base: f.tile, quads: 8, halves: true, mask: 0x0f} }
func (f *frame) fifths() pairsOf {
	of := f.nibbles()
	of.high = highBits{base: f.tile, disp: f.part.high, mask: 1, left: 4}
	return of
}

// q80: 8 x 64 codes, 128 above their value.
func (p *product) q80() {
	p.block32(p.bytes8(), func() {
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
	p.block32(p.nibbles(), func() {
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
	p.block32(p.fifths(), func() {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.high(p.tile, p.part.high, 4-kq, fifth)
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
	of := p.nibbles()
	of.table = table
	p.block32(of, func() {
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
// each, both float16.
func (p *product) minimum32(of pairsOf, body func(kq int)) {
	p.sum = p.zmms()
	unit := p.constant(minus128th)
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		p.prefetchNextTiles(1, 8)
		p.zero(p.sum)
		p.large(0, of)
		for kq := range 8 {
			body(kq)
			p.dot(kq)
		}
		d, least, acts := p.ZMM(), p.ZMM(), p.ZMM()
		for t := range p.tiles {
			p.VCVTPH2PS(p.weight(p.tile, p.part.factor, t), d)
			p.VCVTPH2PS(p.weight(p.tile, p.part.least, t), least)
			p.VMULPS(unit, least, least)
			for r, s := range p.sum[t] {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(d, s, s)
				p.VCVTDQ2PS_BCST(at(p.panel, blockBiases*p.rows+4*r), acts)
				p.VFMADD231PS(acts, least, s)
				p.accumulate(t, r, blockScale*p.rows+4*r, s)
			}
		}
		p.nextBlock()
	})
}

// q41: codes as q40's.
func (p *product) q41() {
	low := p.constant(0x0f0f0f0f)
	p.minimum32(p.nibbles(), func(kq int) { p.nibble(p.tile, 64*(kq%4), kq/4, low) })
}

// q51: codes as q50's.
func (p *product) q51() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.minimum32(p.fifths(), func(kq int) {
		p.nibble(p.tile, 64*(kq%4), kq/4, low)
		p.high(p.tile, p.part.high, 4-kq, fifth)
	})
}

// e2m1 is the symbol of the sixteen values of MXFP4, doubled, plus 16.
const e2m1 = "e2m1"

var e2m1Values = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// mxfp4: as iq4nl with values of its own, here 16 above themselves, and a byte of
// exponent for scale.
func (p *product) mxfp4() {
	table := p.ZMM()
	p.VBROADCASTI32X4(operand.NewDataAddr(operand.NewStaticSymbol(e2m1), 0), table)
	low := p.constant(0x0f0f0f0f)
	normal, small := p.constant(1<<23), p.constant(1<<21)
	of := p.nibbles()
	of.table = table
	p.sum = p.zmms()
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		p.prefetchNextTiles(1, 8)
		p.offset(p.panel, blockBiases*p.rows)
		p.large(0, of)
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4), kq/4, low)
			p.lookup(table)
			p.dot(kq)
		}
		scale, tiny := p.ZMM(), p.ZMM()
		for t := range p.tiles {
			// 2^(e-128) is (e-1)<<23 as bits, of the two smallest (e+1)<<21,
			// which is less than the other for all others.
			p.VPMOVZXBD(p.weight(p.tile, p.part.scales, t), tiny)
			p.VPSLLD(operand.U8(23), tiny, scale)
			p.VPSUBD(normal, scale, scale)
			p.VPSLLD(operand.U8(21), tiny, tiny)
			p.VPADDD(small, tiny, tiny)
			p.VPMAXSD(tiny, scale, scale)
			for r, s := range p.sum[t] {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(scale, s, s)
				p.accumulate(t, r, blockScale*p.rows+4*r, s)
			}
		}
		p.nextBlock()
	})
}
