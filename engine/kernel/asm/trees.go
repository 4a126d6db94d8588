package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// trees writes the kernels of tree ensembles, which package gbdt explains: values become ranks, bytes that say how
// many of a column's thresholds a value reaches, and a node goes right where its column's rank is at least its own.
func trees(ctx *build.Context) {
	writeTrees(&forest{Context: ctx, wide: true, sizes: []int{64, 128, 256}})
}

func treesAVX2(ctx *build.Context) { writeTrees(&forest{Context: ctx, sizes: []int{32, 64, 128}}) }

func writeTrees(f *forest) {
	for _, bits := range []int{32, 64} {
		f.bits = bits
		f.rank()
		for _, depth := range []int{6, 7, 8} {
			for _, columns := range f.sizes {
				f.maskPerfect(depth, columns)
			}
		}
		for _, columns := range f.sizes {
			f.maskLeaves32(columns)
			f.maskLeaves64(columns)
			for _, depth := range []int{6, 8} {
				f.maskOblivious(depth, columns)
			}
		}
		for _, leaves := range []int{32, 64, 256} {
			f.sliceLeaves(leaves)
		}
		for _, depth := range []int{3, 4, 5, 6} {
			if f.wide {
				f.slice("slice", depth, (*slicer).subtree)
				f.slice("sliceOblivious", depth, (*slicer).levels)
			} else {
				f.slice32("slice", depth, (*slicer).subtree32)
				f.slice32("sliceOblivious", depth, (*slicer).levels32)
			}
		}
	}
}

// forest writes kernels whose rows or sums have bits bits.
type forest struct {
	*build.Context
	wide    bool  // AVX-512, or AVX2
	sizes   []int // of the tables of columns
	bits    int
	written bool // the table of ways
}

func (f *forest) float() string { return fmt.Sprint("float", f.bits) }

func (f *forest) function(name, signature, doc string) {
	level := "AVX2"
	if f.wide {
		level = "AVX512"
	}
	name = fmt.Sprintf("%s%d%s", name, f.bits, level)
	f.Function(name)
	f.Attributes(attr.NOSPLIT)
	f.Pragma("noescape")
	f.SignatureExpr("func" + signature)
	f.Doc(fmt.Sprintf(doc, name))
}

func (f *forest) param(name string) reg.GPVirtual {
	return f.Load(f.Param(name), f.GP64()).(reg.GPVirtual)
}

// loop runs body count times, count being at least one.
func (f *forest) loop(label string, count reg.GPVirtual, body func()) {
	f.Label(label)
	body()
	f.DECQ(count)
	f.JNZ(operand.LabelRef(label))
}

// rank finds how many of a column's thresholds a value reaches in two looks at 16 of them: the last of each block of
// 16, then the block where the count ends. A place beyond the last threshold holds NaN, which no value reaches.
func (f *forest) rank() {
	f.function("rank", fmt.Sprintf("(dst *byte, stride int, row *%s, columns *uint64, thresholds *%s, n int)", f.float(), f.float()),
		"%s writes the ranks of n > 0 columns of a row, stride bytes apart.")
	dst, stride, row := f.param("dst"), f.param("stride"), f.param("row")
	columns, thresholds, n := f.param("columns"), f.param("thresholds"), f.param("n")
	size := f.bits / 8
	feature, block, rank, missing, part := f.GP64(), f.GP64(), f.GP64(), f.GP64(), f.GP64()
	x := f.vec()
	count := func(at operand.Mem, into reg.GPVirtual) {
		f.reached(at, x, into)
		f.POPCNTL(into.As32(), into.As32())
	}
	f.loop("column", n, func() {
		f.MOVL(operand.Mem{Base: columns}, feature.As32())
		f.MOVL(operand.Mem{Base: columns, Disp: 4}, missing.As32())
		value := operand.Mem{Base: row, Index: feature, Scale: uint8(size)}
		if f.bits == 32 {
			f.VBROADCASTSS(value, x)
		} else {
			f.VBROADCASTSD(value, x)
		}
		count(operand.Mem{Base: thresholds}, block)
		f.SHLQ(operand.U8(4), block)
		count(operand.Mem{Base: thresholds, Index: block, Scale: uint8(size), Disp: 16 * size}, part)
		f.LEAQ(operand.Mem{Base: block, Index: part, Scale: 1}, rank)
		if f.bits == 32 {
			f.VUCOMISS(x.AsX(), x.AsX())
		} else {
			f.VUCOMISD(x.AsX(), x.AsX())
		}
		f.CMOVQPS(missing, rank)
		f.MOVB(rank.As8(), operand.Mem{Base: dst})
		f.ADDQ(stride, dst)
		f.ADDQ(operand.U32(8), columns)
		f.ADDQ(operand.U32(uint32(17*16*size)), thresholds)
	})
	f.VZEROUPPER()
	f.RET()
}

