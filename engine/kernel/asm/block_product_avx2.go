package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// block32 is the loop over blocks of 32 values; body leaves their products in
// the integer totals. Where codes are unsigned, the panel's bias starts them,
// moved to fit the codes' offset.
func (p *product2) block32(unsigned bool, of pairsOf, body func(half int)) {
	p.isum = p.ymms()
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.factor)
		for half := range 2 {
			for r, s := range p.isum {
				if !unsigned {
					p.VPXOR(s, s, s)
					continue
				}
				p.VPBROADCASTD(at(p.panel, blockBiases*p.rows+4*r), s)
				p.VPSRAD(operand.U8(uint8(p.of.shift())), s, s)
			}
			p.large(0, of.ofHalf(half), nil)
			body(half)
			p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
			p.factor(half, blockScale*p.rows, p.w)
		}
		p.nextBlock()
	})
}

func (p *product2) q80() {
	flip := p.constant(0x80808080)
	p.ones = p.constant(0x00010001)
	of := p.bytes8()
	of.flip, of.signed = flip, true
	p.block32(false, of, func(half int) {
		for kq := range 8 {
			p.VPXOR(at(p.tile, 64*kq+32*half), flip, p.w)
			p.signed(kq)
		}
	})
}

func (p *product2) q40() {
	low := p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.block32(true, p.nibbles(), func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.dot(kq, kq == 0)
		}
		p.flush(p.ones)
	})
}

func (p *product2) q50() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.block32(true, p.fifths(), func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.high(p.tile, p.part.high+32*half, 4-kq, fifth)
			p.dot(kq, kq%4 == 0)
			if kq%4 == 3 { // 8 products of at most 31 x 127
				p.flush(p.ones)
			}
		}
	})
}

func (p *product2) iq4nl() {
	table, low := p.table16(nonlinear), p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	of := p.nibbles()
	of.table, of.signed = table, true
	p.block32(false, of, func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.VPSHUFB(p.w, table, p.w)
			p.signed(kq)
		}
	})
}

// minimum32 is the loop over blocks of 32 values with a scale and a minimum
// each; body leaves their products in the integer totals.
func (p *product2) minimum32(of pairsOf, body func(half int)) {
	p.isum = p.ymms()
	unit := p.constant(minus128th)
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		for half := range 2 {
			p.zero(p.isum)
			p.large(0, of.ofHalf(half), nil)
			body(half)
			p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
			p.VCVTPH2PS(at(p.tile, p.part.least+16*half), p.t)
			p.VMULPS(unit, p.t, p.t)
			for r, s := range p.isum {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(p.w, s, s)
				p.VPBROADCASTD(at(p.panel, blockBiases*p.rows+4*r), p.b)
				p.VCVTDQ2PS(p.b, p.b)
				p.VFMADD231PS(p.b, p.t, s)
				p.accumulate(half, r, blockScale*p.rows+4*r, s)
			}
		}
		p.nextBlock()
	})
}

func (p *product2) q41() {
	low := p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.minimum32(p.nibbles(), func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.dot(kq, kq == 0)
		}
		p.flush(p.ones)
	})
}

func (p *product2) q51() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.minimum32(p.fifths(), func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.high(p.tile, p.part.high+32*half, 4-kq, fifth)
			p.dot(kq, kq%4 == 0)
			if kq%4 == 3 { // 8 products of at most 31 x 127
				p.flush(p.ones)
			}
		}
	})
}

func (p *product2) mxfp4() {
	table, low := p.table16(e2m1), p.constant(0x0f0f0f0f)
	normal, small := p.constant(1<<23), p.constant(1<<21)
	p.ones = p.constant(0x00010001)
	p.sum, p.isum = p.ymms(), p.ymms()
	of := p.nibbles()
	of.table = table
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		for half := range 2 {
			for r, s := range p.isum {
				p.VPBROADCASTD(at(p.panel, blockBiases*p.rows+4*r), s)
				p.VPSRAD(operand.U8(uint8(p.of.shift())), s, s)
			}
			p.large(0, of.ofHalf(half), nil)
			for kq := range 8 {
				p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
				p.VPSHUFB(p.w, table, p.w)
				p.dot(kq, kq%4 == 0)
				if kq%4 == 3 { // 8 products of at most 28 x 127
					p.flush(p.ones)
				}
			}
			p.VPMOVZXBD(at(p.tile, p.part.scales+8*half), p.t)
			p.VPSLLD(operand.U8(23), p.t, p.w)
			p.VPSUBD(normal, p.w, p.w)
			p.VPSLLD(operand.U8(21), p.t, p.t)
			p.VPADDD(small, p.t, p.t)
			p.VPMAXSD(p.t, p.w, p.w)
			p.factor(half, blockScale*p.rows, p.w)
		}
		p.nextBlock()
	})
}
