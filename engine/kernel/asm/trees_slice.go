package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// slicer computes 64 rows, a row in each byte of a register.
type slicer struct {
	*forest
	depth        int
	ranks, nodes reg.GPVirtual
	node         int            // of the tree, in the order of evaluation
	pair         reg.VecVirtual // index of the next pair's left leaf
	one, two     reg.VecVirtual
	root         reg.OpmaskVirtual
}

// slice evaluates perfect trees whole. Oblivious ones have a node for each level, the deepest first. Others go from the
// bottom up: every node picks the left or the right one of its children's leaf indices, and the root's index looks the
// leaf up in registers. Nodes lie in the order of evaluation, children before parents: the offset of the column's 64
// ranks, and the node's own rank four times.
func (f *forest) slice(name string, depth int, index func(*slicer, int) reg.VecVirtual) {
	f.function(fmt.Sprintf("%sDepth%dSum", name, depth),
		fmt.Sprintf("(sums *%s, ranks, nodes *byte, leaves *%s, n int)", f.float(), f.float()),
		"%s adds n > 0 perfect trees' leaves for 64 rows.")
	s := &slicer{forest: f, depth: depth, one: f.ZMM(), two: f.ZMM(), pair: f.ZMM()}
	sums := f.param("sums")
	s.ranks, s.nodes = f.param("ranks"), f.param("nodes")
	leaves, n := f.param("leaves"), f.param("n")
	fill := f.GP32()
	f.MOVL(operand.U32(0x01010101), fill)
	f.VPBROADCASTD(fill, s.one)
	f.VPADDB(s.one, s.one, s.two)
	sum := s.sums(sums)
	f.loop("tree", n, func() {
		s.node = 0
		f.VPXORD(s.pair, s.pair, s.pair)
		index := index(s, depth)
		if f.bits == 32 {
			s.lookup32(index, leaves, sum)
		} else {
			s.lookup64(index, leaves, sum)
		}
		f.ADDQ(operand.U32(uint32(8*s.node)), s.nodes)
		f.ADDQ(operand.U32(uint32(f.bits/8<<depth)), leaves)
	})
	s.store(sums, sum)
}

func (s *slicer) subtree(depth int) reg.VecVirtual {
	if depth == 1 {
		index := s.ZMM()
		k := s.right()
		s.VMOVDQA64(s.pair, index)
		s.VPADDB(s.one, index, k, index)
		s.VPADDB(s.two, s.pair, s.pair)
		return index
	}
	left := s.subtree(depth - 1)
	right := s.subtree(depth - 1)
	k := s.right()
	s.VMOVDQU8(right, k, left)
	s.root = k
	return left
}

// levels adds up the bits of an oblivious tree's levels.
func (s *slicer) levels(depth int) reg.VecVirtual {
	index, bit := s.ZMM(), s.ZMM()
	s.VPXORD(index, index, index)
	s.VMOVDQA64(s.one, bit)
	for level := range depth {
		if level > 0 {
			s.VPADDB(bit, bit, bit)
		}
		s.root = s.right()
		s.VPADDB(bit, index, s.root, index)
	}
	return index
}

// levels32 is levels with AVX2.
func (s *slicer) levels32(depth int) reg.VecVirtual {
	index, bit := s.YMM(), s.YMM()
	s.VPXOR(index, index, index)
	s.VPABSB(s.two, bit)
	s.VPSRLW(operand.U8(1), bit, bit)
	for level := range depth {
		if level > 0 {
			s.VPADDB(bit, bit, bit)
		}
		right := s.right32()
		s.VPAND(bit, right, right)
		s.VPADDB(right, index, index)
	}
	return index
}

// right gives the rows that go right at the next node.
func (s *slicer) right() reg.OpmaskVirtual {
	rank, offset, k := s.ZMM(), s.GP64(), s.K()
	s.MOVL(operand.Mem{Base: s.nodes, Disp: 8 * s.node}, offset.As32())
	s.VPBROADCASTD(operand.Mem{Base: s.nodes, Disp: 8*s.node + 4}, rank)
	const atMost = 2
	s.VPCMPUB(operand.U8(atMost), operand.Mem{Base: s.ranks, Index: offset, Scale: 1}, rank, k)
	s.node++
	return k
}

