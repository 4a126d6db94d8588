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
//   - oblivious trees, which test the same at all nodes of a level, have a byte of the word each, which is the leaf's
//     index: eight trees are evaluated together;
//   - trees of any shape with up to 32 or 64 leaves compare the word with a set of nodes for each leaf: a row's leaf
//     is the first from the left that has no node above it which goes right while the leaf is on its left.
type masks[S float] struct {
	layout maskLayout
	kernel maskFunc[S]
	tables int   // of columns, see put
	step   int   // bytes of a step's nodes
	starts []int // by part: its first step
	nodes  []byte
	leaves []S
}

// maskFunc adds the leaves of n > 0 steps for one row.
type maskFunc[S float] func(sum *S, ranks, nodes *byte, leaves *S, n int)

// maskLayout is which trees a kernel reads.
type maskLayout struct {
	name   string
	depth  int // of perfect or oblivious trees; 0 for any shape
	leaves int // of a tree
	trees  int // that are evaluated in one step
	groups int // of 64 nodes in a step
	sets   int // bytes of the leaves' sets that follow them

	oblivious bool
}

const nodeLanes = 64

var maskLayouts = []maskLayout{
	{name: "mask oblivious 6", depth: 6, leaves: 64, trees: 8, groups: 1, oblivious: true},
	{name: "mask oblivious 8", depth: 8, leaves: 256, trees: 8, groups: 1, oblivious: true},
	{name: "mask depth 6", depth: 6, leaves: 64, trees: 1, groups: 1},
	{name: "mask leaves 32", leaves: 32, trees: 2, groups: 1, sets: 2 * 32 * 4},
	{name: "mask depth 7", depth: 7, leaves: 128, trees: 1, groups: 2},
	{name: "mask leaves 64", leaves: 64, trees: 1, groups: 1, sets: 64 * 8},
	{name: "mask depth 8", depth: 8, leaves: 256, trees: 1, groups: 4},
}

// treeBytes is the bytes of a tree's nodes.
func (l maskLayout) treeBytes(tables int) int {
	return (l.groups*nodeLanes*(tables+1) + l.sets) / l.trees
}

// kind groups layouts that differ by size only.
func (l maskLayout) kind() string {
	switch {
	case l.oblivious:
		return "mask oblivious"
	case l.depth > 0:
		return "mask depth"
	}
	return "mask leaves"
}

// fits says whether the layout holds the trees of a forest.
func (l maskLayout) fits(depth, leaves int, oblivious bool) bool {
	if l.depth > 0 {
		return depth <= l.depth && (oblivious || !l.oblivious)
	}
	return leaves <= l.leaves
}

func newMasks[S float](f *forest[S], l maskLayout, kernel maskFunc[S], tables int) *masks[S] {
	m := &masks[S]{layout: l, kernel: kernel, tables: tables, step: l.groups*nodeLanes*(tables+1) + l.sets}
	steps := 0
	for _, p := range f.parts {
		m.starts = append(m.starts, steps)
		steps += (len(p.trees) + l.trees - 1) / l.trees
	}
	m.starts = append(m.starts, steps)
	m.nodes = make([]byte, steps*m.step)
	m.leaves = make([]S, steps*l.trees*l.leaves)
	for i := range m.leaves {
		// What a sum does not change by: the leaves of the trees that complete a step.
		m.leaves[i] = S(math.Copysign(0, -1))
	}
	for i, p := range f.parts {
		f := f.of(p)
		for j, t := range p.trees {
			step := m.starts[i] + j/l.trees
			nodes := m.nodes[step*m.step : (step+1)*m.step]
			leaves := m.leaves[(step*l.trees+j%l.trees)*l.leaves:][:l.leaves]
			switch {
			case l.oblivious:
				m.levels(f, t, j%l.trees, nodes, leaves)
			case l.depth > 0:
				m.perfect(f, t, nodes, leaves)
			default:
				a := shaped[S]{masks: m, forest: f, nodes: nodes, leaves: leaves, tree: j % l.trees}
				a.fill(t)
			}
		}
	}
	return m
}

// put writes a node's test. A group of 64 nodes has 64 bytes of columns and 64 of ranks. With several tables there are
// 64 bytes for each: the place of the column among the table's 16, or one beyond 127 if it is in another.
func (m *masks[S]) put(nodes []byte, lane int, test nodeTest) {
	group := nodes[lane/nodeLanes*nodeLanes*(m.tables+1):]
	lane %= nodeLanes
	if m.tables == 1 {
		group[lane] = byte(test.column)
	}
	for t := 0; t < m.tables && m.tables > 1; t++ {
		group[t*nodeLanes+lane] = 0x80
		if int(test.column)/16 == t {
			group[t*nodeLanes+lane] = byte(test.column % 16)
		}
	}
	group[m.tables*nodeLanes+lane] = test.rank
}

// perfect writes a padded tree. The first group holds six levels, the second one the seventh, the others the eighth.
func (m *masks[S]) perfect(f *forest[S], t int32, dst []byte, leaves []S) {
	nodes := make([]nodeTest, 1<<m.layout.depth)
	f.perfect(t, m.layout.depth, nodes, leaves)
	for i, n := range nodes[1:] {
		m.put(dst, maskLane(i+1), n)
	}
}

// levels writes an oblivious tree, which has eight lanes.
func (m *masks[S]) levels(f *forest[S], t int32, tree int, dst []byte, leaves []S) {
	var tests [8]nodeTest
	f.levels(t, m.layout.depth, tests[:], leaves)
	for i, test := range tests[:m.layout.depth] {
		m.put(dst, 8*tree+i, test)
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

// shaped writes a tree of any shape: a group of nodes, then the sets of the leaves of each of the layout's trees.
type shaped[S float] struct {
	masks *masks[S]
	*forest[S]
	nodes  []byte
	leaves []S
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
	width := nodeLanes / a.masks.layout.trees
	if n < 0 {
		a.leaves[a.leaf] = a.value(n)
		sets := a.nodes[len(a.nodes)-a.masks.layout.sets+a.tree*width*width/8:]
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
	a.masks.put(a.nodes, a.tree*width+node, a.tests[n])
	a.below(a.Left[n], above|1<<node)
	a.below(a.Right[n], above)
}

func (m *masks[S]) name() string { return m.layout.name }

func (m *masks[S]) lanes() int { return 1 }

func (m *masks[S]) bytes() int { return len(m.nodes) + len(m.leaves)*sizeOf[S]() }

func (m *masks[S]) add(sums []S, ranks []byte, part int) {
	lo, hi, leaves := m.starts[part], m.starts[part+1], m.layout.trees*m.layout.leaves
	_ = ranks[rankPad-1]
	m.kernel(&sums[0], &ranks[0], &m.nodes[lo*m.step : hi*m.step][0], &m.leaves[lo*leaves : hi*leaves][0], hi-lo)
}
