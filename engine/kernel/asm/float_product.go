package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func floatProducts(ctx *build.Context) { products(ctx, ofKind(kindFloat)) }

func floatProductsAVX2(ctx *build.Context) { productsAVX2(ctx, ofKind(kindFloat)) }

// foldColumns is how many columns of F32 weights are added up before their sums go to totals in memory: so the error of a long
// sum grows with the root of a sixteenth of its columns.
const foldColumns = 16

// foldHere runs body behind each foldColumns columns, counted from the last one, behind which it runs in any case.
func (f *frame) foldHere(body func()) {
	left := f.GP64()
	f.LEAQ(operand.Mem{Base: f.blocks, Disp: -1}, left)
	f.TESTQ(operand.U32(foldColumns-1), left)
	f.labels++
	on := fmt.Sprintf("on%d", f.labels)
	f.JNZ(operand.LabelRef(on))
	body()
	f.Label(on)
}

// floats is the loop over columns; a panel holds [column][row] floats. All
// sums fit in registers, those of four tiles, too.
func (p *product) floats(folds bool, load func(m operand.Mem, w reg.VecVirtual)) {
	if p.total == nil {
		p.total = p.zmms()
		p.zero(p.total)
	}
	if folds {
		p.inMemory()
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
		if folds {
			p.foldHere(p.fold)
		}
	})
	if folds {
		p.each(func(m operand.Mem, z reg.VecVirtual) { p.VMOVUPS(m, z) })
	}
}

// each calls do for the memory and the register of each tile and row.
func (p *product) each(do func(m operand.Mem, z reg.VecVirtual)) {
	for t, rows := range p.total {
		for r, z := range rows {
			do(p.memory(t, r), z)
		}
	}
}

// fold adds the sums to the totals in memory and begins them again.
func (p *product) fold() {
	p.each(func(m operand.Mem, z reg.VecVirtual) {
		p.VADDPS(m, z, z)
		p.VMOVUPS(z, m)
		p.VPXORD(z, z, z)
	})
}

func (p *product) f32() {
	p.floats(true, func(m operand.Mem, w reg.VecVirtual) { p.VMOVUPS(m, w) })
}

func (p *product) f16() {
	p.floats(false, func(m operand.Mem, w reg.VecVirtual) { p.VCVTPH2PS(m, w) })
}

func (p *product) bf16() {
	p.floats(false, func(m operand.Mem, w reg.VecVirtual) {
		p.VPMOVZXWD(m, w)
		p.VPSLLD(operand.U8(16), w, w)
	})
}

// floats is the loop over columns, both halves at a time.
func (p *product2) floats(folds bool, load func(half int)) {
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
		if folds {
			p.foldHere(func() { p.fold(totals) })
		}
	})
	if folds {
		return
	}
	for half := range 2 {
		for r, t := range totals[half] {
			p.VMOVUPS(t, p.total(half, r))
		}
	}
}

// fold adds the sums to the totals and begins them again.
func (p *product2) fold(sums [][]reg.VecVirtual) {
	for half := range 2 {
		for r, t := range sums[half] {
			p.VADDPS(p.total(half, r), t, t)
			p.VMOVUPS(t, p.total(half, r))
			p.VPXOR(t, t, t)
		}
	}
}

func (p *product2) f32() {
	p.floats(true, func(half int) { p.VMOVUPS(at(p.tile, 32*half), p.w) })
}

func (p *product2) f16() {
	p.floats(false, func(half int) { p.VCVTPH2PS(at(p.tile, 16*half), p.w) })
}

func (p *product2) bf16() {
	p.floats(false, func(half int) {
		p.VPMOVZXWD(at(p.tile, 16*half), p.w)
		p.VPSLLD(operand.U8(16), p.w, p.w)
	})
}
