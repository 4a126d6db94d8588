package gbdt

// forest is what scorers are prepared from.
type forest[S float] struct {
	*Ensemble
	tests   []nodeTest // by node
	values  []S        // by leaf
	parts   []part
	columns int
	copies  int // of each tree: the values of a leaf
	depth   int // of the deepest tree
	leaves  int // of the tree with the most of them

	oblivious bool // all nodes of a level of a tree have the same test
	output    int  // whose values of leaves count, where leaves have several
}

// of is the forest as a part sees it.
func (f *forest[S]) of(p part) *forest[S] {
	g := *f
	g.output = p.output
	return &g
}

// value is that of leaf ^n.
func (f *forest[S]) value(n int32) S {
	if f.Width == 1 {
		return f.values[^n]
	}
	return f.values[int(^n)*f.Width+f.output]
}

// perfect pads tree t to a perfect one of that depth: node i of 1<<depth has children 2i and 2i+1, the root is node 1,
// and leaf i is what follows 1<<depth. Where a leaf stands higher, all below it are that leaf.
func (f *forest[S]) perfect(t int32, depth int, nodes []nodeTest, leaves []S) {
	root, hi := f.nodes(int(t))
	if root == hi {
		root = ^f.Trees[t].Leaf
	}
	f.perfectBelow(root, 1, depth, nodes, leaves)
}

func (f *forest[S]) perfectBelow(n int32, at, depth int, nodes []nodeTest, leaves []S) {
	switch {
	case at >= 1<<depth:
		leaves[at-1<<depth] = f.value(n)
	case n < 0:
		nodes[at] = nodeTest{rank: missingRight}
		f.perfectBelow(n, 2*at, depth, nodes, leaves)
		f.perfectBelow(n, 2*at+1, depth, nodes, leaves)
	default:
		nodes[at] = f.tests[n]
		f.perfectBelow(f.Left[n], 2*at, depth, nodes, leaves)
		f.perfectBelow(f.Right[n], 2*at+1, depth, nodes, leaves)
	}
}

// levels gives the tests of an oblivious tree, the deepest first, and its leaves by the bits of those that go right. A tree
// that is not as deep has levels on top of which no row goes right.
func (f *forest[S]) levels(t int32, depth int, tests []nodeTest, leaves []S) {
	for i := range depth {
		tests[i] = nodeTest{rank: missingRight}
	}
	n, hi := f.nodes(int(t))
	first := f.Trees[t].Leaf
	if n == hi {
		f.fill(leaves[:1<<depth], []int32{^first})
		return
	}
	var all []nodeTest
	level := []int32{n}
	for level[0] >= 0 {
		all = append(all, f.tests[level[0]])
		below := make([]int32, 0, 2*len(level))
		for _, n := range level {
			below = append(below, f.Left[n], f.Right[n])
		}
		level = below
	}
	for i, test := range all {
		tests[len(all)-1-i] = test
	}
	f.fill(leaves[:1<<depth], level)
}

// fill repeats the values of leaves, whose number divides len(dst).
func (f *forest[S]) fill(dst []S, leaves []int32) {
	for i := range dst {
		dst[i] = f.value(leaves[i%len(leaves)])
	}
}

// isOblivious says whether every tree is perfect and tests the same at all nodes of a level.
func (f *forest[S]) isOblivious() bool {
	if f.depth > maxPaddedDepth {
		return false
	}
	for t := range f.Trees {
		n, hi := f.nodes(t)
		level := []int32{n}
		for n < hi && level[0] >= 0 {
			below := make([]int32, 0, 2*len(level))
			for _, n := range level {
				if n < 0 || f.tests[n] != f.tests[level[0]] {
					return false
				}
				below = append(below, f.Left[n], f.Right[n])
			}
			level = below
		}
		for _, n := range level {
			if n >= 0 && hi > f.Trees[t].Node {
				return false
			}
		}
	}
	return true
}

// maxPaddedDepth bounds the nodes of a padded tree.
const maxPaddedDepth = 8

// padded evaluates perfect trees without branches in plain Go, eight of them at a time for a single row so that their
// memory accesses overlap.
type padded[S float] struct {
	depth  int
	starts []int    // by part: its first tree
	nodes  []uint32 // by tree 1<<depth: the column above 8 bits of rank
	leaves []S      // by tree 1<<depth
}

func newPadded[S float](f *forest[S]) *padded[S] {
	p := &padded[S]{depth: f.depth}
	nodes := make([]nodeTest, 1<<f.depth)
	leaves := make([]S, 1<<f.depth)
	trees := 0
	for _, part := range f.parts {
		p.starts = append(p.starts, trees)
		trees += len(part.trees)
		f := f.of(part)
		for _, t := range part.trees {
			f.perfect(t, f.depth, nodes, leaves)
			for _, n := range nodes {
				p.nodes = append(p.nodes, uint32(n.column)<<8|uint32(n.rank))
			}
			p.leaves = append(p.leaves, leaves...)
		}
	}
	p.starts = append(p.starts, trees)
	return p
}

func (p *padded[S]) name() string { return "padded" }

func (p *padded[S]) lanes() int { return 1 }

func (p *padded[S]) bytes() int { return len(p.nodes)*4 + len(p.leaves)*sizeOf[S]() }

// paddedTrees is how many trees go down together.
const paddedTrees = 8

func (p *padded[S]) add(sums []S, ranks []byte, part int) {
	lo, hi := p.starts[part], p.starts[part+1]
	sum := sums[0]
	size := 1 << p.depth
	for ; lo+paddedTrees <= hi; lo += paddedTrees {
		nodes := p.nodes[lo<<p.depth : (lo+paddedTrees)<<p.depth]
		a, b, c, d, e, f, g, h := 1, 1, 1, 1, 1, 1, 1, 1
		for range p.depth {
			a = descend(nodes, 0, a, ranks)
			b = descend(nodes, size, b, ranks)
			c = descend(nodes, 2*size, c, ranks)
			d = descend(nodes, 3*size, d, ranks)
			e = descend(nodes, 4*size, e, ranks)
			f = descend(nodes, 5*size, f, ranks)
			g = descend(nodes, 6*size, g, ranks)
			h = descend(nodes, 7*size, h, ranks)
		}
		leaves := p.leaves[lo<<p.depth : (lo+paddedTrees)<<p.depth]
		sum += leaves[a-size]
		sum += leaves[b]
		sum += leaves[c+size]
		sum += leaves[d+2*size]
		sum += leaves[e+3*size]
		sum += leaves[f+4*size]
		sum += leaves[g+5*size]
		sum += leaves[h+6*size]
	}
	for ; lo < hi; lo++ {
		nodes, at := p.nodes[lo<<p.depth:(lo+1)<<p.depth], 1
		for range p.depth {
			at = descend(nodes, 0, at, ranks)
		}
		sum += p.leaves[lo<<p.depth+at-size]
	}
	sums[0] = sum
}

// descend steps from node at to its child.
func descend(nodes []uint32, tree, at int, ranks []byte) int {
	n := nodes[tree+at]
	right := 0
	if ranks[n>>8] >= uint8(n) {
		right = 1
	}
	return 2*at + right
}

func sizeOf[S float]() int {
	if single[S]() {
		return 4
	}
	return 8
}
