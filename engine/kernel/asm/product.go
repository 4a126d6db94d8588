package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file has what all products share: first the frame of both levels, then
// what only AVX-512 products have: registers, prefetching, loads of codes, totals and the store.
// The products of each type are in files by kind: superblocks, blocks, floats.

// Rows of a panel. A single tile takes 1 to 8 rows: 8 sums, 8 integer totals
// and 8 float totals leave 8 of 32 registers for weights. More rows than that
// come in panels of 4 to 6 that are multiplied by two tiles at a time: a broadcast
// of activations then serves two products, so that loads of activations no longer
// bound them. Two tiles of superblocks have their float totals in memory, two of blocks, which have no integer
// totals, in registers. Floats have no other sums, so that
// four tiles are multiplied at a time, of which loads take half of what they may.
const (
	maxRows     = 8
	minPairRows = 4
	maxPairRows = 6
)

// productSignature: dst [panels][rows][stride bytes] takes 16 outputs of each row; tile, and the panels with
// their large values, are laid out as tile.go and panel.go say (floats have no large values), the panels one behind
// the other; blocks counts the blocks of one row; bias is 16 floats or nil; add is 1 to add to dst.
const productSignature = "func(dst *float32, stride int, tile *byte, panel *byte, large *uint32, masks *uint16, " +
	"panels int, blocks int, bias *float32, add int)"

// products writes the AVX-512 products of a tile of 16 weight rows with 1 to 8
// activation rows, and of two tiles with 4 to 6. Lanes are weight rows, so no
// sum crosses lanes and each output's order of additions is the same whatever
// the number of rows.
func products(ctx *build.Context, types []weightType) {
	for _, t := range types {
		for rows := 1; rows <= maxRows; rows++ {
			newProduct(ctx, t.product512(rows), t, 1, rows).generate(t.avx512)
		}
		for rows := minPairRows; rows <= maxPairRows; rows++ {
			newProduct(ctx, t.pair512(rows), t, 2, rows).generate(t.avx512)
			if t.kind == kindFloat {
				newProduct(ctx, t.quad512(rows), t, 4, rows).generate(t.avx512)
			}
		}
	}
}

// frame is the part of a product that both levels share.
type frame struct {
	*build.Context
	of     weightType
	part   layout        // where a block's parts are in a tile
	rows   int           // of the panel
	tile   reg.Register  // the block that is multiplied, of the first tile
	panel  reg.Register  // the activations that it is multiplied by
	large  reg.Register  // the panel's large values of the block
	masks  reg.Register  // that say which there are
	blocks reg.Register  // how many blocks are left
	lines  []operand.Mem // of memory that the next k-quads prefetch, one each
	labels int
	apart  []func() // writes code that is seldom reached, behind the function's end
}

func newFrame(ctx *build.Context, name string, t weightType, rows int) frame {
	ctx.Function(name)
	ctx.Pragma("noescape")
	ctx.SignatureExpr(productSignature)
	return frame{Context: ctx, of: t, part: t.tile.layout(), rows: rows}
}

// panels is the loop over panels: body multiplies the tile by one, and leaves panel, large and masks where those of
// the next panel begin, and dst in its argument, too. Tiles stay in the first-level cache meanwhile.
func (f *frame) panels(body func()) {
	f.panel = f.Load(f.Param("panel"), f.GP64())
	if f.of.kind != kindFloat {
		f.large = f.Load(f.Param("large"), f.GP64())
		f.masks = f.Load(f.Param("masks"), f.GP64())
	}
	left, err := f.Param("panels").Resolve()
	if err != nil {
		panic(err)
	}
	f.loop(left.Addr, func() {
		f.tile = f.Load(f.Param("tile"), f.GP64())
		f.blocks = f.Load(f.Param("blocks"), f.GP64())
		body()
	})
	f.VZEROUPPER()
	f.RET()
	for _, write := range f.apart { // behind the function's end
		write()
	}
}

// loop repeats body while counter, decremented after each turn, is above zero.
func (f *frame) loop(counter operand.Op, body func()) {
	f.labels++
	label := fmt.Sprintf("loop%d", f.labels)
	f.Label(label)
	body()
	f.DECQ(counter)
	f.JNZ(operand.LabelRef(label))
}

