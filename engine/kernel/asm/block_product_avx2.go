package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxRowsAVX2: 4 sums of 16 bits and 4 integer totals leave 8 of 16 registers.
const maxRowsAVX2 = 4

// blockProductsAVX2 writes the same products for AVX2 without VNNI: unsigned
// times signed bytes become sums of pairs in 16 bits, as many as cannot
// overflow are added up, and a multiplication by the scales, twice in each
// dword, widens them. Each block is done for its first eight rows, then for the
// others. Integers are exact and floats in the order of the AVX-512 products, so
// both levels give the same bits.
func blockProductsAVX2(ctx *build.Context) {
	table16(ctx, nonlinear, nonlinearValues, 0)
	for _, k := range []struct {
		name      string
		tileBytes int
		body      func(*product2)
	}{
		{"Q4K", 2368, (*product2).q4k},
		{"Q5K", 2880, (*product2).q5k},
		{"Q6K", 3360, (*product2).q6k},
		{"Q80", 544, (*product2).q80},
		{"Q40", 288, (*product2).q40},
		{"Q50", 352, (*product2).q50},
		{"IQ4NL", 288, (*product2).iq4nl},
		{"F32", 64, (*product2).f32},
		{"F16", 32, (*product2).f16},
		{"BF16", 32, (*product2).bf16},
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

// product2 is one kernel in the making.
type product2 struct {
	*build.Context
	rows        int
	tile, panel reg.Register
	blocks      reg.Register
	totals      reg.Register     // float totals [half][row], in memory
	sum         []reg.VecVirtual // sums of pairs, 16 bits
	isum        []reg.VecVirtual // integer totals
	w, b, t     reg.VecVirtual
	ones        reg.VecVirtual
	tileBytes   int
	lines       []operand.Mem // to prefetch
	labels      int
}

// soon has each of the next dots ask for a line of the n bytes ahead of base, as
// in the AVX-512 products. The first half of a block does it for both.
func (p *product2) soon(base reg.Register, n int) {
	ahead := (prefetchBytes + p.tileBytes - 1) / p.tileBytes * p.tileBytes
	for i := 0; i < n; i += 64 {
		p.lines = append(p.lines, at(base, ahead+i))
	}
}

func (p *product2) fetch() {
	if len(p.lines) > 0 {
		p.PREFETCHT0(p.lines[0])
		p.lines = p.lines[1:]
	}
}

func (p *product2) ymms() []reg.VecVirtual {
	all := make([]reg.VecVirtual, p.rows)
	for i := range all {
		all[i] = p.YMM()
	}
	return all
}

func (p *product2) generate(body func(*product2)) {
	p.tile = p.Load(p.Param("tile"), p.GP64())
	p.panel = p.Load(p.Param("panel"), p.GP64())
	p.blocks = p.Load(p.Param("blocks"), p.GP64())
	p.w, p.b, p.t = p.YMM(), p.YMM(), p.YMM()
	local := p.AllocLocal(64*p.rows + 32)
	p.totals = p.GP64()
	p.LEAQ(local.Offset(31), p.totals)
	p.ANDQ(operand.I8(-32), p.totals)
	p.VPXOR(p.t, p.t, p.t)
	for i := range 2 * p.rows {
		p.VMOVUPS(p.t, at(p.totals, 32*i))
	}
	body(p)
	p.store()
	p.VZEROUPPER()
	p.RET()
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
}

func (p *product2) total(half, r int) operand.Mem { return at(p.totals, 32*(half*p.rows+r)) }

func (p *product2) loop(counter reg.Register, body func()) {
	p.labels++
	label := fmt.Sprintf("loop%d", p.labels)
	p.Label(label)
	body()
	p.DECQ(counter)
	p.JNZ(operand.LabelRef(label))
}

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
	p.fetch()
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
	p.fetch()
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

// minima is as in the AVX-512 products.
func (p *product2) minima(half, mins, scales, sums32, scale int) {
	for r := range p.rows {
		for pair := range 4 {
			p.VPMOVZXBW(at(p.tile, mins+32*pair+16*half), p.w)
			p.VPBROADCASTD(at(p.panel, sums32+(pair*p.rows+r)*4), p.b)
			if pair == 0 {
				p.VPMADDWD(p.b, p.w, p.sum[r])
				continue
			}
			p.VPMADDWD(p.b, p.w, p.b)
			p.VPADDD(p.b, p.sum[r], p.sum[r])
		}
	}
	p.VCVTPH2PS(at(p.tile, scales+16*half), p.w)
	p.VCVTPH2PS(at(p.tile, scales+32+16*half), p.t)
	for r, s := range p.sum {
		v := p.isum[r]
		p.VCVTDQ2PS(v, v)
		p.VCVTDQ2PS(s, s)
		p.VMULPS(p.w, v, v)
		p.VFNMADD231PS(s, p.t, v)
		p.accumulate(half, r, scale+4*r, v)
	}
}

func (p *product2) superblock() (bias16, sums32, scale, size int) {
	return (&product{rows: p.rows}).superblock()
}

// fours runs body for the four groups of 64 columns of a superblock, with
// pointers into the tile and into the panel, each advanced by its step.
func (p *product2) fours(half int, offsets, steps []int, body func(at []reg.Register)) {
	group := p.GP64()
	p.MOVQ(operand.U32(4), group)
	pointers := make([]reg.Register, len(offsets))
	for i, o := range offsets {
		pointers[i] = p.GP64()
		p.LEAQ(at(p.tile, o), pointers[i])
	}
	acts := p.GP64()
	p.MOVQ(p.panel, acts)
	panel := p.panel
	p.panel = acts
	p.loop(group, func() {
		for i, s := range steps {
			if half == 0 {
				p.soon(pointers[i], s)
			}
		}
		body(pointers)
		for i, s := range steps {
			p.ADDQ(operand.U32(uint32(s)), pointers[i])
		}
		p.ADDQ(operand.U32(uint32(64*p.rows)), acts)
	})
	p.panel = panel
}

func (p *product2) q4k() {
	const scales, mins, d, size = 2048, 2176, 2304, 2368
	_, sums32, da, panelSize := p.superblock()
	low := p.constant(0x0f0f0f0f)
	p.sum, p.isum = p.ymms(), p.ymms()
	p.loop(p.blocks, func() {
		for half := range 2 {
			p.zero(p.isum)
			p.fours(half, []int{32 * half, scales + 8*half}, []int{512, 32}, func(at2 []reg.Register) {
				for sub := range 2 {
					for kq := range 8 {
						p.nibble(at2[0], 64*kq, sub, low)
						p.dot(8*sub+kq, kq == 0)
					}
					p.VPMOVZXBD(at(at2[1], 16*sub), p.w)
					p.twice(p.w)
					p.flush(p.w)
				}
			})
			p.minima(half, mins, d, sums32, da)
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

func (p *product2) q5k() {
	const high, scales, mins, d, size = 2048, 2560, 2688, 2816, 2880
	_, sums32, da, panelSize := p.superblock()
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	scale := p.YMM()
	p.sum, p.isum = p.ymms(), p.ymms()
	p.loop(p.blocks, func() {
		for half := range 2 {
			p.zero(p.isum)
			p.fours(half, []int{32 * half, high + 32*half, scales + 8*half}, []int{512, 128, 32}, func(at2 []reg.Register) {
				for sub := range 2 {
					p.VPMOVZXBD(at(at2[2], 16*sub), scale)
					p.twice(scale)
					for kq := range 8 {
						p.nibble(at2[0], 64*kq, sub, low)
						p.high(at2[1], 64*sub, 4-kq, fifth)
						p.dot(8*sub+kq, kq%4 == 0)
						if kq%4 == 3 { // 8 products of at most 31 x 127
							p.flush(scale)
						}
					}
				}
			})
			p.minima(half, mins, d, sums32, da)
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
}

func (p *product2) q6k() {
	const high, scales, d, size = 2048, 3072, 3328, 3360
	bias16, _, da, panelSize := p.superblock()
	low, pair := p.constant(0x0f0f0f0f), p.constant(0x30303030)
	scale := p.YMM()
	p.sum, p.isum = p.ymms(), p.ymms()
	p.loop(p.blocks, func() {
		for half := range 2 {
			p.zero(p.isum)
			biases := p.GP64()
			p.LEAQ(at(p.panel, bias16), biases)
			p.fours(half, []int{32 * half, high + 32*half, scales + 8*half}, []int{512, 256, 64}, func(at2 []reg.Register) {
				for s := range 4 {
					p.VPMOVSXBD(at(at2[2], 16*s), scale)
					for r, v := range p.isum {
						p.VPBROADCASTD(at(biases, (s*p.rows+r)*4), p.b)
						p.VPMULLD(scale, p.b, p.b)
						p.VPADDD(p.b, v, v)
					}
					p.twice(scale)
					for i := range 4 {
						p.nibble(at2[0], 64*(4*(s%2)+i), s/2, low)
						p.high(at2[1], 64*i, 4-2*s, pair)
						p.dot(4*s+i, i%2 == 0)
						if i%2 == 1 { // 4 products of at most 63 x 127
							p.flush(scale)
						}
					}
				}
				p.ADDQ(operand.U32(uint32(16*p.rows)), biases)
			})
			p.VCVTPH2PS(at(p.tile, d+16*half), p.w)
			p.factor(half, da, p.w)
		}
		p.ADDQ(operand.U32(size), p.tile)
		p.ADDQ(operand.U32(uint32(panelSize)), p.panel)
	})
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

// block32 is the loop over blocks of 32 values; body leaves their products in
// the integer totals. Where codes are unsigned the panel's bias, divided by
// 1<<shift, starts them.
func (p *product2) block32(codes, shift int, unsigned bool, body func(half int)) {
	p.isum = p.ymms()
	p.loop(p.blocks, func() {
		p.soon(p.tile, codes)
		for half := range 2 {
			for r, s := range p.isum {
				if !unsigned {
					p.VPXOR(s, s, s)
					continue
				}
				p.VPBROADCASTD(at(p.panel, 32*p.rows+4*r), s)
				p.VPSRAD(operand.U8(uint8(shift)), s, s)
			}
			body(half)
			p.VCVTPH2PS(at(p.tile, codes+16*half), p.w)
			p.factor(half, 36*p.rows, p.w)
		}
		p.ADDQ(operand.U32(uint32(codes+32)), p.tile)
		p.ADDQ(operand.U32(uint32(40*p.rows)), p.panel)
	})
}

func (p *product2) q80() {
	flip := p.constant(0x80808080)
	p.ones = p.constant(0x00010001)
	p.block32(512, 0, false, func(half int) {
		for kq := range 8 {
			p.VPXOR(at(p.tile, 64*kq+32*half), flip, p.w)
			p.signed(kq)
		}
	})
}

func (p *product2) q40() {
	low := p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.block32(256, 4, true, func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.dot(kq, kq == 0)
		}
		p.flush(p.ones)
	})
}

func (p *product2) q50() {
	low, fifth := p.constant(0x0f0f0f0f), p.constant(0x10101010)
	p.ones = p.constant(0x00010001)
	p.sum = p.ymms()
	p.block32(320, 3, true, func(half int) {
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

func (p *product2) iq4nl() {
	table, low := p.table16(nonlinear), p.constant(0x0f0f0f0f)
	p.ones = p.constant(0x00010001)
	p.block32(256, 0, false, func(half int) {
		for kq := range 8 {
			p.nibble(p.tile, 64*(kq%4)+32*half, kq/4, low)
			p.VPSHUFB(p.w, table, p.w)
			p.signed(kq)
		}
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
