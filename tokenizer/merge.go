package tokenizer

import (
	"math/bits"
	"slices"
)

// noSymbol stands for a piece of text that takes part in no merge.
const noSymbol int32 = -1

// noRank marks a pair that does not merge.
const noRank = ^uint32(0)

// pairTable maps an ordered pair of symbols to the symbol they merge into and
// the rank of that merge; lower ranks merge first. It is an open-addressed
// hash table, at most two thirds full, and read-only once built. Large
// vocabularies make it larger than the caches, so two things keep most lookups
// out of it: a dense table for the pairs of bytes, with which every piece
// starts, and a filter that knows most pairs that do not merge.
type pairTable struct {
	slots  []pairSlot
	shift  uint
	count  int
	dense  []mergeStep // by left*denseSymbols+right, for the first symbols; nil without such pairs
	filter []uint64    // bit set by hash; all zero bits are pairs that do not merge
}

type mergeStep struct {
	rank   uint32
	merged int32
}

type pairSlot struct {
	key uint64 // left<<32 | right, plus one; 0 is an empty slot
	mergeStep
}

// denseSymbols: byte-level vocabularies give the bytes the first ids.
const denseSymbols = 256

// filterBits per slot; at 8 about one in twenty absent pairs passes.
const filterBits = 8

func newPairTable(pairs int) *pairTable {
	t := new(pairTable)
	t.resize(max(bits.Len(uint(pairs+pairs/2)), 4))
	return t
}

func (t *pairTable) resize(width int) {
	t.slots, t.shift, t.count = make([]pairSlot, 1<<width), uint(64-width), 0
	t.filter = make([]uint64, len(t.slots)*filterBits/64)
}

