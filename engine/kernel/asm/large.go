package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file multiplies the large values of panels, which do not fit into int8: see
// panel.go. They come in pairs of int16, so that weights are taken as words: those of
// a k-quad's first and third value, or of its second and fourth.

// pairsOf says where the codes of a sub-block are, of which one pair is multiplied.
// Pair i of a sub-block has the values i%8*4 + i/8 and two further.
type pairsOf struct {
	base   reg.Register // k-quad 0 is disp bytes after it, each other one 64 bytes further
	disp   int
	quads  int  // k-quads of the sub-block: 8, or 4 of 16 values
	second bool // whether the last k-quads of a sub-block of 16 values' block are meant
	halves bool // k-quads 4 to 7 are the next four bits of the first four's bytes
	shift  int  // of the codes in their bytes
	mask   int  // of the codes, where they stand after the shift
	high   highBits
	table  reg.VecVirtual // of what the codes stand for, or nil
	flip   reg.VecVirtual // with AVX2: the bits of codes that are flipped to make them signed, or nil
	signed bool           // with AVX2: whether the codes are signed then
}

// highBits are the bits of a sub-block's codes that lie apart.
type highBits struct {
	base  reg.Register // nil: there are none
	disp  int
	quads bool // each k-quad's are 64 bytes further; else each quad's are the next bit of the same bytes
	shift int  // of those of k-quad 0
	mask  int
	left  int // by how much they are shifted left to stand above the others
}

// wordMasks are those of pairs' codes and of their high bits.
var wordMasks = []int{0x01, 0x03, 0x0f, 0xf0, 0xff}

// wordMask is the symbol of words that are all the same.
func wordMask(mask int) operand.Mem {
	return operand.NewDataAddr(operand.NewStaticSymbol(fmt.Sprintf("words%02x", mask)), 0)
}

// wordTables defines them, of 32 bytes each.
func wordTables(ctx *build.Context) {
	for _, m := range wordMasks {
		ctx.StaticGlobal(fmt.Sprintf("words%02x", m))
		ctx.DataAttributes(rodata)
		for i := range 16 {
			ctx.AddDatum(2*i, operand.U16(uint16(m)))
		}
	}
}

// eachPair runs body for every pair of large values of the sub-block whose mask is
// block blocks of 32 values after p.masks, if it has any: the code is apart. i is the number of the pair, which body
// has to leave alone, and k a register for its use.
func (f *frame) eachPair(block int, of pairsOf, body func(i, k reg.GPVirtual)) {
	f.labels++
	name := func(s string) string { return fmt.Sprintf("%s%d", s, f.labels) }
	large, next, back := name("large"), name("next"), name("back")
	mask := uint32(0xffff)
	switch {
	case of.quads == 8:
	case of.second:
		mask = 0xf0f0
	default:
		mask = 0x0f0f
	}
	if f.of.kind == kindBlock {
		f.CMPW(at(f.masks, 0), operand.I8(0))
	} else {
		f.TESTL(operand.U32(mask<<(16*block)), at(f.masks, 0)) // of a group's two blocks
	}
	f.JNE(operand.LabelRef(large))
	f.Label(back)
	f.apart = append(f.apart, func() {
		m, i, k := f.GP64(), f.GP64(), f.GP64()
		bits := m.As32()
		f.Label(large)
		f.MOVWLZX(at(f.masks, 2*block), bits)
		if mask != 0xffff {
			f.ANDL(operand.U32(mask), bits)
		}
		f.Label(next)
		f.TZCNTL(bits, i.As32())
		body(i, k)
		f.BLSRL(bits, bits)
		f.JNZ(operand.LabelRef(next))
		f.JMP(operand.LabelRef(back))
	})
}

// quad leaves the address of pair i's k-quad in k, where n k-quads follow each other
// from base on.
func (f *frame) quad(i, k reg.GPVirtual, base reg.Register, n int) {
	f.MOVL(i.As32(), k.As32())
	f.ANDL(operand.U32(uint32(n-1)), k.As32())
	f.SHLL(operand.U8(6), k.As32())
	f.ADDQ(base, k)
}

// count leaves in x how far right a pair's words are shifted: by right, by eight
// more for the second pair of a k-quad, and by what other bits of i say.
func (f *frame) count(i, k reg.GPVirtual, x reg.VecVirtual, bits, right int) {
	f.MOVL(i.As32(), k.As32())
	f.ANDL(operand.U32(uint32(bits)), k.As32())
	if right > 0 {
		f.ADDL(operand.U8(uint8(right)), k.As32())
	}
	f.VMOVD(k.As32(), x)
}

// codeBits are the bits of i that say how far right its codes are shifted.
func (o pairsOf) codeBits() int {
	if o.halves {
		return 8 + 4
	}
	return 8
}

// between is how many k-quads follow each other in memory.
func (o pairsOf) between() int {
	if o.halves {
		return 4
	}
	return o.quads
}

