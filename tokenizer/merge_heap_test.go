package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/reference"
)

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

// heapMerger is an independent implementation to compare merger with: a linked
// list of symbols, and a heap of pairs that may hold stale ones.
type heapMerger struct {
	nodes []node
	heap  []uint64 // rank<<32 | index of the left node; may hold stale entries
}

// heapArity: four children to a node touch fewer cache lines than two.
const heapArity = 4

// reset makes room for a piece of so many symbols.
func (m *heapMerger) reset(symbols int) {
	m.nodes, m.heap = slices.Grow(m.nodes[:0], symbols), m.heap[:0]
}

func (m *heapMerger) push(symbol int32, start int) {
	i := int32(len(m.nodes))
	m.nodes = append(m.nodes, node{symbol: symbol, start: int32(start), prev: i - 1, next: i + 1})
}

// run merges until nothing merges any more. The survivors are the list that
// starts at node 0.
func (m *heapMerger) run(t *pairTable) {
	n := len(m.nodes)
	if n == 0 {
		return
	}
	m.nodes[n-1].next = -1
	for i := range m.nodes {
		m.rerank(t, int32(i))
	}
	m.runByHeap(t)
}

func (m *heapMerger) rerank(t *pairTable, i int32) {
	a := &m.nodes[i]
	a.rank = noRank
	if a.next >= 0 {
		a.rank, a.merged = t.find(a.symbol, m.nodes[a.next].symbol)
	}
}

// join merges node i with its right neighbour and reranks the two pairs that
// the new symbol is part of.
func (m *heapMerger) join(t *pairTable, i int32) {
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

func (m *heapMerger) runByHeap(t *pairTable) {
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

func (m *heapMerger) offer(i int32) {
	r := m.nodes[i].rank
	if r == noRank {
		return
	}
	m.heap = append(m.heap, uint64(r)<<32|uint64(uint32(i)))
	h := m.heap
	for at := len(h) - 1; at > 0; {
		up := (at - 1) / heapArity
		if h[up] <= h[at] {
			return
		}
		h[up], h[at] = h[at], h[up]
		at = up
	}
}

func (m *heapMerger) pop() uint64 {
	top, last := m.heap[0], len(m.heap)-1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.sink(0)
	return top
}

func (m *heapMerger) sink(at int) {
	h := m.heap
	for {
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

// mergeByHeap gives the surviving symbols and the places where they start.
func mergeByHeap(t *pairTable, symbols []int32) (left, starts []int32) {
	var m heapMerger
	m.reset(len(symbols))
	for i, s := range symbols {
		m.push(s, i)
	}
	m.run(t)
	if len(symbols) == 0 {
		return nil, nil
	}
	for i := int32(0); i >= 0; i = m.nodes[i].next {
		left, starts = append(left, m.nodes[i].symbol), append(starts, m.nodes[i].start)
	}
	return left, starts
}

func mergeByTournament(t *pairTable, m *merger, symbols []int32) (left, starts []int32) {
	m.reset(len(symbols))
	for _, s := range symbols {
		m.push(s)
	}
	m.run(t, new(pace))
	for i := 0; i < len(m.symbols); i = m.end(i) {
		left, starts = append(left, m.symbols[i]), append(starts, int32(i))
	}
	return left, starts
}

// adversarial are texts whose merges run in chains, in rounds, from either end
// or across blocks.
func adversarial(r *rand.Rand, n, letters int) []int32 {
	symbols := make([]int32, n)
	unit := 1 + r.IntN(70)
	switch r.IntN(4) {
	case 0: // one letter
	case 1: // a unit repeated, often as long as a block
		for i := range symbols {
			symbols[i] = int32(i%unit) % int32(letters)
		}
	case 2: // runs
		for i := range symbols {
			symbols[i] = int32(i/unit) % int32(letters)
		}
	case 3:
		for i := range symbols {
			symbols[i] = int32(r.IntN(letters))
		}
	}
	for range r.IntN(3) {
		symbols[r.IntN(n)] = noSymbol
	}
	return symbols
}

// TestMergerEqualsTheHeap compares them on tables of any merges, also such as
// no training makes: ranks that fall while symbols grow, and equal ones.
func TestMergerEqualsTheHeap(t *testing.T) {
	reference.Slow(t)
	r := rand.New(rand.NewPCG(5, 6))
	m := new(merger)
	words := 4000
	if testing.Short() {
		words = 500
	}
	for range words {
		letters := 1 + r.IntN(4)
		table, next := newPairTable(0), int32(letters)
		for range r.IntN(60) {
			merged := next
			if r.IntN(4) == 0 && next > int32(letters) {
				merged = int32(letters) + int32(r.IntN(int(next)-letters)) // two ways to one symbol
			} else {
				next++
			}
			table.add(int32(r.IntN(int(merged))), int32(r.IntN(int(merged))), uint32(r.IntN(40)), merged)
		}
		symbols := adversarial(r, 1+r.IntN(1200), letters)
		wantSymbols, wantStarts := mergeByHeap(table, symbols)
		gotSymbols, gotStarts := mergeByTournament(table, m, symbols)
		if !slices.Equal(gotSymbols, wantSymbols) || !slices.Equal(gotStarts, wantStarts) {
			t.Fatalf("%v:\n got %v at %v\nwant %v at %v", symbols, gotSymbols, gotStarts, wantSymbols, wantStarts)
		}
	}
}