// reached gives a bit for each of 16 thresholds that are not above x.
func (f *forest) reached(at operand.Mem, x reg.VecVirtual, into reg.GPVirtual) {
	const atLeast = 0x1d // ordered, quiet
	switch {
	case f.wide && f.bits == 32:
		k := f.K()
		f.VCMPPS(operand.U8(atLeast), at, x, k)
		f.KMOVW(k, into.As32())
	case f.wide:
		k, high := f.K(), f.K()
		f.VCMPPD(operand.U8(atLeast), at, x, k)
		f.VCMPPD(operand.U8(atLeast), at.Offset(64), x, high)
		f.KUNPCKBW(k, high, k)
		f.KMOVW(k, into.As32())
	default:
		for i, lanes := 0, 256/f.bits; i < 16; i += lanes {
			v, part := f.YMM(), into
			if i > 0 {
				part = f.GP64()
			}
			if f.bits == 32 {
				f.VCMPPS(operand.U8(atLeast), at.Offset(4*i), x, v)
				f.VMOVMSKPS(v, part.As32())
			} else {
				f.VCMPPD(operand.U8(atLeast), at.Offset(8*i), x, v)
				f.VMOVMSKPD(v, part.As32())
			}
			if i > 0 {
				f.SHLL(operand.U8(uint8(i)), part.As32())
				f.ORL(part.As32(), into.As32())
			}
		}
	}
}

func (f *forest) vec() reg.VecVirtual {
	if f.wide {
		return f.ZMM()
	}
	return f.YMM()
}

// nodeLanes is what the kernels share that compute one row with nodes in lanes.
type nodeLanes struct {
	*forest
	ranks         []reg.VecVirtual // 64 columns each, or the same 16 in both halves
	nodes, leaves reg.GPVirtual
	sum           reg.VecVirtual
	group         int // bytes of 64 nodes
}

func (f *forest) nodeLanes(name string, columns int, doc string) (*nodeLanes, reg.GPVirtual, reg.GPVirtual) {
	f.function(fmt.Sprintf("%sColumns%dSum", name, columns),
		fmt.Sprintf("(sum *%s, ranks, nodes *byte, leaves *%s, n int)", f.float(), f.float()), doc)
	m := &nodeLanes{forest: f}
	result, ranks := f.param("sum"), f.param("ranks")
	m.nodes, m.leaves = f.param("nodes"), f.param("leaves")
	n := f.param("n")
	m.group = 128
	if !f.wide {
		m.group = 64 * (columns/16 + 1)
	}
	for c := 0; c < columns; c += 64 {
		if f.wide {
			v := f.ZMM()
			f.VMOVDQU8(operand.Mem{Base: ranks, Disp: c}, v)
			m.ranks = append(m.ranks, v)
			continue
		}
		for at := c; at < min(c+64, columns); at += 16 {
			v := f.YMM()
			f.VBROADCASTI128(operand.Mem{Base: ranks, Disp: at}, v)
			m.ranks = append(m.ranks, v)
		}
	}
	m.sum = f.XMM()
	if f.bits == 32 {
		f.VMOVSS(operand.Mem{Base: result}, m.sum)
	} else {
		f.VMOVSD(operand.Mem{Base: result}, m.sum)
	}
	return m, result, n
}

func (m *nodeLanes) end(result reg.GPVirtual) {
	if m.bits == 32 {
		m.VMOVSS(m.sum, operand.Mem{Base: result})
	} else {
		m.VMOVSD(m.sum, operand.Mem{Base: result})
	}
	m.VZEROUPPER()
	m.RET()
}

// right gives the bits of the nodes of a group that go right. AVX-512 has 64 bytes of columns and 64 of ranks. AVX2 has
// 64 bytes for each 16 columns, which are beyond 127 where the node's column is none of those, and 64 of ranks.
func (m *nodeLanes) right(group int) reg.GPVirtual {
	bits := m.GP64()
	if !m.wide {
		m.half(group, 0, bits)
		high := m.GP64()
		m.half(group, 1, high)
		m.SHLQ(operand.U8(32), high)
		m.ORQ(high, bits)
		return bits
	}
	disp := m.group * group
	column, k := m.ZMM(), m.K()
	m.VMOVDQU8(operand.Mem{Base: m.nodes, Disp: disp}, column)
	switch len(m.ranks) {
	case 1:
		m.VPERMB(m.ranks[0], column, column)
	case 2:
		m.VPERMI2B(m.ranks[1], m.ranks[0], column)
	default:
		far, high := m.ZMM(), m.K()
		m.VPMOVB2M(column, high)
		m.VMOVDQA64(column, far)
		m.VPERMI2B(m.ranks[1], m.ranks[0], column)
		m.VPERMI2B(m.ranks[3], m.ranks[2], far)
		m.VMOVDQU8(far, high, column)
	}
	const atLeast = 5
	m.VPCMPUB(operand.U8(atLeast), operand.Mem{Base: m.nodes, Disp: disp + 64}, column, k)
	m.KMOVQ(k, bits)
	return bits
}