func pairHash(left, right int32) (key, hash uint64) {
	key = (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1
	hash = key * 0x9E3779B97F4A7C15
	return key, hash ^ hash>>32
}

// add keeps the first entry of a pair, as the first of two equal merges wins.
func (t *pairTable) add(left, right int32, rank uint32, merged int32) {
	if left < denseSymbols && right < denseSymbols {
		t.addDense(left, right, mergeStep{rank, merged})
		return
	}
	if t.count*3 >= len(t.slots)*2 {
		t.grow()
	}
	key, hash := pairHash(left, right)
	t.insert(hash, pairSlot{key, mergeStep{rank, merged}})
}

func (t *pairTable) addDense(left, right int32, step mergeStep) {
	if t.dense == nil {
		t.dense = make([]mergeStep, denseSymbols*denseSymbols)
		for i := range t.dense {
			t.dense[i] = mergeStep{noRank, noSymbol}
		}
	}
	if at := &t.dense[left*denseSymbols+right]; at.rank == noRank {
		*at = step
	}
}

func (t *pairTable) insert(hash uint64, s pairSlot) {
	i := int(hash >> t.shift)
	for t.slots[i].key != 0 {
		if t.slots[i].key == s.key {
			return
		}
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = s
	t.count++
	bit := t.filterBit(hash)
	t.filter[bit/64] |= 1 << (bit % 64)
}

// filterBit takes the low half of the hash; the slot takes the high bits.
func (t *pairTable) filterBit(hash uint64) int {
	return int(hash) & (len(t.filter)*64 - 1)
}

func (t *pairTable) grow() {
	old := t.slots
	t.resize(int(64-t.shift) + 1)
	for _, s := range old {
		if s.key != 0 {
			_, hash := pairHash(int32((s.key-1)>>32), int32(s.key-1))
			t.insert(hash, s)
		}
	}
}

// find returns noRank where the pair does not merge.
func (t *pairTable) find(left, right int32) (rank uint32, merged int32) {
	if left < 0 || right < 0 {
		return noRank, noSymbol
	}
	if left < denseSymbols && right < denseSymbols {
		if t.dense == nil {
			return noRank, noSymbol
		}
		step := t.dense[left*denseSymbols+right]
		return step.rank, step.merged
	}
	key, hash := pairHash(left, right)
	if bit := t.filterBit(hash); t.filter[bit/64]&(1<<(bit%64)) == 0 {
		return noRank, noSymbol
	}
	for i := int(hash >> t.shift); ; i = (i + 1) & (len(t.slots) - 1) {
		switch s := &t.slots[i]; s.key {
		case key:
			return s.rank, s.merged
		case 0:
			return noRank, noSymbol
		}
	}
}

// node is one symbol of a piece while it is being merged. Dead nodes have
// been swallowed by their left neighbour.
type node struct {
	symbol int32
	start  int32 // byte offset in the piece
	prev   int32
	next   int32  // -1 at the end
	rank   uint32 // of the merge with next; noRank for none or when dead
	merged int32  // what that merge makes
}

// merger merges the symbols of one piece: always the pair of lowest rank, the
// leftmost of equals. It is scratch space, reused from piece to piece.
type merger struct {
	nodes []node
	heap  []uint64 // rank<<32 | index of the left node; may hold stale entries
	work  int      // heap moves and pair lookups so far; tests bound it
}

// scanLimit is the number of symbols up to which a linear search for the
// lowest rank beats the heap.
const scanLimit = 24

// heapArity: four children to a node touch fewer cache lines than two.
const heapArity = 4

// reset makes room for a piece of so many symbols.
func (m *merger) reset(symbols int) {
	m.nodes, m.heap = slices.Grow(m.nodes[:0], symbols), m.heap[:0]
}

func (m *merger) push(symbol int32, start int) {
	i := int32(len(m.nodes))
	m.nodes = append(m.nodes, node{symbol: symbol, start: int32(start), prev: i - 1, next: i + 1})
}

// run merges until nothing merges any more. The survivors are the list that
// starts at node 0.
func (m *merger) run(t *pairTable) {
	n := len(m.nodes)
	if n == 0 {
		return
	}
	m.nodes[n-1].next = -1
	for i := range m.nodes {
		m.rerank(t, int32(i))
	}
	if n <= scanLimit {
		m.runByScan(t)
		return
	}
	m.runByHeap(t)
}

func (m *merger) rerank(t *pairTable, i int32) {
	m.work++
	a := &m.nodes[i]
	a.rank = noRank
	if a.next >= 0 {
		a.rank, a.merged = t.find(a.symbol, m.nodes[a.next].symbol)
	}
}

// join merges node i with its right neighbour and reranks the two pairs that
// the new symbol is part of.
func (m *merger) join(t *pairTable, i int32) {
	a := &m.nodes[i]
	b := &m.nodes[a.next]
	a.symbol, a.next, b.rank = a.merged, b.next, noRank
	if a.next >= 0 {
		m.nodes[a.next].prev = i
	}
	m.rerank(t, i)
	if a.prev >= 0 {
		m.rerank(t, a.prev)
	}
}

func (m *merger) runByScan(t *pairTable) {
	for {
		best, rank := int32(-1), noRank
		for i := int32(0); i >= 0; i = m.nodes[i].next {
			if r := m.nodes[i].rank; r < rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			return
		}
		m.join(t, best)
	}
}

func (m *merger) runByHeap(t *pairTable) {
	for i := range m.nodes {
		if r := m.nodes[i].rank; r != noRank {
			m.heap = append(m.heap, uint64(r)<<32|uint64(i))
		}
	}
	for i := (len(m.heap) - 2) / heapArity; i >= 0; i-- {
		m.sink(i)
	}
	for len(m.heap) > 0 {
		top := m.pop()
		i := int32(top & 0xffffffff)
		if m.nodes[i].rank != uint32(top>>32) {
			continue // stale: the pair has changed since it was pushed
		}
		m.join(t, i)
		m.offer(i)
		if p := m.nodes[i].prev; p >= 0 {
			m.offer(p)
		}
	}
}

func (m *merger) offer(i int32) {
	r := m.nodes[i].rank
	if r == noRank {
		return
	}
	m.heap = append(m.heap, uint64(r)<<32|uint64(uint32(i)))
	h := m.heap
	for at := len(h) - 1; at > 0; {
		m.work++
		up := (at - 1) / heapArity
		if h[up] <= h[at] {
			return
		}
		h[up], h[at] = h[at], h[up]
		at = up
	}
}

func (m *merger) pop() uint64 {
	top, last := m.heap[0], len(m.heap)-1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.sink(0)
	return top
}

func (m *merger) sink(at int) {
	h := m.heap
	for {
		m.work++
		first := heapArity*at + 1
		if first >= len(h) {
			return
		}
		child := first
		for c := first + 1; c < min(first+heapArity, len(h)); c++ {
			if h[c] < h[child] {
				child = c
			}
		}
		if h[at] <= h[child] {
			return
		}
		h[at], h[child] = h[child], h[at]
		at = child
	}
}