// lookup32 adds the leaves of 16 rows at a time; 32 leaves are one permutation of two registers.
func (s *slicer) lookup32(index reg.VecVirtual, leaves reg.GPVirtual, sum []reg.VecVirtual) {
	tables := make([]reg.VecVirtual, max(1, (1<<s.depth)/16))
	if s.depth == 3 {
		tables[0] = s.ZMM()
		s.VMOVUPS(operand.Mem{Base: leaves}, tables[0].AsY())
	} else {
		for i := range tables {
			tables[i] = s.ZMM()
			s.VMOVUPS(operand.Mem{Base: leaves, Disp: 64 * i}, tables[i])
		}
	}
	for part := range sum {
		at, leaf := s.ZMM(), s.ZMM()
		quarter := index.AsX()
		if part > 0 {
			x := s.XMM()
			s.VEXTRACTI32X4(operand.U8(uint8(part)), index, x)
			quarter = x
		}
		s.VPMOVZXBD(quarter, at)
		switch len(tables) {
		case 1:
			s.VPERMPS(tables[0], at, leaf)
		case 2:
			s.VMOVDQA64(at, leaf)
			s.VPERMI2PS(tables[1], tables[0], leaf)
		default:
			far, k := s.ZMM(), s.root
			if part > 0 {
				k = s.K()
				s.KSHIFTRQ(operand.U8(uint8(16*part)), s.root, k)
			}
			s.VMOVDQA64(at, leaf)
			s.VMOVDQA64(at, far)
			s.VPERMI2PS(tables[1], tables[0], leaf)
			s.VPERMI2PS(tables[3], tables[2], far)
			s.VMOVAPS(far, k, leaf)
		}
		s.VADDPS(leaf, sum[part], sum[part])
	}
}

// lookup64 adds the leaves of 8 rows at a time; 16 leaves are one permutation of two registers.
func (s *slicer) lookup64(index reg.VecVirtual, leaves reg.GPVirtual, sum []reg.VecVirtual) {
	pairs := max(1, (1<<s.depth)/16)
	var middle reg.OpmaskVirtual
	if pairs == 4 {
		bit := s.ZMM()
		middle = s.K()
		s.VPSLLW(operand.U8(4), s.one, bit)
		s.VPTESTMB(bit, index, middle)
	}
	first := make([]reg.VecVirtual, pairs)
	for i := range first {
		first[i] = s.ZMM()
		s.VMOVUPD(operand.Mem{Base: leaves, Disp: 128 * i}, first[i])
	}
	second := func(i int) operand.Mem { return operand.Mem{Base: leaves, Disp: 128*i + 64} }
	var quarter reg.VecVirtual
	for part := range sum {
		at := s.ZMM()
		switch {
		case part == 0:
			quarter = s.XMM()
			s.VMOVDQA64(index.AsX(), quarter)
		case part%2 == 0:
			quarter = s.XMM()
			s.VEXTRACTI32X4(operand.U8(uint8(part/2)), index, quarter)
		default:
			s.VPSRLDQ(operand.U8(8), quarter, quarter)
		}
		s.VPMOVZXBQ(quarter, at)
		shifted := func(of reg.OpmaskVirtual) reg.OpmaskVirtual {
			if part == 0 {
				return of
			}
			k := s.K()
			s.KSHIFTRQ(operand.U8(uint8(8*part)), of, k)
			return k
		}
		leaf := make([]reg.VecVirtual, pairs)
		for i := range leaf {
			leaf[i] = s.ZMM()
			if s.depth == 3 {
				s.VPERMPD(first[0], at, leaf[0])
				continue
			}
			s.VMOVDQA64(at, leaf[i])
			s.VPERMI2PD(second(i), first[i], leaf[i])
		}
		if pairs == 4 {
			k := shifted(middle)
			s.VMOVAPD(leaf[1], k, leaf[0])
			s.VMOVAPD(leaf[3], k, leaf[2])
			leaf[1] = leaf[2]
		}
		if pairs >= 2 {
			s.VMOVAPD(leaf[1], shifted(s.root), leaf[0])
		}
		s.VADDPD(leaf[0], sum[part], sum[part])
	}
}

