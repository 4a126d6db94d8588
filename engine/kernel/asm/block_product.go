package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of a panel. A single tile takes 1 to 8 rows: 8 sums, 8 integer totals
// and 8 float totals leave 8 of 32 registers for weights. More rows than that
// come in panels of 4 to 6 that meet two tiles at a time: a broadcast of
// activations then serves two products, and loads stop being what bounds them;
// float totals are in memory.
const (
	maxRows     = 8
	minPairRows = 4
	maxPairRows = 6
)

// nonlinear is the symbol of the sixteen values of IQ4_NL: plus 128 in the
// AVX-512 products.
const nonlinear = "nonlinear4"

var nonlinearValues = [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

const rodata = attr.RODATA | attr.NOPTR

// table16 defines a symbol of sixteen bytes.
func table16(ctx *build.Context, name string, values [16]int, offset int) {
	ctx.StaticGlobal(name)
	ctx.DataAttributes(rodata)
	for i, v := range values {
		ctx.AddDatum(i, operand.U8(uint8(int8(v+offset))))
	}
}

// productSignature: dst [rows][stride bytes] takes 16 outputs of each row; tile
// and panel are laid out as tile.go and panel.go say; blocks counts the blocks
// of one row; bias is 16 floats or nil; add is 1 to add to dst.
const productSignature = "func(dst *float32, stride int, tile *byte, panel *byte, blocks int, bias *float32, add int)"

// blockProducts writes the AVX-512 products of a tile of 16 weight rows with
// 1 to 8 activation rows. Lanes are weight rows, so no sum crosses lanes and
// each output's order of additions is the same whatever the number of rows.
func blockProducts(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 128)
	for _, k := range []struct {
		name      string
		tileBytes int // of a block
		body      func(*product)
	}{
		{"Q4K", 2368, (*product).q4k},
		{"Q5K", 2880, (*product).q5k},
		{"Q6K", 3360, (*product).q6k},
		{"Q80", 544, (*product).q80},
		{"Q40", 288, (*product).q40},
		{"Q50", 352, (*product).q50},
		{"IQ4NL", 288, (*product).iq4nl},
		{"F32", 64, (*product).f32},
		{"F16", 32, (*product).f16},
		{"BF16", 32, (*product).bf16},
	} {
		for rows := 1; rows <= maxRows; rows++ {
			newProduct(ctx, fmt.Sprintf("product%sx%dAVX512", k.name, rows), 1, rows, k.tileBytes).generate(k.body)
		}
		for rows := minPairRows; rows <= maxPairRows; rows++ {
			newProduct(ctx, fmt.Sprintf("product%sx%dPairAVX512", k.name, rows), 2, rows, k.tileBytes).generate(k.body)
		}
	}
}

// superblock lays out a panel's superblock, in bytes: see panel.go.
func (p *product) superblock() (bias16, sums32, scale, size int) {
	bias16 = 256 * p.rows
	sums32 = bias16 + 64*p.rows
	scale = sums32 + 16*p.rows
	return bias16, sums32, scale, scale + 4*p.rows
}

