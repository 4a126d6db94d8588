package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatTypes are multiplied as floats, column by column.
var floatTypes = []weightType{
	{"F32", 64, (*product).f32, (*product2).f32},
	{"F16", 32, (*product).f16, (*product2).f16},
	{"BF16", 32, (*product).bf16, (*product2).bf16},
}

func floatProducts(ctx *build.Context) { products(ctx, floatTypes) }

func floatProductsAVX2(ctx *build.Context) { productsAVX2(ctx, floatTypes) }

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

// floats is the loop over columns, both halves at a time.
func (p *product2) floats(bytes int, load func(half int)) {
	totals := [][]reg.VecVirtual{p.ymms(), p.ymms()}
	p.zero(totals[0])
	p.zero(totals[1])
	p.loop(p.blocks, func() {
		p.soon(p.tile, bytes)
		p.fetch()
		for half := range 2 {
			load(half)
			for r, t := range totals[half] {
				p.VBROADCASTSS(at(p.panel, 4*r), p.b)
				p.VFMADD231PS(p.b, p.w, t)
			}
		}
		p.ADDQ(operand.U32(uint32(bytes)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
	for half := range 2 {
		for r, t := range totals[half] {
			p.VMOVUPS(t, p.total(half, r))
		}
	}
}

func (p *product2) f32() {
	p.floats(64, func(half int) { p.VMOVUPS(at(p.tile, 32*half), p.w) })
}

func (p *product2) f16() {
	p.floats(32, func(half int) { p.VCVTPH2PS(at(p.tile, 16*half), p.w) })
}

func (p *product2) bf16() {
	p.floats(32, func(half int) {
		p.VPMOVZXWD(at(p.tile, 16*half), p.w)
		p.VPSLLD(operand.U8(16), p.w, p.w)
	})
}