// slice32 is slice with AVX2 for 32 rows. Leaves are loaded one by one.
func (f *forest) slice32(name string, depth int, index func(*slicer, int) reg.VecVirtual) {
	f.function(fmt.Sprintf("%sDepth%dSum", name, depth),
		fmt.Sprintf("(sums *%s, ranks, nodes *byte, leaves *%s, n int)", f.float(), f.float()),
		"%s adds n > 0 perfect trees' leaves for 32 rows.")
	s := &slicer{forest: f, depth: depth, two: f.YMM(), pair: f.YMM()}
	sums := f.param("sums")
	s.ranks, s.nodes = f.param("ranks"), f.param("nodes")
	leaves, n := f.param("leaves"), f.param("n")
	indices := f.AllocLocal(32)
	f.VPCMPEQB(s.two, s.two, s.two)
	f.VPADDB(s.two, s.two, s.two) // -2
	f.loop("tree", n, func() {
		s.node = 0
		f.VPXOR(s.pair, s.pair, s.pair)
		f.VMOVDQU(index(s, depth), indices)
		s.oneByOne(indices, sums, leaves)
		f.ADDQ(operand.U32(uint32(8*s.node)), s.nodes)
		f.ADDQ(operand.U32(uint32(f.bits/8<<depth)), leaves)
	})
	f.VZEROUPPER()
	f.RET()
}

func (s *slicer) subtree32(depth int) reg.VecVirtual {
	if depth == 1 {
		right := s.right32()
		s.VPSUBB(right, s.pair, right)
		s.VPSUBB(s.two, s.pair, s.pair)
		return right
	}
	left := s.subtree32(depth - 1)
	other := s.subtree32(depth - 1)
	right := s.right32()
	s.VPBLENDVB(right, other, left, left)
	return left
}

// sliceLeaves evaluates trees of any shape with up to that many leaves. A tree has the number of its nodes in four bytes,
// then for each node, children before parents, five times four bytes: the offset of the column's ranks, the rank four
// times, and where the leaf indices of the left child, of the right child and of the node are. All offsets are from ranks.
func (f *forest) sliceLeaves(leaves int) {
	rows := 32
	if f.wide {
		rows = 64
	}
	f.function(fmt.Sprintf("sliceLeaves%dSum", leaves),
		fmt.Sprintf("(sums *%s, ranks, nodes *byte, leaves *%s, n int)", f.float(), f.float()),
		fmt.Sprintf("%%s adds n > 0 trees' leaves for %d rows.", rows))
	s := &slicer{forest: f}
	sums := f.param("sums")
	s.ranks, s.nodes = f.param("ranks"), f.param("nodes")
	table, n := f.param("leaves"), f.param("n")
	sum := s.sums(sums)
	f.loop("tree", n, func() {
		count, to := f.GP64(), f.GP64()
		f.MOVL(operand.Mem{Base: s.nodes}, count.As32())
		f.ADDQ(operand.U32(4), s.nodes)
		index := f.vec()
		f.loop("node", count, func() {
			left, right := f.GP64(), f.GP64()
			f.MOVL(operand.Mem{Base: s.nodes, Disp: 8}, left.As32())
			f.MOVL(operand.Mem{Base: s.nodes, Disp: 12}, right.As32())
			f.MOVL(operand.Mem{Base: s.nodes, Disp: 16}, to.As32())
			at := func(offset reg.GPVirtual) operand.Mem { return operand.Mem{Base: s.ranks, Index: offset, Scale: 1} }
			s.node = 0
			if f.wide {
				k := s.right()
				f.VMOVDQU8(at(left), index)
				f.VMOVDQU8(at(right), k, index)
				f.VMOVDQU8(index, at(to))
			} else {
				mask := s.right32()
				f.VMOVDQU(at(left), index)
				f.VPBLENDVB(mask, at(right), index, index)
				f.VMOVDQU(index, at(to))
			}
			f.ADDQ(operand.U32(20), s.nodes)
		})
		switch {
		case !f.wide:
			f.ADDQ(s.ranks, to)
			s.oneByOne(operand.Mem{Base: to}, sums, table)
		case leaves == 256:
			s.gather(index, table, sum)
		default:
			s.byBits(index, leaves, table, sum)
		}
		f.ADDQ(operand.U32(uint32(f.bits/8*leaves)), table)
	})
	s.store(sums, sum)
}

