package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// moreProductsAVX2 writes the products of block_product_more.go for AVX2.
func moreProductsAVX2(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 0)
	table16(ctx, e2m1, e2m1Values, 16)
	for _, k := range []struct {
		name      string
		tileBytes int
		body      func(*product2)
	}{
		{"Q3K", 1824, (*product2).q3k},
		{"Q41", 320, (*product2).q41},
		{"Q51", 384, (*product2).q51},
		{"IQ4XS", 2208, (*product2).iq4xs},
		{"Q2K", 1344, (*product2).q2k},
		{"MXFP4", 272, (*product2).mxfp4},
	} {
		for rows := 1; rows <= maxRowsAVX2; rows++ {
			ctx.Function(fmt.Sprintf("product%sx%dAVX2", k.name, rows))
			ctx.Pragma("noescape")
			ctx.SignatureExpr(productSignature)
			p := &product2{Context: ctx, rows: rows, tileBytes: k.tileBytes}
			p.generate(k.body)
		}
	}
}

// superblocks is the loop over superblocks of size bytes of a tile, of which
// body adds each half.
func (p *product2) superblocks(size int, body func(half int)) {
	_, _, _, panelSize := p.superblock()
	p.isum = p.ymms()
	p.loop(p.blocks, func() {
		for half := range 2 {
			p.zero(p.isum)
			body(half)
		}
		p.ADDQ(operand.U32(uint32(size)), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

// pairs loads pairs s of four of 32 bytes into p.w.
func (p *product2) pairs(base reg.Register, disp, s int, low reg.VecVirtual) {
	if s == 0 {
		p.VPAND(at(base, disp), low, p.w)
		return
	}
	p.VMOVDQU(at(base, disp), p.w)
	p.VPSRLW(operand.U8(uint8(2*s)), p.w, p.w)
	p.VPAND(low, p.w, p.w)
}

func (p *product2) q3k() {
	const high, scales, d, size = 1024, 1536, 1792, 1824
	bias16, _, da, _ := p.superblock()
	low, third := p.constant(0x03030303), p.constant(0x04040404)
	scale := p.YMM()
	p.sum = p.ymms()
	p.superblocks(size, func(half int) {
		biases := p.GP64()
		p.LEAQ(at(p.panel, bias16), biases)
		p.fours(half, []int{32 * half, high + 32*half, scales + 8*half}, []int{256, 128, 64}, func(at2 []reg.Register) {
			for s := range 4 {
				p.VPMOVSXBD(at(at2[2], 16*s), scale)
				for r, v := range p.isum {
					p.VPBROADCASTD(at(biases, (s*p.rows+r)*4), p.b)
					p.VPSRAD(operand.U8(3), p.b, p.b)
					p.VPMULLD(scale, p.b, p.b)
					p.VPADDD(p.b, v, v)
				}
				p.twice(scale)
				for i := range 4 { // 8 products of at most 7 x 127
					kq := 4*s + i
					p.pairs(at2[0], 64*i, s, low)
					p.high(at2[1], 64*(kq/8), 2-kq%8, third)
					p.dot(kq, i == 0)
				}
				p.flush(scale)
			}
			p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
		})
		p.VCVTPH2PS(at(p.tile, d+16*half), p.w)
		p.factor(half, da, p.w)
	})
}

func (p *product2) q2k() {
	const scales, d, size = 1024, 1280, 1344
	low, low4 := p.constant(0x03030303), p.constant(0x0f)
	p.sum = p.ymms()
	p.superblocks(size, func(half int) {
		p.fours(half, []int{32 * half, scales + 8*half}, []int{256, 64}, func(at2 []reg.Register) {
			for s := range 4 {
				for i := range 4 { // 8 products of at most 3 x 127
					p.pairs(at2[0], 64*i, s, low)
					p.dot(4*s+i, i == 0)
				}
				p.VPMOVZXBD(at(at2[1], 16*s), p.w)
				p.VPAND(low4, p.w, p.w)
				p.twice(p.w)
				p.flush(p.w)
			}
		})
		p.minimaQ2K(half, scales, d)
	})
}

// minimaQ2K is as in the AVX-512 products.
func (p *product2) minimaQ2K(half, scales, factors int) {
	bias16, _, da, _ := p.superblock()
	p.zero(p.sum)
	for j := range 16 {
		p.VPMOVZXBD(at(p.tile, scales+16*j+8*half), p.w)
		p.VPSRLD(operand.U8(4), p.w, p.w)
		for r, s := range p.sum {
			p.VPBROADCASTD(at(p.panel, bias16+4*(j*p.rows+r)), p.b)
			p.VPSRAD(operand.U8(5), p.b, p.b)
			p.VPMADDWD(p.b, p.w, p.b)
			p.VPADDD(p.b, s, s)
		}
	}
	p.VCVTPH2PS(at(p.tile, factors+16*half), p.w)
	p.VCVTPH2PS(at(p.tile, factors+32+16*half), p.t)
	for r, s := range p.sum {
		v := p.isum[r]
		p.VCVTDQ2PS(v, v)
		p.VCVTDQ2PS(s, s)
		p.VMULPS(p.w, v, v)
		p.VFMADD231PS(s, p.t, v)
		p.accumulate(half, r, da+4*r, v)
	}
}

// table16 loads sixteen bytes, twice.
func (p *product2) table16(name string) reg.VecVirtual {
	table := p.YMM()
	p.VBROADCASTI128(operand.NewDataAddr(operand.NewStaticSymbol(name), 0), table)
	return table
}

// iq4xs has the scales where other products of signed weights have ones: of each
// 32 values' pairs of products, at most 2 x 127 x 127.
func (p *product2) iq4xs() {
	const scales, d, size = 2048, 2176, 2208
	_, _, da, _ := p.superblock()
	table, low := p.table16(nonlinear), p.constant(0x0f0f0f0f)
	p.ones = p.YMM()
	p.superblocks(size, func(half int) {
		p.fours(half, []int{32 * half, scales + 16*half}, []int{512, 32}, func(at2 []reg.Register) {
			for sub := range 2 {
				p.VPMOVSXBW(at(at2[1], 0), p.ones)
				if sub == 1 {
					p.VPSRLD(operand.U8(16), p.ones, p.ones)
				}
				p.twice(p.ones)
				for kq := range 8 {
					p.nibble(at2[0], 64*(4*sub+kq%4), kq/4, low)
					p.VPSHUFB(p.w, table, p.w)
					p.signed(8*sub + kq)
				}
			}
		})
		p.VCVTPH2PS(at(p.tile, d+16*half), p.w)
		p.factor(half, da, p.w)
	})
}

// minimum32 is the loop over blocks of 32 values with a scale and a minimum
// each; body leaves their products in the integer totals.
func (p *product2) minimum32(codes int, body func(half int)) {
	p.isum = p.ymms()
	unit := p.constant(minus128th)
	p.loop(p.blocks, func() {
		p.soon(p.tile, codes+64)
		for half := range 2 {
			p.zero(p.isum)
			body(half)
			p.VCVTPH2PS(at(p.tile, codes+16*half), p.w)
			p.VCVTPH2PS(at(p.tile, codes+32+16*half), p.t)
			p.VMULPS(unit, p.t, p.t)
			for r, s := range p.isum {
				p.VCVTDQ2PS(s, s)
				p.VMULPS(p.w, s, s)
				p.VPBROADCASTD(at(p.panel, 32*p.rows+4*r), p.b)
				p.VCVTDQ2PS(p.b, p.b)
				p.VFMADD231PS(p.b, p.t, s)
				p.accumulate(half, r, 36*p.rows+4*r, s)
			}
		}
		p.ADDQ(operand.U32(uint32(codes+64)), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}

func (p *product2) q41() {
	low := p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.minimum32(256, func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.dot(kq, kq == 0)
		}
		p.flush(p.ones)
	})
}

func (p *product2) q51() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.minimum32(320, func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.high(p.tile, 256+32*half, 4-kq, fifth)
			p.dot(kq, kq%4 == 0)
			if kq%4 == 3 { // 8 products of at most 31 x 127
				p.flush(p.ones)
			}
		}
	})
}

func (p *product2) mxfp4() {
	const exponents, size = 256, 272
	table, low := p.table16(e2m1), p.constant(0x0f0f0f0f)
	normal, small := p.constant(1<<23), p.constant(1<<21)
	p.ones = p.constant(0x00010001)
	p.sum, p.isum = p.ymms(), p.ymms()
	p.loop(p.blocks, func() {
		p.soon(p.tile, size)
		for half := range 2 {
			for r, s := range p.isum {
				p.VPBROADCASTD(at(p.panel, 32*p.rows+4*r), s)
				p.VPSRAD(operand.U8(3), s, s)
			}
			for kq := range 8 {
				p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
				p.VPSHUFB(p.w, table, p.w)
				p.dot(kq, kq%4 == 0)
				if kq%4 == 3 { // 8 products of at most 28 x 127
					p.flush(p.ones)
				}
			}
			p.VPMOVZXBD(at(p.tile, exponents+8*half), p.t)
			p.VPSLLD(operand.U8(23), p.t, p.w)
			p.VPSUBD(normal, p.w, p.w)
			p.VPSLLD(operand.U8(21), p.t, p.t)
			p.VPADDD(small, p.t, p.t)
			p.VPMAXSD(p.t, p.w, p.w)
			p.factor(half, 36*p.rows, p.w)
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}