// half gives the bits of 32 nodes of a group.
func (m *nodeLanes) half(group, half int, bits reg.GPVirtual) {
	rank, next := m.YMM(), m.YMM()
	for i, table := range m.ranks {
		at := operand.Mem{Base: m.nodes, Disp: m.group*group + 64*i + 32*half}
		if i == 0 {
			m.VPSHUFB(at, table, rank)
			continue
		}
		m.VPSHUFB(at, table, next)
		m.VPOR(next, rank, rank)
	}
	m.VPMAXUB(operand.Mem{Base: m.nodes, Disp: m.group*(group+1) - 64 + 32*half}, rank, next)
	m.VPCMPEQB(next, rank, rank)
	m.VPMOVMSKB(rank, bits.As32())
}

// add adds the leaf at index, disp leaves further on.
func (m *nodeLanes) add(index reg.GPVirtual, disp int) {
	at := operand.Mem{Base: m.leaves, Index: index, Scale: uint8(m.bits / 8), Disp: disp * m.bits / 8}
	if m.bits == 32 {
		m.VADDSS(at, m.sum, m.sum)
	} else {
		m.VADDSD(at, m.sum, m.sum)
	}
}

// maskPerfect evaluates trees padded to a depth of 6, 7 or 8. The bits of the first three levels' nodes are the highest of
// seven bytes, those of the eight trees below them the rest of a byte each: a table of 7 bits gives the way through three
// levels. Each level below has a bit test and an addition with carry.
func (f *forest) maskPerfect(depth, columns int) {
	m, result, n := f.nodeLanes(fmt.Sprint("maskDepth", depth), columns,
		"%s adds n > 0 perfect trees' leaves for one row.")
	tables, first := f.GP64(), f.GP64()
	f.LEAQ(f.ways(), tables)
	f.MOVQ(operand.U64(0x0080808080808080), first)
	f.loop("tree", n, func() {
		right := make([]reg.GPVirtual, 1<<(depth-6))
		for i := range right {
			right[i] = m.right(i)
		}
		below, at := f.GP64(), f.GP64()
		f.PEXTQ(first, right[0], below)
		f.MOVBQZX(operand.Mem{Base: tables, Index: below, Scale: 1}, below)
		f.SHRXQ(below, right[0], at)
		f.ANDL(operand.I32(127), at.As32())
		f.MOVBQZX(operand.Mem{Base: tables, Index: at, Scale: 1, Disp: 128}, at)
		f.ADDQ(below, at)
		down := func(bits reg.GPVirtual) {
			f.BTQ(at, bits) // the index counts modulo 64
			f.ADCQ(at, at)
		}
		if depth >= 7 {
			down(right[1])
		}
		if depth >= 8 {
			f.BTQ(operand.U8(6), at)
			f.CMOVQCS(right[3], right[2])
			down(right[2])
		}
		m.add(at, 0)
		f.ADDQ(operand.U32(uint32(m.group*len(right))), m.nodes)
		f.ADDQ(operand.U32(uint32(f.bits/8<<depth)), m.leaves)
	})
	m.end(result)
}

// ways is the leaf that seven nodes lead to, by the bits of those that go right: eight times its index, then the index.
func (f *forest) ways() operand.Mem {
	const name = "trees_ways"
	if f.written {
		return operand.Mem{Symbol: operand.NewStaticSymbol(name), Base: reg.StaticBase}
	}
	f.written = true
	m := f.StaticGlobal(name)
	f.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, scale := range []int{8, 1} {
		for bits := range 128 {
			at := 1
			for range 3 {
				at = 2*at + bits>>(at-1)&1
			}
			f.AppendDatum(operand.U8(uint8(scale * (at - 8))))
		}
	}
	return m
}

// maskLeaves32 evaluates pairs of trees of any shape with up to 32 leaves. Leaves count from left to right; a row's
// leaf is the first that has no node above it which goes right while the leaf is on its left. The pair's nodes
// are followed by one such set of nodes for each leaf.
func (f *forest) maskLeaves32(columns int) {
	m, result, n := f.nodeLanes("maskLeaves32", columns,
		"%s adds n > 0 pairs of trees' leaves for one row.")
	f.loop("pair", n, func() {
		bits := m.right(0)
		for tree := range 2 {
			leaf := f.GP64()
			if f.wide {
				set, low, high := f.ZMM(), f.K(), f.K()
				f.VPBROADCASTD(bits.As32(), set)
				f.VPTESTNMD(operand.Mem{Base: m.nodes, Disp: m.group + 128*tree}, set, low)
				f.VPTESTNMD(operand.Mem{Base: m.nodes, Disp: m.group + 128*tree + 64}, set, high)
				f.KUNPCKWD(low, high, low)
				f.KMOVD(low, leaf.As32())
			} else {
				m.firstLeaf(32, m.group+128*tree, bits, leaf)
			}
			f.TZCNTL(leaf.As32(), leaf.As32())
			m.add(leaf, 32*tree)
			if tree == 0 {
				f.SHRQ(operand.U8(32), bits)
			}
		}
		f.ADDQ(operand.U32(uint32(m.group+2*128)), m.nodes)
		f.ADDQ(operand.U32(uint32(64*f.bits/8)), m.leaves)
	})
	m.end(result)
}

