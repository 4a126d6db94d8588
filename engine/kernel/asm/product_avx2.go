package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxRowsAVX2: 4 sums of 16 bits and 4 integer totals leave 8 of 16 registers.
const maxRowsAVX2 = 4

// productsAVX2 writes the same products for AVX2 without VNNI: unsigned
// times signed bytes become sums of pairs in 16 bits, as many as cannot
// overflow are added up, and a multiplication by the scales, twice in each
// dword, widens them. Each block is done for its first eight rows, then for the
// others. Integers are exact and floats in the order of the AVX-512 products, so
// both levels give the same bits.
func productsAVX2(ctx *build.Context, types []weightType) {
	for _, t := range types {
		for rows := 1; rows <= maxRowsAVX2; rows++ {
			p := &product2{frame: newFrame(ctx, t.product256(rows), t, rows)}
			p.generate(t.avx2)
		}
	}
}

// product2 is one kernel in the making.
type product2 struct {
	frame                    // prefetchAhead is called in the first half of a block, for both
	totals  reg.Register     // float totals [half][row], in memory
	sum     []reg.VecVirtual // sums of pairs, 16 bits
	isum    []reg.VecVirtual // integer totals
	w, b, t reg.VecVirtual
	ones    reg.VecVirtual
}

func (p *product2) ymms() []reg.VecVirtual {
	all := make([]reg.VecVirtual, p.rows)
	for i := range all {
		all[i] = p.YMM()
	}
	return all
}

func (p *product2) generate(body func(*product2)) {
	p.w, p.b, p.t = p.YMM(), p.YMM(), p.YMM()
	local := p.AllocLocal(64*p.rows + 32)
	p.panels(func() {
		p.totals = p.GP64()
		p.LEAQ(local.Offset(31), p.totals)
		p.ANDQ(operand.I8(-32), p.totals)
		p.VPXOR(p.t, p.t, p.t)
		for i := range 2 * p.rows {
			p.VMOVUPS(p.t, at(p.totals, 32*i))
		}
		body(p)
		p.store()
	})
}

func (p *product2) store() {
	dst := p.Load(p.Param("dst"), p.GP64())
	stride := p.Load(p.Param("stride"), p.GP64())
	bias := p.Load(p.Param("bias"), p.GP64())
	add := p.Load(p.Param("add"), p.GP64())
	for r := range p.rows {
		for half := range 2 {
			label := func(s string) string { return fmt.Sprintf("%s%d_%d", s, r, half) }
			p.VMOVUPS(p.total(half, r), p.t)
			p.TESTQ(bias, bias)
			p.JZ(operand.LabelRef(label("unbiased")))
			p.VADDPS(at(bias, 32*half), p.t, p.t)
			p.Label(label("unbiased"))
			p.TESTQ(add, add)
			p.JZ(operand.LabelRef(label("plain")))
			p.VADDPS(at(dst, 32*half), p.t, p.t)
			p.Label(label("plain"))
			p.VMOVUPS(p.t, at(dst, 32*half))
		}
		p.ADDQ(stride, dst)
	}
	p.Store(dst, p.Param("dst"))
}

func (p *product2) total(half, r int) operand.Mem { return at(p.totals, 32*(half*p.rows+r)) }

func (p *product2) constant(v uint32) reg.VecVirtual {
	g, y := p.GP32(), p.YMM()
	p.MOVL(operand.U32(v), g)
	p.VMOVD(g, y.AsX())
	p.VPBROADCASTD(y.AsX(), y)
	return y
}

func (p *product2) zero(regs []reg.VecVirtual) {
	for _, y := range regs {
		p.VPXOR(y, y, y)
	}
}

// dot adds sums of pairs of k-quad kq, weights being in p.w; the first of a run
// overwrites.
func (p *product2) dot(kq int, first bool) {
	p.prefetchLine()
	for r, s := range p.sum {
		p.VPBROADCASTD(at(p.panel, (kq*p.rows+r)*4), p.b)
		if first {
			p.VPMADDUBSW(p.b, p.w, s)
			continue
		}
		p.VPMADDUBSW(p.b, p.w, p.b)
		p.VPADDW(p.b, s, s)
	}
}

// signed is dot for signed weights: their signs go to the activations. The sums
// are widened at once.
func (p *product2) signed(kq int) {
	p.prefetchLine()
	p.VPABSB(p.w, p.t)
	for r, s := range p.isum {
		p.VPBROADCASTD(at(p.panel, (kq*p.rows+r)*4), p.b)
		p.VPSIGNB(p.w, p.b, p.b)
		p.VPMADDUBSW(p.b, p.t, p.b)
		p.VPMADDWD(p.ones, p.b, p.b)
		p.VPADDD(p.b, s, s)
	}
}

// flush adds the sums of pairs, times the words of factor, to the totals.
func (p *product2) flush(factor reg.VecVirtual) {
	for r, s := range p.sum {
		p.VPMADDWD(factor, s, s)
		p.VPADDD(s, p.isum[r], p.isum[r])
	}
}

// twice copies the low word of each dword to its high word.
func (p *product2) twice(v reg.VecVirtual) {
	p.VPSLLD(operand.U8(16), v, p.b)
	p.VPBLENDW(operand.U8(0xaa), p.b, v, v)
}

// table16 loads sixteen bytes, twice.
func (p *product2) table16(name string) reg.VecVirtual {
	table := p.YMM()
	p.VBROADCASTI128(operand.NewDataAddr(operand.NewStaticSymbol(name), 0), table)
	return table
}

// nibble loads low or high halves of 32 codes into p.w.
func (p *product2) nibble(base reg.Register, disp, half int, low reg.VecVirtual) {
	if half == 0 {
		p.VPAND(at(base, disp), low, p.w)
		return
	}
	p.VMOVDQU(at(base, disp), p.w)
	p.VPSRLW(operand.U8(4), p.w, p.w)
	p.VPAND(low, p.w, p.w)
}

// high ors bits, shifted left (or right) and masked, into p.w.
func (p *product2) high(base reg.Register, disp, left int, mask reg.VecVirtual) {
	p.VMOVDQU(at(base, disp), p.t)
	switch {
	case left > 0:
		p.VPSLLW(operand.U8(uint8(left)), p.t, p.t)
	case left < 0:
		p.VPSRLW(operand.U8(uint8(-left)), p.t, p.t)
	}
	p.VPAND(mask, p.t, p.t)
	p.VPOR(p.t, p.w, p.w)
}

// accumulate adds v times the panel's scale of row r, at disp, to a float total.
func (p *product2) accumulate(half, r, disp int, v reg.VecVirtual) {
	p.VBROADCASTSS(at(p.panel, disp), p.b)
	p.VFMADD213PS(p.total(half, r), p.b, v)
	p.VMOVUPS(v, p.total(half, r))
}

// factor adds the integer totals times the tile's scales and the activations',
// at da, to the float totals.
func (p *product2) factor(half, da int, d reg.VecVirtual) {
	for r, s := range p.isum {
		p.VCVTDQ2PS(s, s)
		p.VMULPS(d, s, s)
		p.accumulate(half, r, da+4*r, s)
	}
}
