package gbdt

import (
	"encoding/binary"
	"slices"
)

// slicedLeaves evaluates trees of any shape with up to 256 leaves for many rows together, as sliced does perfect ones.
// The leaf indices of a node's rows are written behind the ranks, where its parent reads them: first come a
// constant for each leaf, then slots, which nodes take like a stack.
type slicedLeaves[S float] struct {
	rows    int
	columns int
	size    int // leaves of a tree, padded
	used    int // leaves of the largest tree
	kernel  sliceFunc[S]
	starts  []int // by part: its first tree
	offsets []int // by part: its first byte of nodes; and the end
	nodes   []byte
	leaves  []S
}

const (
	sliceLeavesName = "slice leaves"
	// maxSlots is how many results wait at most: a tree of 256 leaves needs no more if its larger half goes first.
	maxSlots = 9
)

func newSlicedLeaves[S float](f *forest[S], lanes, leaves int, kernel sliceFunc[S]) *slicedLeaves[S] {
	s := &slicedLeaves[S]{rows: lanes, columns: f.columns, size: leaves, used: f.leaves, kernel: kernel}
	trees := 0
	for _, p := range f.parts {
		s.starts, s.offsets = append(s.starts, trees), append(s.offsets, len(s.nodes))
		trees += len(p.trees)
		f := f.of(p)
		for _, t := range p.trees {
			s.tree(f, t)
		}
	}
	s.starts, s.offsets = append(s.starts, trees), append(s.offsets, len(s.nodes))
	return s
}

// tree appends the number of a tree's nodes, the nodes, and the leaves in their own order.
func (s *slicedLeaves[S]) tree(f *forest[S], t int32) {
	n, hi := f.nodes(int(t))
	first, last := f.Ensemble.leaves(int(t))
	w := sliceWriter[S]{slicedLeaves: s, forest: f, lo: n, first: first, need: make([]int, hi-n)}
	if n == hi {
		s.put(1)
		s.put(0, 0, w.leaf(^first), w.leaf(^first), w.slot(0))
	} else {
		s.put(uint32(hi - n))
		w.measure(hi)
		w.below(n, 0)
	}
	for leaf := first; leaf < last; leaf++ {
		s.leaves = append(s.leaves, f.value(^leaf))
	}
	s.leaves = append(s.leaves, make([]S, s.size-int(last-first))...)
}

func (s *slicedLeaves[S]) put(words ...uint32) {
	for _, w := range words {
		s.nodes = binary.LittleEndian.AppendUint32(s.nodes, w)
	}
}

// sliceWriter writes the nodes of a tree, children first.
type sliceWriter[S float] struct {
	*slicedLeaves[S]
	forest    *forest[S]
	lo, first int32
	need      []int // by node: the slots that it takes
}

// behind is where the constants begin: ranks are kept for rowBlock rows.
func (s *slicedLeaves[S]) behind() int { return rowBlock * s.columns }

// leaf is the offset of the constant of a leaf.
func (w *sliceWriter[S]) leaf(n int32) uint32 { return uint32(w.behind() + int(^n-w.first)*w.rows) }

func (w *sliceWriter[S]) slot(i int) uint32 { return uint32(w.behind() + (w.used+i)*w.rows) }

// measure counts slots from the last node, whose children are leaves: the child that needs more goes first and leaves
// one slot with its result.
func (w *sliceWriter[S]) measure(hi int32) {
	for n := hi - 1; n >= w.lo; n-- {
		left, right := w.needs(w.forest.Left[n]), w.needs(w.forest.Right[n])
		if left == right {
			left++
		}
		w.need[n-w.lo] = max(left, right, 1)
	}
}

func (w *sliceWriter[S]) needs(n int32) int {
	if n < 0 {
		return 0
	}
	return w.need[n-w.lo]
}

// below writes n, whose result goes to slot, and says where its rows' leaf indices are.
func (w *sliceWriter[S]) below(n int32, slot int) uint32 {
	if n < 0 {
		return w.leaf(n)
	}
	children := [2]int32{w.forest.Left[n], w.forest.Right[n]}
	swapped := w.needs(children[1]) > w.needs(children[0])
	if swapped {
		children[0], children[1] = children[1], children[0]
	}
	var at [2]uint32
	at[0] = w.below(children[0], slot)
	at[1] = w.below(children[1], slot+b2i(children[0] >= 0))
	if swapped {
		at[0], at[1] = at[1], at[0]
	}
	test := w.forest.tests[n]
	w.put(uint32(test.column)*uint32(w.rows), uint32(test.rank)*0x01010101, at[0], at[1], w.slot(slot))
	return w.slot(slot)
}

func (s *slicedLeaves[S]) name() string { return sliceLeavesName }

func (s *slicedLeaves[S]) lanes() int { return s.rows }

func (s *slicedLeaves[S]) bytes() int { return len(s.nodes) + len(s.leaves)*sizeOf[S]() }

func (s *slicedLeaves[S]) room() int { return (s.used + maxSlots) * s.rows }

func (s *slicedLeaves[S]) prepare(behind []byte) {
	for leaf := range s.used {
		constant := behind[leaf*s.rows : (leaf+1)*s.rows]
		copy(constant, slices.Repeat([]byte{byte(leaf)}, s.rows))
	}
}

func (s *slicedLeaves[S]) add(sums []S, ranks []byte, part int) {
	lo, hi := s.starts[part], s.starts[part+1]
	_, _ = sums[s.rows-1], ranks[s.behind()+s.room()-1]
	nodes, leaves := s.nodes[s.offsets[part]:s.offsets[part+1]], s.leaves[lo*s.size:hi*s.size]
	s.kernel(&sums[0], &ranks[0], &nodes[0], &leaves[0], hi-lo)
}
