package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// e2m1 is the symbol of the sixteen values of MXFP4, doubled, plus 16.
const e2m1 = "e2m1"

var e2m1Values = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// minus128th is the float -1/128, which makes sums of the panel's biases.
const minus128th = 0xbc000000

// moreProducts writes the AVX-512 products of the types that files hold less
// often.
func moreProducts(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 128)
	table16(ctx, e2m1, e2m1Values, 16)
	for _, k := range []struct {
		name      string
		tileBytes int // of a block
		body      func(*product)
	}{
		{"Q3K", 1824, (*product).q3k},
		{"Q41", 320, (*product).q41},
		{"Q51", 384, (*product).q51},
		{"IQ4XS", 2208, (*product).iq4xs},
		{"Q2K", 1344, (*product).q2k},
		{"MXFP4", 272, (*product).mxfp4},
	} {
		for rows := 1; rows <= maxRows; rows++ {
			newProduct(ctx, fmt.Sprintf("product%sx%dAVX512", k.name, rows), 1, rows, k.tileBytes).generate(k.body)
		}
		for rows := minPairRows; rows <= maxPairRows; rows++ {
			newProduct(ctx, fmt.Sprintf("product%sx%dPairAVX512", k.name, rows), 2, rows, k.tileBytes).generate(k.body)
		}
	}
}

// fours runs body for the four groups of 64 columns of a superblock, with
// pointers into the tile, at offsets, each advanced by its step, and with one to
// the biases of the group's activations.
func (p *product) fours(offsets, steps []int, body func(at []reg.Register, biases reg.Register)) {
	bias16, _, _, _ := p.superblock()
	group, acts, biases := p.GP64(), p.GP64(), p.GP64()
	p.MOVQ(operand.U32(4), group)
	pointers := make([]reg.Register, len(offsets))
	for i, o := range offsets {
		pointers[i] = p.GP64()
		p.LEAQ(at(p.tile, o), pointers[i])
	}
	p.MOVQ(p.panel, acts)
	p.LEAQ(at(p.panel, bias16), biases)
	panel := p.panel
	p.panel = acts
	p.loop(group, func() {
		for i, s := range steps {
			p.soon(pointers[i], s)
		}
		p.pace(4, 16)
		body(pointers, biases)
		for i, s := range steps {
			p.ADDQ(operand.U32(uint32(s)), pointers[i])
		}
		p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
		p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
	})
	p.panel = panel
}