// prefetchBytes is how far ahead products of a single tile prefetch weights. With
// few rows the time of a product is the time that its weights take to arrive.
const prefetchBytes = 4736

// prefetchAhead makes the next k-quads prefetch the n bytes that lie
// prefetchBytes, in whole blocks, after base: one line in each k-quad. All lines at
// once would occupy every line-fill buffer, and loads of activations that miss the
// first-level cache would wait for one. Of a block in groups, one stream, the hardware
// has fetched what is further away than the next block.
func (f *frame) prefetchAhead(base reg.Register, n int) {
	ahead := (prefetchBytes + f.part.size - 1) / f.part.size * f.part.size
	if f.of.tile.groups > 0 {
		ahead = f.part.size
	}
	for i := 0; i < n; i += 64 {
		f.lines = append(f.lines, at(base, ahead+i))
	}
}

// prefetchLine prefetches the next line that prefetchAhead asked for, if any.
func (f *frame) prefetchLine() {
	if len(f.lines) > 0 {
		f.PREFETCHT0(f.lines[0])
		f.lines = f.lines[1:]
	}
}

// product is one AVX-512 kernel while it is generated. Slices by tile have one, two or four elements.
type product struct {
	frame
	tiles  int
	second reg.Register       // bytes from a tile to the next
	fourth reg.Register       // bytes from the first tile to the fourth, of four
	total  [][]reg.VecVirtual // float totals by tile and row; nil where they are in memory
	totals reg.Register       // where they are there
	sum    [][]reg.VecVirtual // integer sums of a sub-block
	isum   [][]reg.VecVirtual // integer totals of a superblock
	w      []reg.VecVirtual   // weights
	b      reg.VecVirtual     // activations, of two tiles
	shares []int              // lines of the next two tiles that each of the next k-quads prefetches
	next   reg.Register       // the first of these lines that was not prefetched yet; of one tile what stream has come to
	ahead  []operand.Mem      // lines that the next k-quads prefetch into the second-level cache, one each
}

func newProduct(ctx *build.Context, name string, t weightType, tiles, rows int) *product {
	return &product{frame: newFrame(ctx, name, t, rows), tiles: tiles}
}

// zmms returns a register for each tile and row.
func (p *product) zmms() [][]reg.VecVirtual {
	all := make([][]reg.VecVirtual, p.tiles)
	for t := range all {
		for range p.rows {
			all[t] = append(all[t], p.ZMM())
		}
	}
	return all
}

// generate wraps the loop over blocks, which advances tile and panel, in the loop over
// panels and the store.
func (p *product) generate(body func(*product)) {
	for range p.tiles {
		p.w = append(p.w, p.ZMM())
	}
	p.panels(func() {
		p.begin()
		body(p)
		p.store()
	})
}

// begin clears the float totals.
func (p *product) begin() {
	if p.tiles == 1 || p.of.kind == kindBlock {
		p.total = p.zmms()
		p.zero(p.total)
	}
	if p.tiles == 1 {
		if p.farAhead() && p.of.kind == kindSuper {
			p.next = p.GP64()
			p.MOVQ(p.tile, p.next)
		}
		return
	}
	p.b = p.ZMM()
	p.second = p.GP64()
	p.IMUL3Q(operand.U32(uint32(p.part.size)), p.blocks, p.second)
	p.next = p.GP64()
	p.LEAQ(operand.Mem{Base: p.tile, Index: p.second, Scale: uint8(p.tiles)}, p.next)
	if p.of.kind == kindFloat {
		p.fourth = p.GP64()
		p.LEAQ(operand.Mem{Base: p.second, Index: p.second, Scale: 2}, p.fourth)
		return
	}
	if p.total == nil {
		p.inMemory()
	}
}

// inMemory has float totals in memory, which are zero.
func (p *product) inMemory() {
	local := p.AllocLocal(64*p.tiles*p.rows + 64)
	p.totals = p.GP64()
	p.LEAQ(local.Offset(63), p.totals)
	p.ANDQ(operand.I8(-64), p.totals)
	zero := p.b
	if zero == nil {
		zero = p.ZMM()
	}
	p.VPXORD(zero, zero, zero)
	for i := range p.tiles * p.rows {
		p.VMOVUPS(zero, at(p.totals, 64*i))
	}
}

