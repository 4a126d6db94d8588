package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxRows is the most activation rows that one call multiplies: 8 sums, 8
// integer totals and 8 float totals leave 8 of 32 registers for weights.
const maxRows = 8

// nonlinear is the symbol of the sixteen values of IQ4_NL, plus 128.
const nonlinear = "nonlinear4"

// productSignature: dst [rows][stride bytes] takes 16 outputs of each row; tile
// and panel are laid out as tile.go and panel.go say; blocks counts the blocks
// of one row; bias is 16 floats or nil; add is 1 to add to dst.
const productSignature = "func(dst *float32, stride int, tile *byte, panel *byte, blocks int, bias *float32, add int)"

// blockProducts writes the AVX-512 products of a tile of 16 weight rows with
// 1 to 8 activation rows. Lanes are weight rows, so no sum crosses lanes and
// each output's order of additions is the same whatever the number of rows.
func blockProducts(ctx *build.Context) {
	ctx.StaticGlobal(nonlinear)
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, v := range []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113} {
		ctx.AddDatum(i, operand.U8(uint8(v+128)))
	}
	for rows := 1; rows <= maxRows; rows++ {
		for _, k := range []struct {
			name string
			body func(*product)
		}{
			{"Q4K", (*product).q4k},
			{"Q5K", (*product).q5k},
			{"Q6K", (*product).q6k},
			{"Q80", (*product).q80},
			{"Q40", (*product).q40},
			{"Q50", (*product).q50},
			{"IQ4NL", (*product).iq4nl},
			{"F32", (*product).f32},
			{"F16", (*product).f16},
			{"BF16", (*product).bf16},
		} {
			newProduct(ctx, fmt.Sprintf("product%sx%dAVX512", k.name, rows), rows).generate(k.body)
		}
	}
}

// product is one kernel in the making.
type product struct {
	*build.Context
	rows        int
	tile, panel reg.Register
	blocks      reg.Register
	total       []reg.VecVirtual // float totals per row
	sum         []reg.VecVirtual // integer sums of a sub-block per row
	isum        []reg.VecVirtual // integer totals of a superblock per row
	w, t        reg.VecVirtual
	labels      int
}

func newProduct(ctx *build.Context, name string, rows int) *product {
	ctx.Function(name)
	ctx.Pragma("noescape")
	ctx.SignatureExpr(productSignature)
	return &product{Context: ctx, rows: rows}
}

func (p *product) zmms() []reg.VecVirtual {
	all := make([]reg.VecVirtual, p.rows)
	for i := range all {
		all[i] = p.ZMM()
	}
	return all
}

// generate wraps a block's body, which advances tile and panel, in the loop
// over blocks and the store.
func (p *product) generate(body func(*product)) {
	p.tile = p.Load(p.Param("tile"), p.GP64())
	p.panel = p.Load(p.Param("panel"), p.GP64())
	p.blocks = p.Load(p.Param("blocks"), p.GP64())
	p.total = p.zmms()
	for _, t := range p.total {
		p.VPXORD(t, t, t)
	}
	p.w = p.ZMM()
	body(p)
	p.store()
	p.VZEROUPPER()
	p.RET()
}

// loop repeats body while counter, decremented after each turn, is above zero.
func (p *product) loop(counter reg.Register, body func()) {
	p.labels++
	label := fmt.Sprintf("loop%d", p.labels)
	p.Label(label)
	body()
	p.DECQ(counter)
	p.JNZ(operand.LabelRef(label))
}

// constant is a register of 16 equal dwords.
func (p *product) constant(v uint32) reg.VecVirtual {
	g, z := p.GP32(), p.ZMM()
	p.MOVL(operand.U32(v), g)
	p.VPBROADCASTD(g, z)
	return z
}

func (p *product) store() {
	dst := p.Load(p.Param("dst"), p.GP64())
	stride := p.Load(p.Param("stride"), p.GP64())
	bias := p.Load(p.Param("bias"), p.GP64())
	add := p.Load(p.Param("add"), p.GP64())
	p.TESTQ(bias, bias)
	p.JZ(operand.LabelRef("unbiased"))
	for _, t := range p.total {
		p.VADDPS(at(bias, 0), t, t)
	}
	p.Label("unbiased")
	p.TESTQ(add, add)
	p.JZ(operand.LabelRef("plain"))
	row := p.GP64()
	p.MOVQ(dst, row)
	for _, t := range p.total {
		p.VADDPS(at(row, 0), t, t)
		p.ADDQ(stride, row)
	}
	p.Label("plain")
	for _, t := range p.total {
		p.VMOVUPS(t, at(dst, 0))
		p.ADDQ(stride, dst)
	}
}

func at(base reg.Register, disp int) operand.Mem {
	return operand.Mem{Base: base, Disp: disp}
}

// dot adds four products per lane and row: weights of k-quad kq, in p.w, with
// the rows' activations at panel byte offset base.
func (p *product) dot(base, kq int) {
	for r, s := range p.sum {
		p.VPDPBUSD_BCST(at(p.panel, base+(kq*p.rows+r)*4), p.w, s)
	}
}

func (p *product) zero(regs []reg.VecVirtual) {
	for _, z := range regs {
		p.VPXORD(z, z, z)
	}
}

