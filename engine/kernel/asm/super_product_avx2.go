package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superblocks is the loop over superblocks of a tile, of which
// body adds each half.
func (p *product2) superblocks(body func(half int)) {
	_, _, _, panelSize := p.superblock()
	p.isum = p.ymms()
	p.loop(p.blocks, func() {
		for half := range 2 {
			p.zero(p.isum)
			body(half)
			if half == 0 { // of which fours has gone through all
				p.SUBQ(operand.U32(uint32(2*superValues*p.rows)), p.frame.large)
				p.SUBQ(operand.U32(superValues/16), p.masks)
			}
		}
		p.ADDQ(operand.U32(uint32(p.part.size)), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// fours runs body for the four groups of 64 columns of a superblock, with
// pointers into the tile, at offsets, each advanced by its step.
func (p *product2) fours(half int, offsets, steps []int, body func(at []reg.Register)) {
	group := p.GP64()
	p.MOVQ(operand.U32(4), group)
	pointers := make([]reg.Register, len(offsets))
	for i, o := range offsets {
		pointers[i] = p.GP64()
		p.LEAQ(at(p.tile, o), pointers[i])
	}
	p.loop(group, func() {
		for i, s := range steps {
			if half == 0 {
				p.prefetchAhead(pointers[i], s)
			}
		}
		body(pointers)
		for i, s := range steps {
			p.ADDQ(operand.U32(uint32(s)), pointers[i])
		}
		p.nextGroup()
	})
	p.SUBQ(operand.U32(uint32(superValues*p.rows)), p.panel)
}

// minima is as in the AVX-512 products.
func (p *product2) minima(half int) {
	_, sums32, scale, _ := p.superblock()
	for r := range p.rows {
		for pair := range 4 {
			p.VPMOVZXBW(at(p.tile, p.part.minima+32*pair+16*half), p.w)
			p.VPBROADCASTD(at(p.panel, sums32+(pair*p.rows+r)*4), p.b)
			if pair == 0 {
				p.VPMADDWD(p.b, p.w, p.sum[r])
				continue
			}
			p.VPMADDWD(p.b, p.w, p.b)
			p.VPADDD(p.b, p.sum[r], p.sum[r])
		}
	}
	p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
	p.VCVTPH2PS(at(p.tile, p.part.least+16*half), p.t)
	for r, s := range p.sum {
		v := p.isum[r]
		p.VCVTDQ2PS(v, v)
		p.VCVTDQ2PS(s, s)
		p.VMULPS(p.w, v, v)
		p.VFNMADD231PS(s, p.t, v)
		p.accumulate(half, r, scale+4*r, v)
	}
}

func (p *product2) q4k() {
	low := p.constant(0x0f0f0f0f)
	p.sum = p.ymms()
	p.superblocks(func(half int) {
		p.fours(half, []int{32 * half, p.part.scales + 8*half}, []int{512, 32}, func(at2 []reg.Register) {
			for sub := range 2 {
				p.large(sub, pairsOf{base: at2[0], quads: 8, shift: 4 * sub, mask: 0x0f}, func() { p.VPMOVZXBD(at(at2[1], 16*sub), p.t) })
				for kq := range 8 {
					p.nibble(at2[0], 64*kq, sub, low)
					p.dot(8*sub+kq, kq == 0)
				}
				p.VPMOVZXBD(at(at2[1], 16*sub), p.w)
				p.twice(p.w)
				p.flush(p.w)
			}
		})
		p.minima(half)
	})
}

func (p *product2) q5k() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	scale := p.YMM()
	p.sum = p.ymms()
	p.superblocks(func(half int) {
		p.fours(half, []int{32 * half, p.part.high + 32*half, p.part.scales + 8*half}, []int{512, 128, 32}, func(at2 []reg.Register) {
			for sub := range 2 {
				p.VPMOVZXBD(at(at2[2], 16*sub), scale)
				p.large(sub, pairsOf{
					base: at2[0], quads: 8, shift: 4 * sub, mask: 0x0f, high: highBits{base: at2[1], disp: 64 * sub, mask: 1, left: 4},
				}, func() { p.VMOVDQU(scale, p.t) })
				p.twice(scale)
				for kq := range 8 {
					p.nibble(at2[0], 64*kq, sub, low)
					p.high(at2[1], 64*sub, 4-kq, fifth)
					p.dot(8*sub+kq, kq%4 == 0)
					if kq%4 == 3 { // 8 products of at most 31 x 127
						p.flush(scale)
					}
				}
			}
		})
		p.minima(half)
	})
}

func (p *product2) q6k() {
	bias16, _, da, _ := p.superblock()
	low, pair := p.constant(0x0f0f0f0f), p.constant(0x30303030)
	scale := p.YMM()
	p.sum = p.ymms()
	p.superblocks(func(half int) {
		biases := p.GP64()
		p.LEAQ(at(p.panel, bias16), biases)
		p.fours(half, []int{0}, []int{p.part.group}, func(at2 []reg.Register) {
			for s := range 4 {
				p.VPMOVSXBD(at(at2[0], p.part.scales+16*s+8*half), scale)
				for r, v := range p.isum {
					p.VPBROADCASTD(at(biases, (s*p.rows+r)*4), p.b)
					p.VPMULLD(scale, p.b, p.b)
					p.VPADDD(p.b, v, v)
				}
				codes := pairsOf{
					base: at2[0], disp: 256 * (s % 2), quads: 4, second: s%2 == 1, shift: 4 * (s / 2), mask: 0x0f,
					high: highBits{base: at2[0], disp: p.part.high, quads: true, shift: 2 * s, mask: 3, left: 4},
				}
				p.large(s/2, codes.ofHalf(half), func() { p.VMOVDQU(scale, p.t) })
				p.twice(scale)
				for i := range 4 {
					p.nibble(at2[0], 64*(4*(s%2)+i)+32*half, s/2, low)
					p.high(at2[0], p.part.high+64*i+32*half, 4-2*s, pair)
					p.dot(4*s+i, i%2 == 0)
					if i%2 == 1 { // 4 products of at most 63 x 127
						p.flush(scale)
					}
				}
			}
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
		p.factor(half, da, p.w)
	})
}

// pairs loads pairs s of four of 32 bytes into p.w.
func (p *product2) pairs(base reg.Register, disp, s int, low reg.VecVirtual) {
	if s == 0 {
		p.VPAND(at(base, disp), low, p.w)
		return
	}
	p.VMOVDQU(at(base, disp), p.w)
	p.VPSRLW(operand.U8(uint8(2*s)), p.w, p.w)
	p.VPAND(low, p.w, p.w)
}

func (p *product2) q3k() {
	bias16, _, da, _ := p.superblock()
	low, third := p.constant(0x03030303), p.constant(0x04040404)
	scale := p.YMM()
	p.sum = p.ymms()
	p.superblocks(func(half int) {
		biases := p.GP64()
		p.LEAQ(at(p.panel, bias16), biases)
		p.fours(half, []int{32 * half, p.part.high + 32*half, p.part.scales + 8*half}, []int{256, 128, 64}, func(at2 []reg.Register) {
			for s := range 4 {
				p.VPMOVSXBD(at(at2[2], 16*s), scale)
				for r, v := range p.isum {
					p.VPBROADCASTD(at(biases, (s*p.rows+r)*4), p.b)
					p.VPSRAD(operand.U8(uint8(p.of.shift())), p.b, p.b)
					p.VPMULLD(scale, p.b, p.b)
					p.VPADDD(p.b, v, v)
				}
				p.large(s/2, pairsOf{
					base: at2[0], quads: 4, second: s%2 == 1, shift: 2 * s, mask: 3,
					high: highBits{base: at2[1], disp: 64 * (s / 2), mask: 1, left: 2},
				}, func() { p.VMOVDQU(scale, p.t) })
				p.twice(scale)
				for i := range 4 { // 8 products of at most 7 x 127
					kq := 4*s + i
					p.pairs(at2[0], 64*i, s, low)
					p.high(at2[1], 64*(kq/8), 2-kq%8, third)
					p.dot(kq, i == 0)
				}
				p.flush(scale)
			}
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
		p.factor(half, da, p.w)
	})
}

func (p *product2) q2k() {
	low, low4 := p.constant(0x03030303), p.constant(0x0f)
	p.sum = p.ymms()
	p.superblocks(func(half int) {
		p.fours(half, []int{32 * half, p.part.scales + 8*half}, []int{256, 64}, func(at2 []reg.Register) {
			for s := range 4 {
				p.large(s/2, pairsOf{base: at2[0], quads: 4, second: s%2 == 1, shift: 2 * s, mask: 3}, func() {
					p.VPMOVZXBD(at(at2[1], 16*s), p.t)
					p.VPAND(low4, p.t, p.t)
				})
				for i := range 4 { // 8 products of at most 3 x 127
					p.pairs(at2[0], 64*i, s, low)
					p.dot(4*s+i, i == 0)
				}
				p.VPMOVZXBD(at(at2[1], 16*s), p.w)
				p.VPAND(low4, p.w, p.w)
				p.twice(p.w)
				p.flush(p.w)
			}
		})
		p.minimaQ2K(half)
	})
}

// minimaQ2K is as in the AVX-512 products.
func (p *product2) minimaQ2K(half int) {
	bias16, _, da, _ := p.superblock()
	p.zero(p.sum)
	for j := range 16 {
		p.VPMOVZXBD(at(p.tile, p.part.scales+16*j+8*half), p.w)
		p.VPSRLD(operand.U8(4), p.w, p.w)
		for r, s := range p.sum {
			p.VPBROADCASTD(at(p.panel, bias16+4*(j*p.rows+r)), p.b)
			p.VPSRAD(operand.U8(5), p.b, p.b)
			p.VPMADDWD(p.b, p.w, p.b)
			p.VPADDD(p.b, s, s)
		}
	}
	p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
	p.VCVTPH2PS(at(p.tile, p.part.least+16*half), p.t)
	for r, s := range p.sum {
		v := p.isum[r]
		p.VCVTDQ2PS(v, v)
		p.VCVTDQ2PS(s, s)
		p.VMULPS(p.w, v, v)
		p.VFMADD231PS(s, p.t, v)
		p.accumulate(half, r, da+4*r, v)
	}
}

// iq4xs has the scales where other products of signed weights have ones: of each
// 32 values' pairs of products, at most 2 x 127 x 127.
func (p *product2) iq4xs() {
	_, _, da, _ := p.superblock()
	table, low := p.table16(nonlinear), p.constant(0x0f0f0f0f)
	p.ones = p.YMM()
	p.superblocks(func(half int) {
		p.fours(half, []int{32 * half, p.part.scales + 16*half}, []int{512, 32}, func(at2 []reg.Register) {
			for sub := range 2 {
				p.VPMOVSXBW(at(at2[1], 0), p.ones)
				if sub == 1 {
					p.VPSRLD(operand.U8(16), p.ones, p.ones)
				}
				p.twice(p.ones)
				p.large(sub, pairsOf{base: at2[0], disp: 256 * sub, quads: 8, halves: true, mask: 0x0f, table: table, signed: true}, func() {
					p.VPSRAD(operand.U8(16), p.ones, p.t)
				})
				for kq := range 8 {
					p.nibble(at2[0], 64*(4*sub+kq%4), kq/4, low)
					p.VPSHUFB(p.w, table, p.w)
					p.signed(8*sub + kq)
				}
			}
		})
		p.VCVTPH2PS(at(p.tile, p.part.factor+16*half), p.w)
		p.factor(half, da, p.w)
	})
}