// weight is memory of a tile: disp bytes after base in the first.
func (p *product) weight(base reg.Register, disp, tile int) operand.Mem {
	m := at(base, disp)
	switch tile {
	case 1, 2:
		m.Index, m.Scale = p.second, uint8(tile)
	case 3:
		m.Index, m.Scale = p.fourth, 1
	}
	return m
}

// prefetchAhead prefetches where the product takes one tile. A product of two
// tiles prefetches by prefetchNextTiles instead.
func (p *product) prefetchAhead(base reg.Register, n int) {
	switch {
	case p.tiles > 1:
	case p.farAhead():
		p.prefetchFar(base, n)
	default:
		p.frame.prefetchAhead(base, n)
	}
}

// fewRows are multiplied so fast that lines need not be asked for again when they are in the second-level cache.
const fewRows = 2

// farAhead reports whether the product prefetches as its type's far says.
func (p *product) farAhead() bool { return p.tiles == 1 && p.rows <= p.of.far.rows }

// prefetchFar makes the next k-quads prefetch n bytes as the type's far says, counted from base.
func (p *product) prefetchFar(base reg.Register, n int) {
	for i := 0; i < n; i += 64 {
		p.ahead = append(p.ahead, at(base, p.of.far.second+i))
		if p.rows > fewRows {
			p.lines = append(p.lines, at(base, p.of.far.first+i))
		}
	}
}

// stream makes body, which multiplies one of so many parts of a block, prefetch a part of one as the type's far says. Parts are taken in
// the order of memory, whatever the order is in which the product reads codes and scales.
func (p *product) stream(parts int, body func()) {
	p.prefetchFar(p.next, p.part.size/parts)
	body()
	p.ADDQ(operand.U32(uint32(p.part.size/parts)), p.next)
}

// prefetchNextTiles makes a product of several tiles prefetch the next ones into the
// second-level cache, where all panels but the first of a group of tiles will
// find them. A block's body calls it parts times; each call spreads its part of
// the lines over the next dots k-quads.
func (p *product) prefetchNextTiles(parts, dots int) {
	if p.tiles == 1 {
		return
	}
	lines := (p.tiles*p.part.size/parts + 63) / 64
	p.shares = nil
	for i := range dots {
		p.shares = append(p.shares, (i+1)*lines/dots-i*lines/dots)
	}
}

// prefetchLine prefetches what prefetchAhead, stream or prefetchNextTiles have for
// this k-quad, if anything.
func (p *product) prefetchLine() {
	if len(p.shares) > 0 {
		for i := range p.shares[0] {
			p.PREFETCHT1(at(p.next, 64*i))
		}
		p.ADDQ(operand.U32(uint32(64*p.shares[0])), p.next)
		p.shares = p.shares[1:]
	}
	if len(p.ahead) > 0 {
		p.PREFETCHT1(p.ahead[0])
		p.ahead = p.ahead[1:]
	}
	p.frame.prefetchLine()
}

// constant is a register of 16 equal dwords.
func (p *product) constant(v uint32) reg.VecVirtual {
	g, z := p.GP32(), p.ZMM()
	p.MOVL(operand.U32(v), g)
	p.VPBROADCASTD(g, z)
	return z
}

// store adds bias and what dst holds to the totals, where asked, and writes them.
func (p *product) store() {
	dst := p.Load(p.Param("dst"), p.GP64())
	stride := p.Load(p.Param("stride"), p.GP64())
	bias := p.Load(p.Param("bias"), p.GP64())
	add := p.Load(p.Param("add"), p.GP64())
	if p.total == nil {
		p.total = p.sum // free by now
		if p.sum == nil {
			p.total = p.zmms()
		}
		for t, rows := range p.total {
			for r, z := range rows {
				p.VMOVUPS(p.memory(t, r), z)
			}
		}
	}
	p.TESTQ(bias, bias)
	p.JZ(operand.LabelRef("unbiased"))
	for t, rows := range p.total {
		for _, z := range rows {
			p.VADDPS(at(bias, 64*t), z, z)
		}
	}
	p.Label("unbiased")
	p.TESTQ(add, add)
	p.JZ(operand.LabelRef("plain"))
	row := p.GP64()
	p.MOVQ(dst, row)
	for r := range p.rows {
		for t := range p.tiles {
			p.VADDPS(at(row, 64*t), p.total[t][r], p.total[t][r])
		}
		p.ADDQ(stride, row)
	}
	p.Label("plain")
	for r := range p.rows {
		for t := range p.tiles {
			p.VMOVUPS(p.total[t][r], at(dst, 64*t))
		}
		p.ADDQ(stride, dst)
	}
	p.Store(dst, p.Param("dst"))
}

