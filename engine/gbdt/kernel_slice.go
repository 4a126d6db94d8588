package gbdt

import "encoding/binary"

// sliced evaluates perfect trees of up to depth 6 for many rows together, a row in each byte of a register: every node of
// a tree compares the ranks of its column with its own, and from the bottom up picks the leaf index of its left or of its
// right child. A leaf is looked up in registers by the root's index. There is no branch and no gather.
type sliced[S float] struct {
	depth  int
	size   int // nodes of a tree
	rows   int
	ranks  int // bytes of them that nodes read
	kernel sliceFunc[S]
	starts []int // by part: its first tree
	nodes  []byte
	leaves []S
}

// sliceFunc adds the leaves of n > 0 trees to the sums of all lanes.
type sliceFunc[S float] func(sums *S, ranks, nodes *byte, leaves *S, n int)

const (
	minSliceDepth = 3
	maxSliceDepth = 6
	sliceNode     = 8 // bytes: the offset of the column's ranks, and the rank four times
)

func newSlices[S float](f *forest[S], lanes int, kernel sliceFunc[S]) *sliced[S] {
	s := &sliced[S]{depth: max(f.depth, minSliceDepth), rows: lanes, kernel: kernel}
	if s.size = 1<<s.depth - 1; f.oblivious {
		s.size = s.depth
	}
	nodes := make([]nodeTest, 1<<s.depth)
	leaves := make([]S, 1<<s.depth)
	trees := 0
	for _, p := range f.parts {
		s.starts = append(s.starts, trees)
		trees += len(p.trees)
		f := f.of(p)
		for _, t := range p.trees {
			if f.oblivious {
				f.levels(t, s.depth, nodes, leaves)
				for _, n := range nodes[:s.depth] {
					s.put(n)
				}
			} else {
				f.perfect(t, s.depth, nodes, leaves)
				s.below(nodes, 1)
			}
			s.leaves = append(s.leaves, leaves...)
		}
	}
	s.starts = append(s.starts, trees)
	return s
}

// below writes the nodes under at and then at.
func (s *sliced[S]) below(nodes []nodeTest, at int) {
	if at >= len(nodes) {
		return
	}
	s.below(nodes, 2*at)
	s.below(nodes, 2*at+1)
	s.put(nodes[at])
}

func (s *sliced[S]) put(n nodeTest) {
	s.ranks = max(s.ranks, (int(n.column)+1)*s.rows)
	s.nodes = binary.LittleEndian.AppendUint32(s.nodes, uint32(n.column)*uint32(s.rows))
	s.nodes = binary.LittleEndian.AppendUint32(s.nodes, uint32(n.rank)*0x01010101)
}

func (s *sliced[S]) name() string { return sliceName(s.size == s.depth) }

func (s *sliced[S]) room() int { return 0 }

func (s *sliced[S]) prepare([]byte) {}

func sliceName(oblivious bool) string {
	if oblivious {
		return "slice oblivious"
	}
	return "slice"
}

func (s *sliced[S]) lanes() int { return s.rows }

func (s *sliced[S]) bytes() int { return len(s.nodes) + len(s.leaves)*sizeOf[S]() }

func (s *sliced[S]) add(sums []S, ranks []byte, part int) {
	lo, hi := s.starts[part], s.starts[part+1]
	_, _ = sums[s.rows-1], ranks[s.ranks-1]
	size := sliceNode * s.size
	s.kernel(&sums[0], &ranks[0], &s.nodes[lo*size : hi*size][0], &s.leaves[lo<<s.depth : hi<<s.depth][0], hi-lo)
}