// sums loads the sums of 64 rows; with AVX2 they stay in memory.
func (s *slicer) sums(from reg.GPVirtual) []reg.VecVirtual {
	if !s.wide {
		return nil
	}
	sum := make([]reg.VecVirtual, s.bits/8)
	for i := range sum {
		sum[i] = s.ZMM()
		s.VMOVUPS(operand.Mem{Base: from, Disp: 64 * i}, sum[i])
	}
	return sum
}

func (s *slicer) store(to reg.GPVirtual, sum []reg.VecVirtual) {
	for i := range sum {
		s.VMOVUPS(sum[i], operand.Mem{Base: to, Disp: 64 * i})
	}
	s.VZEROUPPER()
	s.RET()
}

// byBits adds the leaves of 64 rows out of 32 or 64 leaves.
func (s *slicer) byBits(index reg.VecVirtual, leaves int, table reg.GPVirtual, sum []reg.VecVirtual) {
	top, bits := s.ZMM(), s.GP32()
	s.one, s.root = s.ZMM(), s.K()
	s.MOVL(operand.U32(0x01010101), bits)
	s.VPBROADCASTD(bits, s.one)
	s.MOVL(operand.U32(0x01010101*uint32(leaves/2)), bits)
	s.VPBROADCASTD(bits, top)
	s.VPTESTMB(top, index, s.root)
	if s.depth = 5; leaves == 64 {
		s.depth = 6
	}
	if s.bits == 32 {
		s.lookup32(index, table, sum)
	} else {
		s.lookup64(index, table, sum)
	}
}

// gather adds the leaves of 64 rows out of 256 leaves.
func (s *slicer) gather(index reg.VecVirtual, table reg.GPVirtual, sum []reg.VecVirtual) {
	var quarter reg.VecVirtual
	for part := range sum {
		at, leaf, all := s.ZMM(), s.ZMM(), s.K()
		s.KXNORQ(reg.K0, reg.K0, all)
		s.VPXORD(leaf, leaf, leaf)
		rows := 512 / s.bits
		if first := part * rows; first%16 == 0 {
			quarter = s.XMM()
			s.VEXTRACTI32X4(operand.U8(uint8(first/16)), index, quarter)
		} else {
			s.VPSRLDQ(operand.U8(8), quarter, quarter)
		}
		if s.bits == 32 {
			s.VPMOVZXBD(quarter, at)
			s.VGATHERDPS(operand.Mem{Base: table, Index: at, Scale: 4}, all, leaf)
			s.VADDPS(leaf, sum[part], sum[part])
		} else {
			s.VPMOVZXBQ(quarter, at)
			s.VGATHERQPD(operand.Mem{Base: table, Index: at, Scale: 8}, all, leaf)
			s.VADDPD(leaf, sum[part], sum[part])
		}
	}
}

// oneByOne adds the leaves of 32 rows, whose indices lie at from, in memory.
func (s *slicer) oneByOne(from operand.Mem, sums, leaves reg.GPVirtual) {
	for row := range 32 {
		at, sum := s.GP64(), s.XMM()
		s.MOVBQZX(from.Offset(row), at)
		if s.bits == 32 {
			s.VMOVSS(operand.Mem{Base: sums, Disp: 4 * row}, sum)
			s.VADDSS(operand.Mem{Base: leaves, Index: at, Scale: 4}, sum, sum)
			s.VMOVSS(sum, operand.Mem{Base: sums, Disp: 4 * row})
		} else {
			s.VMOVSD(operand.Mem{Base: sums, Disp: 8 * row}, sum)
			s.VADDSD(operand.Mem{Base: leaves, Index: at, Scale: 8}, sum, sum)
			s.VMOVSD(sum, operand.Mem{Base: sums, Disp: 8 * row})
		}
	}
}

// right32 gives -1 in the rows that go right at the next node.
func (s *slicer) right32() reg.VecVirtual {
	rank, offset := s.YMM(), s.GP64()
	s.MOVL(operand.Mem{Base: s.nodes, Disp: 8 * s.node}, offset.As32())
	s.VPBROADCASTD(operand.Mem{Base: s.nodes, Disp: 8*s.node + 4}, rank)
	at := operand.Mem{Base: s.ranks, Index: offset, Scale: 1}
	s.VPMAXUB(at, rank, rank)
	s.VPCMPEQB(at, rank, rank)
	s.node++
	return rank
}
