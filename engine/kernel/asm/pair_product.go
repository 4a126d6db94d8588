package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairType is how encoders hold matrices for products of bfloat16: a block is two values of a row, so that a load of
// 64 bytes has two columns of a tile, and a panel holds [pair of columns][row] dwords.
var pairType = weightType{name: "Pair", kind: kindFloat, bytes: 4, tile: parts{codes: 4}, avx512: (*product).bfloats}

func pairProducts(ctx *build.Context) {
	products(ctx, []weightType{pairType})
	roundPairs(ctx)
}

// bfloats is the loop over pairs of columns.
func (p *product) bfloats() {
	if p.b == nil {
		p.b = p.ZMM()
	}
	if p.total == nil {
		p.total = p.zmms()
		p.zero(p.total)
	}
	p.loop(p.blocks, func() {
		p.prefetchAhead(p.tile, p.part.size)
		p.prefetchNextTiles(1, 1)
		p.prefetchLine()
		for t, w := range p.w {
			p.VMOVUPS(p.weight(p.tile, 0, t), w)
		}
		for r := range p.rows {
			p.VBROADCASTSS(at(p.panel, 4*r), p.b)
			for t, w := range p.w {
				p.VPDPWSSD(p.b, w, p.total[t][r]) // stands for VDPBF16PS
			}
		}
		p.ADDQ(operand.U32(uint32(p.part.size)), p.tile)
		p.ADDQ(operand.U32(uint32(4*p.rows)), p.panel)
	})
}

// roundPairs rounds floats to the nearest bfloat16, ties to even; what is no number stays none.
func roundPairs(ctx *build.Context) {
	ctx.Function("roundPairsAVX512")
	ctx.Pragma("noescape")
	ctx.SignatureExpr("func(dst *float32, x *float32, blocks int)")
	dst := ctx.Load(ctx.Param("dst"), ctx.GP64())
	x := ctx.Load(ctx.Param("x"), ctx.GP64())
	blocks := ctx.Load(ctx.Param("blocks"), ctx.GP64())
	constant := func(v uint32) reg.VecVirtual {
		g, z := ctx.GP32(), ctx.ZMM()
		ctx.MOVL(operand.U32(v), g)
		ctx.VPBROADCASTD(g, z)
		return z
	}
	half, one, none := constant(0x7fff), constant(1), constant(0x7fc0)
	v, t, k := ctx.ZMM(), ctx.ZMM(), ctx.K()
	ctx.Label("loop")
	ctx.VMOVUPS(at(x, 0), v)
	ctx.VCMPPS(operand.U8(3), v, v, k) // unordered
	ctx.VPSRLD(operand.U8(16), v, t)
	ctx.VPANDD(one, t, t)
	ctx.VPADDD(half, t, t)
	ctx.VPADDD(t, v, v)
	ctx.VPSRLD(operand.U8(16), v, v)
	ctx.VMOVDQA32(none, k, v)
	ctx.VPMOVDW(v, at(dst, 0))
	ctx.ADDQ(operand.U8(64), x)
	ctx.ADDQ(operand.U8(32), dst)
	ctx.DECQ(blocks)
	ctx.JNZ(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// encodePairProducts writes VDPBF16PS, which Go's assembler does not know, as bytes in the place of each VPDPWSSD of registers. The two
// differ in one field, the mandatory prefix (F3 for 66). It has to come after the allocation of registers.
func encodePairProducts(f *ir.File) {
	for _, fn := range f.Functions() {
		nodes := make([]ir.Node, 0, len(fn.Nodes))
		for _, n := range fn.Nodes {
			i, ok := n.(*ir.Instruction)
			if !ok || i.Opcode != "VPDPWSSD" {
				nodes = append(nodes, n)
				continue
			}
			low, high := vdpbf16ps(number(i.Operands[0]), number(i.Operands[1]), number(i.Operands[2]))
			nodes = append(nodes, ir.NewComment("VDPBF16PS "+i.Operands[0].Asm()+", "+i.Operands[1].Asm()+", "+i.Operands[2].Asm()),
				&ir.Instruction{Opcode: "LONG", Operands: []operand.Op{operand.U32(low)}},
				&ir.Instruction{Opcode: "WORD", Operands: []operand.Op{operand.U16(high)}})
		}
		fn.Nodes = nodes
	}
}

// number is that of a 512-bit register.
func number(o operand.Op) uint32 {
	n, err := strconv.Atoi(o.Asm()[1:])
	if err != nil || o.Asm()[0] != 'Z' {
		panic("asm: no 512-bit register: " + o.Asm())
	}
	return uint32(n)
}

// vdpbf16ps encodes dst += products of pairs of a and b: EVEX.512.F3.0F38.W0 52 /r.
func vdpbf16ps(a, b, dst uint32) (low uint32, high uint16) {
	bit := func(r uint32, i int) uint32 { return ^r >> i & 1 }
	p0 := bit(dst, 3)<<7 | bit(a, 4)<<6 | bit(a, 3)<<5 | bit(dst, 4)<<4 | 2
	p1 := (^b&15)<<3 | 1<<2 | 2
	p2 := 2<<5 | bit(b, 4)<<3
	return 0x62 | p0<<8 | p1<<16 | p2<<24, uint16(0x52 | (0xc0|dst&7<<3|a&7)<<8)
}