// minima subtracts the superblock's minima and adds it to the float totals:
// total += da * (d*unit*isum - dmin*msum).
func (p *product) minima(mins, scales, sums32, scale int, unit reg.VecVirtual) {
	p.zero(p.sum)
	for pair := range 4 {
		for t, w := range p.w {
			p.VPMOVZXBW(p.weight(p.tile, mins+32*pair, t), w)
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
		p.VCVTPH2PS(p.weight(p.tile, scales, t), d)
		p.VCVTPH2PS(p.weight(p.tile, scales+32, t), dmin)
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
	const scales, mins, d, size = 2048, 2176, 2304, 2368
	_, sums32, da, panelSize := p.superblock()
	low, high := p.constant(0x0f0f0f0f), p.constant(0xf0f0f0f0)
	p.sum, p.isum = p.zmms(), p.zmms()
	sixteenth := p.constant(0x3d800000)
	p.loop(p.blocks, func() {
		p.zero(p.isum)
		group := p.GP64()
		codes, factors, acts := p.GP64(), p.GP64(), p.GP64()
		p.MOVQ(operand.U32(4), group)
		p.MOVQ(p.tile, codes)
		p.LEAQ(at(p.tile, scales), factors)
		p.MOVQ(p.panel, acts)
		panel := p.panel
		p.panel = acts
		p.loop(group, func() {
			p.soon(codes, 512)
			p.soon(factors, 64)
			p.pace(4, 16)
			scale := p.ZMM()
			for half, mask := range []reg.VecVirtual{low, high} {
				p.zero(p.sum)
				for kq := range 8 {
					for t, w := range p.w {
						p.VPANDD(p.weight(codes, 64*kq, t), mask, w)
					}
					p.dot(8*half + kq)
				}
				for t := range p.tiles {
					p.VPMOVZXBD(p.weight(factors, 16*half, t), scale)
					if half == 0 {
						p.VPSLLD(operand.U8(4), scale, scale)
					}
					p.scaled(t, scale)
				}
			}
			p.ADDQ(operand.U32(512), codes)
			p.ADDQ(operand.U32(32), factors)
			p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
		})
		p.panel = panel
		p.minima(mins, d, sums32, da, sixteenth)
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// q5k: as q4k, then 8 x 64 bytes of fifth bits: bit kq of register j belongs to
// k-quad kq of sub-block j.
func (p *product) q5k() {
	const high, scales, mins, d, size = 2048, 2560, 2688, 2816, 2880
	_, sums32, da, panelSize := p.superblock()
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.sum, p.isum = p.zmms(), p.zmms()
	p.loop(p.blocks, func() {
		p.zero(p.isum)
		group := p.GP64()
		codes, bits, factors, acts := p.GP64(), p.GP64(), p.GP64(), p.GP64()
		p.MOVQ(operand.U32(4), group)
		p.MOVQ(p.tile, codes)
		p.LEAQ(at(p.tile, high), bits)
		p.LEAQ(at(p.tile, scales), factors)
		p.MOVQ(p.panel, acts)
		panel := p.panel
		p.panel = acts
		p.loop(group, func() {
			p.soon(codes, 512)
			p.soon(bits, 128)
			p.soon(factors, 64)
			p.pace(4, 16)
			scale := p.ZMM()
			for half := range 2 {
				p.zero(p.sum)
				for kq := range 8 {
					p.nibble(codes, 64*kq, half, low)
					p.high(bits, 64*half, 4-kq, fifth)
					p.dot(8*half + kq)
				}
				for t := range p.tiles {
					p.VPMOVZXBD(p.weight(factors, 16*half, t), scale)
					p.scaled(t, scale)
				}
			}
			p.ADDQ(operand.U32(512), codes)
			p.ADDQ(operand.U32(128), bits)
			p.ADDQ(operand.U32(32), factors)
			p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
		})
		p.panel = panel
		p.minima(mins, d, sums32, da, nil)
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// nibble loads low or high halves of 64 codes of each tile into p.w.
func (p *product) nibble(base reg.Register, disp, half int, low reg.VecVirtual) {
	for t, w := range p.w {
		if half == 0 {
			p.VPANDD(p.weight(base, disp, t), low, w)
			continue
		}
		p.VPSRLW(operand.U8(4), p.weight(base, disp, t), w)
		p.VPANDD(low, w, w)
	}
}

// high ors bits of a register, shifted left (or right where left is negative)
// and masked, into p.w.
func (p *product) high(base reg.Register, disp, left int, mask reg.VecVirtual) {
	v := p.ZMM()
	for t, w := range p.w {
		m := p.weight(base, disp, t)
		switch {
		case left > 0:
			p.VPSLLW(operand.U8(uint8(left)), m, v)
		case left < 0:
			p.VPSRLW(operand.U8(uint8(-left)), m, v)
		default:
			p.VMOVDQU32(m, v)
		}
		p.VPTERNLOGD(operand.U8(0xf8), mask, v, w)
	}
}

// q6k: 32 x 64 bytes of low nibbles, 16 x 64 bytes of pairs of high bits, 16 x
// 16 signed scales, d. Codes stand for 0..63; the panel's bias of each 16 values
// takes 32 off.
func (p *product) q6k() {
	const high, scales, d, size = 2048, 3072, 3328, 3360
	bias16, _, da, panelSize := p.superblock()
	low, pair := p.constant(0x0f0f0f0f), p.constant(0x30303030)
	p.sum, p.isum = p.zmms(), p.zmms()
	p.loop(p.blocks, func() {
		p.zero(p.isum)
		group := p.GP64()
		codes, bits, factors, acts, biases := p.GP64(), p.GP64(), p.GP64(), p.GP64(), p.GP64()
		p.MOVQ(operand.U32(4), group)
		p.MOVQ(p.tile, codes)
		p.LEAQ(at(p.tile, high), bits)
		p.LEAQ(at(p.tile, scales), factors)
		p.MOVQ(p.panel, acts)
		p.LEAQ(at(p.panel, bias16), biases)
		panel := p.panel
		p.panel = acts
		p.loop(group, func() {
			p.soon(codes, 512)
			p.soon(bits, 256)
			p.soon(factors, 64)
			p.pace(4, 16)
			scale := p.ZMM()
			for s := range 4 {
				p.offset(biases, s*p.rows*4, 0)
				for i := range 4 {
					p.nibble(codes, 64*(4*(s%2)+i), s/2, low)
					p.high(bits, 64*i, 4-2*s, pair)
					p.dot(4*s + i)
				}
				for t := range p.tiles {
					p.VPMOVSXBD(p.weight(factors, 16*s, t), scale)
					p.scaled(t, scale)
				}
			}
			p.ADDQ(operand.U32(512), codes)
			p.ADDQ(operand.U32(256), bits)
			p.ADDQ(operand.U32(64), factors)
			p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.panel = panel
		p.factor(d, da, p.isum)
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// factor adds integer sums times the block's float16 scales, at d, and the
// activations', at da, to the float totals.
func (p *product) factor(d, da int, sums [][]reg.VecVirtual) {
	scale := p.ZMM()
	for t := range p.tiles {
		p.VCVTPH2PS(p.weight(p.tile, d, t), scale)
		for r, s := range sums[t] {
			p.VCVTDQ2PS(s, s)
			p.VMULPS(scale, s, s)
			p.accumulate(t, r, da+4*r, s)
		}
	}
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

// lookup replaces the codes in p.w by what they stand for.
func (p *product) lookup(table reg.VecVirtual) {
	for _, w := range p.w {
		p.VPSHUFB(w, table, w)
	}
}

// floats is the loop over columns; a panel holds [column][row] floats. Of two
// tiles, too, all totals fit in registers.
func (p *product) floats(bytes int, load func(m operand.Mem, w reg.VecVirtual)) {
	if p.total == nil {
		p.total = p.zmms()
		p.zero(p.total)
	}
	p.loop(p.blocks, func() {
		p.soon(p.tile, bytes)
		p.pace(1, 1)
		p.fetch()
		for t, w := range p.w {
			load(p.weight(p.tile, 0, t), w)
		}
		for r := range p.rows {
			x := at(p.panel, 4*r)
			if p.tiles == 1 {
				p.VFMADD231PS_BCST(x, p.w[0], p.total[0][r])
				continue
			}
			p.VBROADCASTSS(x, p.b)
			for t, w := range p.w {
				p.VFMADD231PS(p.b, w, p.total[t][r])
			}
		}
		p.ADDQ(operand.U32(uint32(bytes)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
}

func (p *product) f32() {
	p.floats(64, func(m operand.Mem, w reg.VecVirtual) { p.VMOVUPS(m, w) })
}

func (p *product) f16() {
	p.floats(32, func(m operand.Mem, w reg.VecVirtual) { p.VCVTPH2PS(m, w) })
}

func (p *product) bf16() {
	p.floats(32, func(m operand.Mem, w reg.VecVirtual) {
		p.VPMOVZXWD(m, w)
		p.VPSLLD(operand.U8(16), w, w)
	})
}