// scaled adds sum times a sub-block's scales to the integer totals.
func (p *product) scaled(scale reg.VecVirtual) {
	for r, s := range p.sum {
		p.VPMULLD(scale, s, s)
		p.VPADDD(s, p.isum[r], p.isum[r])
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
		p.VPMOVZXBW(at(p.tile, mins+32*pair), p.w)
		for r, s := range p.sum {
			p.VPDPWSSD_BCST(at(p.panel, sums32+(pair*p.rows+r)*4), p.w, s)
		}
	}
	d, dmin := p.ZMM(), p.ZMM()
	p.VCVTPH2PS(at(p.tile, scales), d)
	p.VCVTPH2PS(at(p.tile, scales+32), dmin)
	if unit != nil {
		p.VMULPS(unit, d, d)
	}
	for r, s := range p.sum {
		p.VCVTDQ2PS(p.isum[r], p.isum[r])
		p.VCVTDQ2PS(s, s)
		p.VMULPS(d, p.isum[r], p.isum[r])
		p.VFNMADD231PS(s, dmin, p.isum[r])
		p.VFMADD231PS_BCST(at(p.panel, scale+4*r), p.isum[r], p.total[r])
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
			scale := p.ZMM()
			for half, mask := range []reg.VecVirtual{low, high} {
				p.zero(p.sum)
				for kq := range 8 {
					p.VPANDD(at(codes, 64*kq), mask, p.w)
					p.dot(0, 8*half+kq)
				}
				p.VPMOVZXBD(at(factors, 16*half), scale)
				if half == 0 {
					p.VPSLLD(operand.U8(4), scale, scale)
				}
				p.scaled(scale)
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
			scale := p.ZMM()
			for half := range 2 {
				p.zero(p.sum)
				for kq := range 8 {
					p.nibble(codes, 64*kq, half, low)
					p.high(bits, 64*half, 4-kq, fifth)
					p.dot(0, 8*half+kq)
				}
				p.VPMOVZXBD(at(factors, 16*half), scale)
				p.scaled(scale)
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

// nibble loads low or high halves of 64 codes into p.w.
func (p *product) nibble(base reg.Register, disp, half int, low reg.VecVirtual) {
	if half == 0 {
		p.VPANDD(at(base, disp), low, p.w)
		return
	}
	p.VPSRLW(operand.U8(4), at(base, disp), p.w)
	p.VPANDD(low, p.w, p.w)
}

// high ors bits of a register, shifted left (or right where left is negative)
// and masked, into p.w.
func (p *product) high(base reg.Register, disp, left int, mask reg.VecVirtual) {
	t := p.ZMM()
	switch {
	case left > 0:
		p.VPSLLW(operand.U8(uint8(left)), at(base, disp), t)
	case left < 0:
		p.VPSRLW(operand.U8(uint8(-left)), at(base, disp), t)
	default:
		p.VMOVDQU32(at(base, disp), t)
	}
	p.VPTERNLOGD(operand.U8(0xf8), mask, t, p.w)
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
			scale := p.ZMM()
			for s := range 4 {
				for r, sum := range p.sum {
					p.VPBROADCASTD(at(biases, (s*p.rows+r)*4), sum)
				}
				for i := range 4 {
					p.nibble(codes, 64*(4*(s%2)+i), s/2, low)
					p.high(bits, 64*i, 4-2*s, pair)
					p.dot(0, 4*s+i)
				}
				p.VPMOVSXBD(at(factors, 16*s), scale)
				p.scaled(scale)
			}
			p.ADDQ(operand.U32(512), codes)
			p.ADDQ(operand.U32(256), bits)
			p.ADDQ(operand.U32(64), factors)
			p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.panel = panel
		dw := p.ZMM()
		p.VCVTPH2PS(at(p.tile, d), dw)
		for r, s := range p.isum {
			p.VCVTDQ2PS(s, s)
			p.VMULPS(dw, s, s)
			p.VFMADD231PS_BCST(at(p.panel, da+4*r), s, p.total[r])
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// block32 is the loop over blocks of 32 values with one scale each: codes bytes
// of codes, then 16 float16 scales. shift divides the panel's bias, -128 times
// the activations' sum, to fit the codes' offset.
func (p *product) block32(codes, shift int, body func()) {
	p.sum = p.zmms()
	bias, da := 32*p.rows, 36*p.rows
	p.loop(p.blocks, func() {
		for r, s := range p.sum {
			if shift == 0 {
				p.VPBROADCASTD(at(p.panel, bias+4*r), s)
			} else {
				p.VPSRAD_BCST(operand.U8(uint8(shift)), at(p.panel, bias+4*r), s)
			}
		}
		body()
		d := p.ZMM()
		p.VCVTPH2PS(at(p.tile, codes), d)
		for r, s := range p.sum {
			p.VCVTDQ2PS(s, s)
			p.VMULPS(d, s, s)
			p.VFMADD231PS_BCST(at(p.panel, da+4*r), s, p.total[r])
		}
		p.ADDQ(operand.U32(uint32(codes+32)), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}

// q80: 8 x 64 codes, 128 above their value.
func (p *product) q80() {
	p.block32(512, 0, func() {
		for kq := range 8 {
			p.VMOVDQU32(at(p.tile, 64*kq), p.w)
			p.dot(0, kq)
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
			p.dot(0, kq)
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
			p.dot(0, kq)
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
			p.VPSHUFB(p.w, table, p.w)
			p.dot(0, kq)
		}
	})
}

// floats is the loop over columns; a panel holds [column][row] floats.
func (p *product) floats(bytes int, load func()) {
	p.loop(p.blocks, func() {
		load()
		for r, t := range p.total {
			p.VFMADD231PS_BCST(at(p.panel, 4*r), p.w, t)
		}
		p.ADDQ(operand.U32(uint32(bytes)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
}

func (p *product) f32() {
	p.floats(64, func() { p.VMOVUPS(at(p.tile, 0), p.w) })
}

func (p *product) f16() {
	p.floats(32, func() { p.VCVTPH2PS(at(p.tile, 0), p.w) })
}

func (p *product) bf16() {
	p.floats(32, func() {
		p.VPMOVZXWD(at(p.tile, 0), p.w)
		p.VPSLLD(operand.U8(16), p.w, p.w)
	})
}
