package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func superProducts(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 128)
	wordTables(ctx)
	products(ctx, ofKind(kindSuper))
}

func superProductsAVX2(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 0)
	wordTables(ctx)
	productsAVX2(ctx, ofKind(kindSuper))
}

// superblock lays out a panel's superblock, in bytes: see panel.go.
func (f *frame) superblock() (bias16, sums32, scale, size int) {
	return superBiases * f.rows, superSums * f.rows, superScale * f.rows, superBytes * f.rows
}

// superblocks is the loop over superblocks of a tile.
func (p *product) superblocks(body func()) {
	_, _, _, panelSize := p.superblock()
	p.sum, p.isum = p.zmms(), p.zmms()
	p.loop(p.blocks, func() {
		p.zero(p.isum)
		body()
		p.ADDQ(operand.U32(uint32(p.part.size)), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// fours runs body for the four groups of 64 columns of a superblock, with
// pointers into the tile, at offsets, each advanced by its step.
func (p *product) fours(offsets, steps []int, body func(at []reg.Register)) {
	group := p.AllocLocal(8) // there is no register left for it
	p.MOVQ(operand.U32(4), group)
	pointers := make([]reg.Register, len(offsets))
	for i, o := range offsets {
		pointers[i] = p.GP64()
		p.LEAQ(at(p.tile, o), pointers[i])
	}
	p.loop(group, func() {
		if p.farAhead() {
			p.stream(4, func() { body(pointers) })
		} else {
			for i, s := range steps {
				p.prefetchAhead(pointers[i], s)
			}
			p.prefetchNextTiles(4, 16)
			body(pointers)
		}
		for i, s := range steps {
			p.ADDQ(operand.U32(uint32(s)), pointers[i])
		}
		p.nextGroup()
	})
	p.SUBQ(operand.U32(uint32(superValues*p.rows)), p.panel)
}

// nextGroup goes on to the next 64 columns of a panel.
func (f *frame) nextGroup() {
	f.ADDQ(operand.U32(uint32(64*f.rows)), f.panel)
	f.ADDQ(operand.U32(uint32(128*f.rows)), f.large)
	f.ADDQ(operand.U32(4), f.masks)
}

// minima subtracts the superblock's minima and adds it to the float totals:
// total += da * (d*unit*isum - dmin*msum).
func (p *product) minima(unit reg.VecVirtual) {
	_, sums32, scale, _ := p.superblock()
	p.zero(p.sum)
	for pair := range 4 {
		for t, w := range p.w {
			p.VPMOVZXBW(p.weight(p.tile, p.part.minima+32*pair, t), w)
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
	d, dmin := p.ZMM(), p.ZMM()
	for t := range p.tiles {
		p.VCVTPH2PS(p.weight(p.tile, p.part.factor, t), d)
		p.VCVTPH2PS(p.weight(p.tile, p.part.least, t), dmin)
		if unit != nil {
			p.VMULPS(unit, d, d)
		}
		for r, s := range p.sum[t] {
			v := p.isum[t][r]
			p.VCVTDQ2PS(v, v)
			p.VCVTDQ2PS(s, s)
			p.VMULPS(d, v, v)
			p.VFNMADD231PS(s, dmin, v)
			p.accumulate(t, r, scale+4*r, v)
		}
	}
}

// q4k: 32 x 64 bytes of codes, 8 x 16 scales, 4 x 16 pairs of minima, d, dmin.
// High nibbles are used where they stand, sixteen times too large, and the
// scales of low nibbles are multiplied by sixteen instead.
func (p *product) q4k() {
	low, high := p.constant(0x0f0f0f0f), p.constant(0xf0f0f0f0)
	sixteenth := p.constant(0x3d800000)
	p.superblocks(func() {
		p.fours([]int{0, p.part.scales}, []int{512, 32}, func(at []reg.Register) {
			scale := p.ZMM()
			for half, mask := range []reg.VecVirtual{low, high} {
				p.zero(p.sum)
				p.large(half, pairsOf{base: at[0], quads: 8, mask: []int{0x0f, 0xf0}[half]})
				for kq := range 8 {
					for t, w := range p.w {
						p.VPANDD(p.weight(at[0], 64*kq, t), mask, w)
					}
					p.dot(8*half + kq)
				}
				for t := range p.tiles {
					p.VPMOVZXBD(p.weight(at[1], 16*half, t), scale)
					if half == 0 {
						p.VPSLLD(operand.U8(4), scale, scale)
					}
					p.scaled(t, scale)
				}
			}
		})
		p.minima(sixteenth)
	})
}

// q5k: as q4k, then 8 x 64 bytes of fifth bits: bit kq of register j belongs to
// k-quad kq of sub-block j.
func (p *product) q5k() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.superblocks(func() {
		p.fours([]int{0, p.part.high, p.part.scales}, []int{512, 128, 32}, func(at []reg.Register) {
			scale := p.ZMM()
			for half := range 2 {
				p.zero(p.sum)
				p.large(half, pairsOf{
					base: at[0], quads: 8, shift: 4 * half, mask: 0x0f, high: highBits{base: at[1], disp: 64 * half, mask: 1, left: 4},
				})
				for kq := range 8 {
					p.nibble(at[0], 64*kq, half, low)
					p.high(at[1], 64*half, 4-kq, fifth)
					p.dot(8*half + kq)
				}
				for t := range p.tiles {
					p.VPMOVZXBD(p.weight(at[2], 16*half, t), scale)
					p.scaled(t, scale)
				}
			}
		})
		p.minima(nil)
	})
}

// q6k: 4 groups of 8 x 64 bytes of low nibbles, 4 x 64 bytes of pairs of high bits
// and 4 x 16 signed scales, then d. Codes stand for 0..63; the panel's bias of each
// 16 values takes 32 off.
func (p *product) q6k() {
	bias16, _, da, _ := p.superblock()
	low, pair := p.constant(0x0f0f0f0f), p.constant(0x30303030)
	p.superblocks(func() {
		biases := p.GP64()
		p.LEAQ(at(p.panel, bias16), biases)
		p.fours([]int{0}, []int{p.part.group}, func(at []reg.Register) {
			scale := p.ZMM()
			for s := range 4 {
				p.offset(biases, s*p.rows*4)
				p.large(s/2, pairsOf{
					base: at[0], disp: 256 * (s % 2), quads: 4, second: s%2 == 1, shift: 4 * (s / 2), mask: 0x0f,
					high: highBits{base: at[0], disp: p.part.high, quads: true, shift: 2 * s, mask: 3, left: 4},
				})
				for i := range 4 {
					p.nibble(at[0], 64*(4*(s%2)+i), s/2, low)
					p.high(at[0], p.part.high+64*i, 4-2*s, pair)
					p.dot(4*s + i)
				}
				for t := range p.tiles {
					p.VPMOVSXBD(p.weight(at[0], p.part.scales+16*s, t), scale)
					p.scaled(t, scale)
				}
			}
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.factor(da, p.isum)
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
	bias16, _, da, _ := p.superblock()
	low, third := p.constant(0x03030303), p.constant(0x04040404)
	p.superblocks(func() {
		biases := p.GP64()
		p.LEAQ(at(p.panel, bias16), biases)
		p.fours([]int{0, p.part.high, p.part.scales}, []int{256, 128, 64}, func(at []reg.Register) {
			scale := p.ZMM()
			for s := range 4 {
				p.offset(biases, s*p.rows*4)
				p.large(s/2, pairsOf{
					base: at[0], quads: 4, second: s%2 == 1, shift: 2 * s, mask: 3,
					high: highBits{base: at[1], disp: 64 * (s / 2), mask: 1, left: 2},
				})
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
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.factor(da, p.isum)
	})
}

// q2k: 16 x 64 bytes of pairs of bits, 16 x 16 bytes of a scale and a minimum, d,
// dmin.
func (p *product) q2k() {
	low, low4 := p.constant(0x03030303), p.constant(0x0f)
	p.superblocks(func() {
		p.fours([]int{0, p.part.scales}, []int{256, 64}, func(at []reg.Register) {
			scale := p.ZMM()
			for s := range 4 {
				p.zero(p.sum)
				p.large(s/2, pairsOf{base: at[0], quads: 4, second: s%2 == 1, shift: 2 * s, mask: 3})
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
		p.minimaQ2K()
	})
}

// minimaQ2K subtracts the minima and adds the superblock to the float totals:
// total += da * (d*isum + dmin*msum), where msum has the minima times the biases
// over 32, negative sums of activations. As words these are a product's low half
// and its sign, which meets the zero above a minimum.
func (p *product) minimaQ2K() {
	bias16, _, da, _ := p.superblock()
	p.zero(p.sum)
	acts := p.ZMM()
	for j := range 16 {
		for t, w := range p.w {
			p.VPMOVZXBD(p.weight(p.tile, p.part.scales+16*j, t), w)
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
		p.VCVTPH2PS(p.weight(p.tile, p.part.factor, t), d)
		p.VCVTPH2PS(p.weight(p.tile, p.part.least, t), dmin)
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
	_, sums32, da, _ := p.superblock()
	table := p.ZMM()
	p.VBROADCASTI32X4(operand.NewDataAddr(operand.NewStaticSymbol(nonlinear), 0), table)
	low := p.constant(0x0f0f0f0f)
	p.superblocks(func() {
		p.fours([]int{0, p.part.scales}, []int{512, 32}, func(at []reg.Register) {
			scale := p.ZMM()
			for sub := range 2 {
				p.zero(p.sum)
				p.large(sub, pairsOf{base: at[0], disp: 256 * sub, quads: 8, halves: true, mask: 0x0f, table: table})
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
		p.excess(sums32)
		p.factor(da, p.isum)
	})
}

// excess subtracts 128 times scales times sums of activations, both in pairs,
// from the integer totals.
func (p *product) excess(sums32 int) {
	p.zero(p.sum)
	for pair := range 4 {
		for t, w := range p.w {
			p.VPMOVSXBW(p.weight(p.tile, p.part.scales+32*pair, t), w)
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