// maskLeaves64 is maskLeaves32 with one tree at a time.
func (f *forest) maskLeaves64(columns int) {
	m, result, n := f.nodeLanes("maskLeaves64", columns,
		"%s adds n > 0 trees' leaves for one row.")
	f.loop("tree", n, func() {
		bits := m.right(0)
		leaf := f.GP64()
		if f.wide {
			m.allLeaves(bits, leaf)
		} else {
			m.firstLeaf(64, m.group, bits, leaf)
		}
		f.TZCNTQ(leaf, leaf)
		m.add(leaf, 0)
		f.ADDQ(operand.U32(uint32(m.group+512)), m.nodes)
		f.ADDQ(operand.U32(uint32(64*f.bits/8)), m.leaves)
	})
	m.end(result)
}

// maskOblivious evaluates eight oblivious trees at a time: a level has one test, and the bits of a tree's levels, the
// deepest first, are a byte and the index of its leaf.
func (f *forest) maskOblivious(depth, columns int) {
	m, result, n := f.nodeLanes(fmt.Sprint("maskOblivious", depth), columns,
		"%s adds n > 0 times eight oblivious trees' leaves for one row.")
	used := f.GP64()
	if depth < 8 {
		f.MOVQ(operand.U64(0x0101010101010101*(1<<depth-1)), used)
	}
	f.loop("trees", n, func() {
		bits := m.right(0)
		if depth < 8 {
			f.ANDQ(used, bits)
		}
		for tree := range 8 {
			leaf := f.GP64()
			f.MOVBQZX(bits.As8L(), leaf)
			if tree < 7 {
				f.SHRQ(operand.U8(8), bits)
			}
			m.add(leaf, tree<<depth)
		}
		f.ADDQ(operand.U32(uint32(m.group)), m.nodes)
		f.ADDQ(operand.U32(uint32(8*f.bits/8<<depth)), m.leaves)
	})
	m.end(result)
}

// allLeaves gives the leaves of 64 that no node of bits excludes.
func (m *nodeLanes) allLeaves(bits, leaves reg.GPVirtual) {
	set := m.ZMM()
	m.VPBROADCASTQ(bits, set)
	var join func(first, count int) reg.OpmaskVirtual
	join = func(first, count int) reg.OpmaskVirtual {
		if count == 1 {
			k := m.K()
			m.VPTESTNMQ(operand.Mem{Base: m.nodes, Disp: m.group + 64*first}, set, k)
			return k
		}
		low, high := join(first, count/2), join(first+count/2, count/2)
		switch count {
		case 2:
			m.KUNPCKBW(low, high, low)
		case 4:
			m.KUNPCKWD(low, high, low)
		default:
			m.KUNPCKDQ(low, high, low)
		}
		return low
	}
	m.KMOVQ(join(0, 8), leaves)
}

// firstLeaf is allLeaves with AVX2, for 32 leaves with sets of 32 bits or 64 with sets of as many.
func (m *nodeLanes) firstLeaf(width, disp int, bits, leaves reg.GPVirtual) {
	x, set, zero := m.XMM(), m.YMM(), m.YMM()
	m.VPXOR(zero, zero, zero)
	if width == 32 {
		m.VMOVD(bits.As32(), x)
		m.VPBROADCASTD(x, set)
	} else {
		m.VMOVQ(bits, x)
		m.VPBROADCASTQ(x, set)
	}
	for i, lanes := 0, 256/width; i < width; i += lanes {
		v, part := m.YMM(), leaves
		if i > 0 {
			part = m.GP64()
		}
		m.VPAND(operand.Mem{Base: m.nodes, Disp: disp + i*width/8}, set, v)
		if width == 32 {
			m.VPCMPEQD(zero, v, v)
			m.VMOVMSKPS(v, part.As32())
		} else {
			m.VPCMPEQQ(zero, v, v)
			m.VMOVMSKPD(v, part.As32())
		}
		if i > 0 {
			m.SHLQ(operand.U8(uint8(i)), part)
			m.ORQ(part, leaves)
		}
	}
}
