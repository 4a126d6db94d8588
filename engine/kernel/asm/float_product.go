package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func floatProducts(ctx *build.Context) { products(ctx, ofKind(kindFloat)) }

func floatProductsAVX2(ctx *build.Context) { productsAVX2(ctx, ofKind(kindFloat)) }

// floats is the loop over columns; a panel holds [column][row] floats. All
// totals fit in registers, those of four tiles, too.
func (p *product) floats(load func(m operand.Mem, w reg.VecVirtual)) {
	if p.total == nil {
		p.total = p.zmms()
		p.zero(p.total)
	}
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		p.prefetchNextTiles(1, 1)
		p.prefetchLine()
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
		p.ADDQ(operand.U32(uint32(p.part.size)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
}

func (p *product) f32() {
	p.floats(func(m operand.Mem, w reg.VecVirtual) { p.VMOVUPS(m, w) })
}

func (p *product) f16() {
	p.floats(func(m operand.Mem, w reg.VecVirtual) { p.VCVTPH2PS(m, w) })
}

func (p *product) bf16() {
	p.floats(func(m operand.Mem, w reg.VecVirtual) {
		p.VPMOVZXWD(m, w)
		p.VPSLLD(operand.U8(16), w, w)
	})
}

// floats is the loop over columns, both halves at a time.
func (p *product2) floats(load func(half int)) {
	totals := [][]reg.VecVirtual{p.ymms(), p.ymms()}
	p.zero(totals[0])
	p.zero(totals[1])
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		p.prefetchLine()
		for half := range 2 {
			load(half)
			for r, t := range totals[half] {
				p.VBROADCASTSS(at(p.panel, 4*r), p.b)
				p.VFMADD231PS(p.b, p.w, t)
			}
		}
		p.ADDQ(operand.U32(uint32(p.part.size)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
	for half := range 2 {
		for r, t := range totals[half] {
			p.VMOVUPS(t, p.total(half, r))
		}
	}
}

func (p *product2) f32() {
	p.floats(func(half int) { p.VMOVUPS(at(p.tile, 32*half), p.w) })
}

func (p *product2) f16() {
	p.floats(func(half int) { p.VCVTPH2PS(at(p.tile, 16*half), p.w) })
}

func (p *product2) bf16() {
	p.floats(func(half int) {
		p.VPMOVZXWD(at(p.tile, 16*half), p.w)
		p.VPSLLD(operand.U8(16), p.w, p.w)
	})
}
