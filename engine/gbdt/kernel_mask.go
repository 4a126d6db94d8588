package gbdt

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// masks evaluates all nodes of a tree for one row with two vector instructions, a node in each lane: one looks the ranks
// of the nodes' columns up in a register, one compares. The result is a word with a bit for each node that goes right,
// from which a row's leaf follows without a branch or a gather:
//
//   - perfect trees of depth 6 to 8 look three levels up at a time, and what is below six bit by bit;
//   - trees of any shape with up to 32 or 64 leaves compare the word with a set of nodes for each leaf: a row's leaf
//     is the first from the left that has no node above it which goes right while the leaf is on its left.
type masks[S float] struct {
	layout maskLayout
	kernel maskFunc[S]
	starts []int // by part: its first step
	nodes  []byte
	leaves []S
}

// maskFunc adds the leaves of n > 0 steps for one row.
type maskFunc[S float] func(sum *S, ranks, nodes *byte, leaves *S, n int)

// maskLayout is how a kernel reads trees.
type maskLayout struct {
	name   string
	depth  int // of perfect trees; 0 for any shape
	leaves int // of a tree
	trees  int // that are evaluated in one step
	nodes  int // bytes of a step
}

const nodeLanes = 64

var maskLayouts = []maskLayout{
	{name: "mask depth 6", depth: 6, leaves: 64, trees: 1, nodes: 2 * nodeLanes},
	{name: "mask leaves 32", leaves: 32, trees: 2, nodes: 2*nodeLanes + 2*4*32},
	{name: "mask depth 7", depth: 7, leaves: 128, trees: 1, nodes: 4 * nodeLanes},
	{name: "mask leaves 64", leaves: 64, trees: 1, nodes: 2*nodeLanes + 8*64},
	{name: "mask depth 8", depth: 8, leaves: 256, trees: 1, nodes: 8 * nodeLanes},
}

// kind groups layouts that differ by size only.
func (l maskLayout) kind() string {
	if l.depth > 0 {
		return "mask depth"
	}
	return "mask leaves"
}

// fits says whether the layout holds the trees of a forest.
func (l maskLayout) fits(depth, leaves int) bool {
	if l.depth > 0 {
		return depth <= l.depth
	}
	return leaves <= l.leaves
}

func newMasks[S float](f *forest[S], l maskLayout, kernel maskFunc[S]) *masks[S] {
	m := &masks[S]{layout: l, kernel: kernel}
	steps := 0
	for _, p := range f.parts {
		m.starts = append(m.starts, steps)
		steps += (len(p.trees) + l.trees - 1) / l.trees
	}
	m.starts = append(m.starts, steps)
	m.nodes = make([]byte, steps*l.nodes)
	m.leaves = make([]S, steps*l.trees*l.leaves)
	for i := range m.leaves {
		// What a sum does not change by: the leaves of the trees that complete a step.
		m.leaves[i] = S(math.Copysign(0, -1))
	}
	for i, p := range f.parts {
		for j, t := range p.trees {
			step := m.starts[i] + j/l.trees
			nodes := m.nodes[step*l.nodes : (step+1)*l.nodes]
			leaves := m.leaves[(step*l.trees+j%l.trees)*l.leaves:][:l.leaves]
			if l.depth > 0 {
				f.maskPerfect(t, l.depth, nodes, leaves)
			} else {
				a := shaped[S]{forest: f, nodes: nodes, leaves: leaves, layout: l, tree: j % l.trees}
				a.fill(t)
			}
		}
	}
	return m
}

// maskPerfect writes groups of 64 nodes: their columns, then their ranks. The first group holds six levels, the second one
// the seventh, the others the eighth.
func (f *forest[S]) maskPerfect(t int32, depth int, dst []byte, leaves []S) {
	nodes := make([]nodeTest, 1<<depth)
	f.perfect(t, depth, nodes, leaves)
	for i, n := range nodes[1:] {
		lane := maskLane(i + 1)
		group := dst[lane/nodeLanes*2*nodeLanes:]
		group[lane%nodeLanes], group[nodeLanes+lane%nodeLanes] = byte(n.column), n.rank
	}
}

// maskLane is the lane of node i of a perfect tree. The nodes of the first three levels have the last bit of a byte each,
// and those of the eight trees below them, which go three levels further, the first seven bits of a byte.
func maskLane(i int) int {
	level := bits.Len(uint(i)) - 1
	switch {
	case level < 3:
		return 8*(i-1) + 7
	case level < 6:
		below := 1<<(level-3) | i&(1<<(level-3)-1)
		return (i>>(level-3)-8)*8 + below - 1
	}
	return i
}

// shaped writes a tree of any shape: 64 columns, 64 ranks, then the sets of the leaves of each of the layout's trees.
type shaped[S float] struct {
	*forest[S]
	nodes  []byte
	leaves []S
	layout maskLayout
	tree   int // of the step's
	node   int // nodes met
	leaf   int // leaves met
}

func (a *shaped[S]) fill(t int32) {
	root, hi := a.forest.nodes(int(t))
	if root == hi {
		root = ^a.Trees[t].Leaf
	}
	a.below(root, 0)
}

// below writes what n leads to; above are the nodes that have it on their left.
func (a *shaped[S]) below(n int32, above uint64) {
	width := nodeLanes / a.layout.trees
	if n < 0 {
		a.leaves[a.leaf] = a.values[^n]
		sets := a.nodes[2*nodeLanes+a.tree*a.layout.leaves*width/8:]
		if width == 32 {
			binary.LittleEndian.PutUint32(sets[4*a.leaf:], uint32(above))
		} else {
			binary.LittleEndian.PutUint64(sets[8*a.leaf:], above)
		}
		a.leaf++
		return
	}
	node := a.node
	a.node++
	lane := a.tree*width + node
	a.nodes[lane], a.nodes[nodeLanes+lane] = byte(a.tests[n].column), a.tests[n].rank
	a.below(a.Left[n], above|1<<node)
	a.below(a.Right[n], above)
}

func (m *masks[S]) name() string { return m.layout.name }

func (m *masks[S]) lanes() int { return 1 }

func (m *masks[S]) bytes() int { return len(m.nodes) + len(m.leaves)*sizeOf[S]() }

func (m *masks[S]) add(sums []S, ranks []byte, part int) {
	lo, hi := m.starts[part], m.starts[part+1]
	m.kernel(&sums[0], &ranks[0], &m.nodes[lo*m.layout.nodes], &m.leaves[lo*m.layout.trees*m.layout.leaves], hi-lo)
}
