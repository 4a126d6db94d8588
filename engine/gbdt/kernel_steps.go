package gbdt

// steps goes down trees of any depth node by node, in plain Go and without a branch on a test: both children of a node
// follow one another, so that a step is a comparison of bytes and an addition. Eight trees go down together, so that
// their memory accesses overlap; a tree that is at its leaf stays there until all are.
type steps[S float] struct {
	starts []int    // by part: its first tree
	roots  []uint32 // by tree
	nodes  []uint64 // see stepNode
	values []S      // of a leaf, by its node
}

// stepNode packs a node: in 8 bits the highest rank that goes left, in 16 the column, above 32 the left child. A leaf
// goes left always, to itself.
func stepNode(column uint16, left uint8, child int) uint64 {
	return uint64(left) | uint64(column)<<8 | uint64(child)<<32
}

const (
	stepTrees = 8
	maxSteps  = 1 << 27 // nodes and leaves
)

func newSteps[S float](f *forest[S]) *steps[S] {
	s := &steps[S]{}
	n := f.copies * (len(f.Feature) + len(f.values)/f.Width)
	s.nodes, s.values = make([]uint64, 0, n), make([]S, 0, n)
	for _, p := range f.parts {
		s.starts = append(s.starts, len(s.roots))
		f := f.of(p)
		for _, t := range p.trees {
			s.roots = append(s.roots, uint32(len(s.nodes)))
			s.tree(f, t)
		}
	}
	s.starts = append(s.starts, len(s.roots))
	return s
}

// tree appends a tree, level by level.
func (s *steps[S]) tree(f *forest[S], t int32) {
	root, hi := f.nodes(int(t))
	if root == hi {
		root = ^f.Trees[t].Leaf
	}
	level := []int32{root}
	for len(level) > 0 {
		first := len(s.nodes) + len(level) // of the level below
		var below []int32
		for _, n := range level {
			if n < 0 {
				s.nodes = append(s.nodes, stepNode(0, missingRight, len(s.nodes)))
				s.values = append(s.values, f.value(n))
				continue
			}
			s.nodes = append(s.nodes, stepNode(f.tests[n].column, f.tests[n].rank-1, first+len(below)))
			s.values = append(s.values, 0)
			below = append(below, f.Left[n], f.Right[n])
		}
		level = below
	}
}

func (s *steps[S]) name() string { return "steps" }

func (s *steps[S]) lanes() int { return 1 }

func (s *steps[S]) bytes() int { return 4*len(s.roots) + len(s.nodes)*(8+sizeOf[S]()) }

func (s *steps[S]) add(sums []S, ranks []byte, part int) {
	lo, hi := s.starts[part], s.starts[part+1]
	sum, nodes, values := sums[0], s.nodes, s.values
	for ; lo+stepTrees <= hi; lo += stepTrees {
		r := s.roots[lo : lo+stepTrees : lo+stepTrees]
		a, b, c, d, e, f, g, h := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]
		for moved := uint32(1); moved != 0; {
			moved = step(nodes, &a, ranks) | step(nodes, &b, ranks) | step(nodes, &c, ranks) | step(nodes, &d, ranks) |
				step(nodes, &e, ranks) | step(nodes, &f, ranks) | step(nodes, &g, ranks) | step(nodes, &h, ranks)
		}
		sum += values[a]
		sum += values[b]
		sum += values[c]
		sum += values[d]
		sum += values[e]
		sum += values[f]
		sum += values[g]
		sum += values[h]
	}
	for ; lo < hi; lo++ {
		at := s.roots[lo]
		for step(nodes, &at, ranks) != 0 {
		}
		sum += values[at]
	}
	sums[0] = sum
}

// step moves on to a child and is 0 at a leaf.
func step(nodes []uint64, at *uint32, ranks []byte) uint32 {
	n := nodes[*at]
	next := uint32(n >> 32)
	if ranks[n>>8&0xffff] > uint8(n) {
		next++
	}
	moved := next ^ *at
	*at = next
	return moved
}
