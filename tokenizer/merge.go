package tokenizer

import "slices"

// merger merges the symbols of one piece: always the pair of lowest rank, the
// leftmost of equals. It takes 8 bytes for each symbol that the piece starts
// with and, in pieces of several blocks, 16 for each block. It is scratch
// space, reused from piece to piece.
type merger struct {
	// symbols holds a symbol at the place where it starts. A symbol that was
	// joined from n > 1 places has -n at the second and at the last of them, so
	// that both neighbours find its length; noSymbol is -1 and no length.
	symbols []int32
	ranks   []uint32 // of the merge of the symbol that starts here with the next one; noRank for none
	// tree is a tournament over the blocks of ranks: block b's best is at
	// blocks+b, and each other node holds the lesser of its two children's, so
	// tree[1] is the best of all. Pieces of one block have none.
	tree []uint64
	work int // pair lookups, blocks searched and steps in the tree so far; tests bound it
}

// blockSymbols are searched one by one for the lowest rank.
const blockSymbols = 32

// noMerge is the best of a block in which nothing merges. Others are the rank
// above the place, so the lesser is the lower rank or further left.
const noMerge = uint64(noRank) << 32

// reset makes room for a piece of at most so many symbols.
func (m *merger) reset(symbols int) {
	m.symbols = slices.Grow(m.symbols[:0], symbols)
}

func (m *merger) push(symbol int32) { m.symbols = append(m.symbols, symbol) }

// run merges until nothing merges any more, or until p stops it.
func (m *merger) run(t *pairTable, p *pace) {
	n := len(m.symbols)
	if n < 2 {
		return
	}
	m.ranks = slices.Grow(m.ranks[:0], n)[:n]
	for i := range n - 1 {
		m.ranks[i], _ = t.find(m.symbols[i], m.symbols[i+1])
		if i%sliceWork == sliceWork-1 && !p.spend(sliceWork) {
			return
		}
	}
	m.ranks[n-1] = noRank
	m.work += n
	if n <= blockSymbols {
		m.tree = m.tree[:0]
		for best := m.bestOf(0); best < noMerge; best = m.bestOf(0) {
			m.join(t, int(uint32(best)))
		}
		return
	}
	m.buildTree()
	for m.tree[1] < noMerge && p.spend(mergeWork) {
		m.join(t, int(uint32(m.tree[1])))
	}
}

// bestOf finds the lowest rank of a block, the leftmost of equals.
func (m *merger) bestOf(block int) uint64 {
	m.work++
	from := block * blockSymbols
	rank, at := noRank, 0
	for i, r := range m.ranks[from:min(from+blockSymbols, len(m.ranks))] {
		if r < rank {
			rank, at = r, from+i
		}
	}
	return uint64(rank)<<32 | uint64(at)
}

// buildTree builds the tree.
func (m *merger) buildTree() {
	blocks := (len(m.ranks) + blockSymbols - 1) / blockSymbols
	m.tree = slices.Grow(m.tree[:0], 2*blocks)[:2*blocks]
	for b := range blocks {
		m.tree[blocks+b] = m.bestOf(b)
	}
	for i := blocks - 1; i > 0; i-- {
		m.tree[i] = min(m.tree[2*i], m.tree[2*i+1])
	}
}

// updateTree brings the tree up to date with a changed block.
func (m *merger) updateTree(block int) {
	at, best := len(m.tree)/2+block, m.bestOf(block)
	for m.tree[at] != best {
		m.tree[at] = best
		if at /= 2; at == 0 {
			return
		}
		m.work++
		best = min(m.tree[2*at], m.tree[2*at+1])
	}
}

// end is the place after the symbol that starts at i.
func (m *merger) end(i int) int {
	if i+1 < len(m.symbols) && m.symbols[i+1] < noSymbol {
		return i - int(m.symbols[i+1])
	}
	return i + 1
}

// before is the start of the symbol in front of the one that starts at i,
// which is not 0.
func (m *merger) before(i int) int {
	if n := m.symbols[i-1]; n < noSymbol {
		return i + int(n)
	}
	return i - 1
}

// join merges the symbol at i with the next one and ranks the two pairs
// that the new symbol is part of.
func (m *merger) join(t *pairTable, i int) {
	next := m.end(i)
	end := m.end(next)
	_, m.symbols[i] = t.find(m.symbols[i], m.symbols[next])
	m.symbols[i+1], m.symbols[end-1] = int32(i-end), int32(i-end)
	m.ranks[next] = noRank
	m.rank(t, i, end)
	from := i
	if i > 0 {
		from = m.before(i)
		m.rank(t, from, i)
	}
	if len(m.tree) == 0 {
		return
	}
	block := next / blockSymbols
	m.updateTree(block)
	for _, at := range [2]int{i, from} {
		if b := at / blockSymbols; b != block {
			block = b
			m.updateTree(block)
		}
	}
}

// rank ranks the pair of the symbols at i and next.
func (m *merger) rank(t *pairTable, i, next int) {
	m.work++
	m.ranks[i] = noRank
	if next < len(m.symbols) {
		m.ranks[i], _ = t.find(m.symbols[i], m.symbols[next])
	}
}