// bits are those of a pair's number that say how far right its high bits are shifted.
func (h highBits) bits() int {
	if h.quads {
		return 8
	}
	return 15
}

// address is where a pair's high bits are.
func (f *frame) address(i, k reg.GPVirtual, h highBits) (base reg.Register, disp int) {
	if !h.quads {
		return h.base, h.disp
	}
	f.quad(i, k, h.base, 4)
	return k, h.disp
}

// large adds the products of the large values of a sub-block to its sums.
func (p *product) large(block int, of pairsOf) {
	p.eachPair(block, of, func(i, k reg.GPVirtual) {
		p.pairWords(i, k, of)
		p.IMUL3Q(operand.U32(uint32(4*p.rows)), i, i)
		p.ADDQ(p.frame.large, i)
		for r := range p.rows {
			acts := at(i, 64*p.rows*block+4*r)
			if p.tiles == 1 {
				p.VPDPWSSD_BCST(acts, p.w[0], p.sum[0][r])
				continue
			}
			p.VPBROADCASTD(acts, p.b)
			for t, w := range p.w {
				p.VPDPWSSD(p.b, w, p.sum[t][r])
			}
		}
	})
}

// pairWords leaves pair i's codes as words in p.w.
func (p *product) pairWords(i, k reg.GPVirtual, of pairsOf) {
	x := p.XMM()
	p.count(i, k, x, of.codeBits(), of.shift)
	p.quad(i, k, of.base, of.between())
	for t, w := range p.w {
		p.VMOVDQU32(p.weight(k, of.disp, t), w)
		p.VPSRLW(x, w, w)
		p.VPANDD_BCST(wordMask(of.mask), w, w)
		if of.table != nil {
			p.VPSHUFB(w, of.table, w)
			p.VPANDD_BCST(wordMask(0xff), w, w)
		}
	}
	if of.high.base == nil {
		return
	}
	v := p.ZMM()
	p.count(i, k, x, of.high.bits(), of.high.shift)
	base, disp := p.address(i, k, of.high)
	for t, w := range p.w {
		p.VMOVDQU32(p.weight(base, disp, t), v)
		p.VPSRLW(x, v, v)
		p.VPANDD_BCST(wordMask(of.high.mask), v, v)
		p.VPSLLW(operand.U8(uint8(of.high.left)), v, v)
		p.VPORD(v, w, w)
	}
}

// large adds the products of the large values of a sub-block to the integer totals.
// Where the type has integer scales, scale loads those of the sub-block into p.t, a
// dword for each.
func (p *product2) large(block int, of pairsOf, scale func()) {
	p.eachPair(block, of, func(i, k reg.GPVirtual) {
		p.pairWords(i, k, of)
		p.IMUL3Q(operand.U32(uint32(4*p.rows)), i, i)
		p.ADDQ(p.frame.large, i)
		if scale != nil {
			scale()
		}
		for r, s := range p.isum {
			p.VPBROADCASTD(at(i, 64*p.rows*block+4*r), p.b)
			p.VPMADDWD(p.b, p.w, p.b)
			if scale != nil {
				p.VPMULLD(p.t, p.b, p.b)
			}
			p.VPADDD(p.b, s, s)
		}
	})
}

// pairWords leaves pair i's codes as words in p.w: signed where the codes are.
func (p *product2) pairWords(i, k reg.GPVirtual, of pairsOf) {
	x := p.XMM()
	p.count(i, k, x, of.codeBits(), of.shift)
	p.quad(i, k, of.base, of.between())
	p.VMOVDQU(at(k, of.disp), p.w)
	p.VPSRLW(x, p.w, p.w)
	p.VPAND(wordMask(of.mask), p.w, p.w)
	if of.table != nil {
		p.VPSHUFB(p.w, of.table, p.w)
	}
	if of.flip != nil {
		p.VPXOR(of.flip, p.w, p.w)
	}
	switch {
	case of.signed:
		p.VPSLLW(operand.U8(8), p.w, p.w)
		p.VPSRAW(operand.U8(8), p.w, p.w)
	case of.table != nil:
		p.VPAND(wordMask(0xff), p.w, p.w)
	}
	if of.high.base == nil {
		return
	}
	p.count(i, k, x, of.high.bits(), of.high.shift)
	base, disp := p.address(i, k, of.high)
	p.VMOVDQU(at(base, disp), p.t)
	p.VPSRLW(x, p.t, p.t)
	p.VPAND(wordMask(of.high.mask), p.t, p.t)
	p.VPSLLW(operand.U8(uint8(of.high.left)), p.t, p.t)
	p.VPOR(p.t, p.w, p.w)
}

// ofHalf are the pairs' codes of eight of sixteen rows.
func (o pairsOf) ofHalf(half int) pairsOf {
	o.disp += 32 * half
	o.high.disp += 32 * half
	return o
}