// memory is where the float total of a tile and row is where it is in no register.
func (p *product) memory(t, r int) operand.Mem { return at(p.totals, 64*(t*p.rows+r)) }

func at(base reg.Register, disp int) operand.Mem {
	return operand.Mem{Base: base, Disp: disp}
}

// accumulate adds v times the panel's float at disp to a float total.
func (p *product) accumulate(t, r, disp int, v reg.VecVirtual) {
	if p.total != nil {
		p.VFMADD231PS_BCST(at(p.panel, disp), v, p.total[t][r])
		return
	}
	p.VBROADCASTSS(at(p.panel, disp), p.b)
	p.VFMADD213PS(p.memory(t, r), p.b, v)
	p.VMOVUPS(v, p.memory(t, r))
}

const rodata = attr.RODATA | attr.NOPTR

// table16 defines a symbol of sixteen bytes.
func table16(ctx *build.Context, name string, values [16]int, offset int) {
	ctx.StaticGlobal(name)
	ctx.DataAttributes(rodata)
	for i, v := range values {
		ctx.AddDatum(i, operand.U8(uint8(int8(v+offset))))
	}
}

// nonlinear is the symbol of the sixteen values of IQ4_NL and IQ4_XS: plus 128 in
// the AVX-512 products.
const nonlinear = "nonlinear4"

var nonlinearValues = [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

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

// high ors the bits of 64 bytes of each tile, shifted left (or right where left is
// negative) and masked, into p.w.
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

// lookup replaces the codes in p.w by what they stand for.
func (p *product) lookup(table reg.VecVirtual) {
	for _, w := range p.w {
		p.VPSHUFB(w, table, w)
	}
}

// dot adds four products per lane, row and tile: weights of k-quad kq, in p.w,
// with the rows' activations.
func (p *product) dot(kq int) {
	p.prefetchLine()
	for r := range p.rows {
		acts := at(p.panel, (kq*p.rows+r)*4)
		if p.tiles == 1 {
			p.VPDPBUSD_BCST(acts, p.w[0], p.sum[0][r])
			continue
		}
		p.VPBROADCASTD(acts, p.b)
		for t, w := range p.w {
			p.VPDPBUSD(p.b, w, p.sum[t][r])
		}
	}
}

func (p *product) zero(regs [][]reg.VecVirtual) {
	for _, rows := range regs {
		for _, z := range rows {
			p.VPXORD(z, z, z)
		}
	}
}

// offset starts the sums with the biases at base, moved to fit the codes' offset.
func (p *product) offset(base reg.Register, disp int) {
	shift := p.of.shift()
	for r := range p.rows {
		first, m := p.sum[0][r], at(base, disp+4*r)
		if shift == 0 {
			p.VPBROADCASTD(m, first)
		} else {
			p.VPSRAD_BCST(operand.U8(uint8(shift)), m, first)
		}
		for _, rows := range p.sum[1:] {
			p.VMOVDQA64(first, rows[r])
		}
	}
}

// scaled adds a tile's sums times a sub-block's scales to the integer totals.
func (p *product) scaled(t int, scale reg.VecVirtual) {
	for r, s := range p.sum[t] {
		p.VPMULLD(scale, s, s)
		p.VPADDD(s, p.isum[t][r], p.isum[t][r])
	}
}

// factor adds integer sums times the block's float16 factors and the
// activations' scales, at da, to the float totals.
func (p *product) factor(da int, sums [][]reg.VecVirtual) {
	scale := p.ZMM()
	for t := range p.tiles {
		p.VCVTPH2PS(p.weight(p.tile, p.part.factor, t), scale)
		for r, s := range sums[t] {
			p.VCVTDQ2PS(s, s)
			p.VMULPS(scale, s, s)
			p.accumulate(t, r, da+4*r, s)
		}
	}
}