// superblocks is the loop over superblocks of size bytes of a tile.
func (p *product) superblocks(size int, body func()) {
	_, _, _, panelSize := p.superblock()
	p.sum, p.isum = p.zmms(), p.zmms()
	p.loop(p.blocks, func() {
		p.zero(p.isum)
		body()
		p.ADDQ(operand.U32(uint32(size)), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// pairs loads pairs s of four of 64 bytes of each tile into p.w.
func (p *product) pairs(base reg.Register, disp, s int, low reg.VecVirtual) {
	for t, w := range p.w {
		if s == 0 {
			p.VPANDD(p.weight(base, disp, t), low, w)
			continue
		}
		p.VPSRLW(operand.U8(uint8(2*s)), p.weight(base, disp, t), w)
		p.VPANDD(low, w, w)
	}
}

// q3k: 16 x 64 bytes of pairs of low bits, 8 x 64 bytes of third bits, 16 x 16
// signed scales, d. Codes stand for 0..7; the panel's bias of each 16 values, an
// eighth of it, takes 4 off.
func (p *product) q3k() {
	const high, scales, d, size = 1024, 1536, 1792, 1824
	_, _, da, _ := p.superblock()
	low, third := p.constant(0x03030303), p.constant(0x04040404)
	p.superblocks(size, func() {
		p.fours([]int{0, high, scales}, []int{256, 128, 64}, func(at []reg.Register, biases reg.Register) {
			scale := p.ZMM()
			for s := range 4 {
				p.offset(biases, s*p.rows*4, 3)
				for i := range 4 {
					kq := 4*s + i
					p.pairs(at[0], 64*i, s, low)
					p.high(at[1], 64*(kq/8), 2-kq%8, third)
					p.dot(kq)
				}
				for t := range p.tiles {
					p.VPMOVSXBD(p.weight(at[2], 16*s, t), scale)
					p.scaled(t, scale)
				}
			}
		})
		p.factor(d, da, p.isum)
	})
}

// q2k: 16 x 64 bytes of pairs of bits, 16 x 16 bytes of a scale and a minimum, d,
// dmin.
func (p *product) q2k() {
	const scales, d, size = 1024, 1280, 1344
	low, low4 := p.constant(0x03030303), p.constant(0x0f)
	p.superblocks(size, func() {
		p.fours([]int{0, scales}, []int{256, 64}, func(at []reg.Register, _ reg.Register) {
			scale := p.ZMM()
			for s := range 4 {
				p.zero(p.sum)
				for i := range 4 {
					p.pairs(at[0], 64*i, s, low)
					p.dot(4*s + i)
				}
				for t := range p.tiles {
					p.VPMOVZXBD(p.weight(at[1], 16*s, t), scale)
					p.VPANDD(low4, scale, scale)
					p.scaled(t, scale)
				}
			}
		})
		p.minimaQ2K(scales, d)
	})
}

// minimaQ2K subtracts the minima and adds the superblock to the float totals:
// total += da * (d*isum + dmin*msum), where msum has the minima times the biases
// over 32, negative sums of activations. As words these are a product's low half
// and its sign, which meets the zero above a minimum.
func (p *product) minimaQ2K(scales, factors int) {
	bias16, _, da, _ := p.superblock()
	p.zero(p.sum)
	acts := p.ZMM()
	for j := range 16 {
		for t, w := range p.w {
			p.VPMOVZXBD(p.weight(p.tile, scales+16*j, t), w)
			p.VPSRLD(operand.U8(4), w, w)
		}
		for r := range p.rows {
			p.VPSRAD_BCST(operand.U8(5), at(p.panel, bias16+4*(j*p.rows+r)), acts)
			for t, w := range p.w {
				p.VPDPWSSD(acts, w, p.sum[t][r])
			}
		}
	}
	d, dmin := p.ZMM(), p.ZMM()
	for t := range p.tiles {
		p.VCVTPH2PS(p.weight(p.tile, factors, t), d)
		p.VCVTPH2PS(p.weight(p.tile, factors+32, t), dmin)
		for r, s := range p.sum[t] {
			v := p.isum[t][r]
			p.VCVTDQ2PS(v, v)
			p.VCVTDQ2PS(s, s)
			p.VMULPS(d, v, v)
			p.VFMADD231PS(s, dmin, v)
			p.accumulate(t, r, da+4*r, v)
		}
	}
}

// iq4xs: 32 x 64 bytes, of each 32 columns as iq4nl; 4 x 16 pairs of signed
// scales, d. Values are 128 too large, which the sums of activations take off
// once for a superblock.
func (p *product) iq4xs() {
	const scales, d, size = 2048, 2176, 2208
	_, sums32, da, _ := p.superblock()
	table := p.ZMM()
	p.VBROADCASTI32X4(operand.NewDataAddr(operand.NewStaticSymbol(nonlinear), 0), table)
	low := p.constant(0x0f0f0f0f)
	p.superblocks(size, func() {
		p.fours([]int{0, scales}, []int{512, 32}, func(at []reg.Register, _ reg.Register) {
			scale := p.ZMM()
			for sub := range 2 {
				p.zero(p.sum)
				for kq := range 8 {
					p.nibble(at[0], 64*(4*sub+kq%4), kq/4, low)
					p.lookup(table)
					p.dot(8*sub + kq)
				}
				for t := range p.tiles {
					p.VPMOVSXBW(p.weight(at[1], 0, t), scale)
					if sub == 0 {
						p.VPSLLD(operand.U8(16), scale, scale)
					}
					p.VPSRAD(operand.U8(16), scale, scale)
					p.scaled(t, scale)
				}
			}
		})
		p.excess(scales, sums32)
		p.factor(d, da, p.isum)
	})
}

// excess subtracts 128 times scales times sums of activations, both in pairs,
// from the integer totals.
func (p *product) excess(scales, sums32 int) {
	p.zero(p.sum)
	for pair := range 4 {
		for t, w := range p.w {
			p.VPMOVSXBW(p.weight(p.tile, scales+32*pair, t), w)
		}
		for r := range p.rows {
			acts := at(p.panel, sums32+(pair*p.rows+r)*4)
			if p.tiles == 1 {
				p.VPDPWSSD_BCST(acts, p.w[0], p.sum[0][r])
				continue
			}
			p.VPBROADCASTD(acts, p.b)
			for t, w := range p.w {
				p.VPDPWSSD(p.b, w, p.sum[t][r])
			}
		}
	}
	for t, rows := range p.sum {
		for r, s := range rows {
			p.VPSLLD(operand.U8(7), s, s)
			p.VPSUBD(s, p.isum[t][r], p.isum[t][r])
		}
	}
}

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
