package kvcache

import "slices"

// list is a table's blocks of one band.
type list struct {
	blocks []BlockID
	gens   []uint32    // of the blocks when they entered, for Check
	mates  [][]BlockID // the other pages of the blocks, by group
	slid   int         // leading blocks released
}

func (l *list) push(bs *blockStore, b BlockID) {
	l.blocks = append(l.blocks, b)
	l.gens = append(l.gens, bs.blocks[b].gen)
	for i := range l.mates {
		b = bs.mates[b]
		l.mates[i] = append(l.mates[i], b)
	}
}

func (l *list) set(bs *blockStore, i int, b BlockID) {
	l.blocks[i], l.gens[i] = b, bs.blocks[b].gen
	for j := range l.mates {
		b = bs.mates[b]
		l.mates[j][i] = b
	}
}

// resize makes room for n entries, which the caller sets.
func (l *list) resize(n int) {
	l.blocks = slices.Grow(l.blocks[:0], n)[:n]
	l.gens = slices.Grow(l.gens[:0], n)[:n]
	for i := range l.mates {
		l.mates[i] = slices.Grow(l.mates[i][:0], n)[:n]
	}
}

// cut takes the last entry off.
func (l *list) cut() BlockID {
	n := len(l.blocks) - 1
	b := l.blocks[n]
	l.blocks, l.gens = l.blocks[:n], l.gens[:n]
	for i := range l.mates {
		l.mates[i] = l.mates[i][:n]
	}
	return b
}

// shape gives an empty list the lists of so many pages.
func (l *list) shape(pages int) {
	if pages == 1 {
		l.mates = nil
	} else if len(l.mates) != pages-1 {
		l.mates = make([][]BlockID, pages-1)
	}
	l.slid = 0
}

// shrink drops all but the first n blocks of a list, tail first.
func (l *list) shrink(bs *blockStore, n int) {
	for i := len(l.blocks) - 1; l.mates == nil && i >= n; i-- {
		b := l.blocks[i]
		l.blocks, l.gens = l.blocks[:i], l.gens[:i]
		bs.drop(b)
	}
	for len(l.blocks) > n {
		bs.drop(l.cut())
	}
}

// slide releases the first blocks of a list, up to end.
func (l *list) slide(bs *blockStore, end int) {
	for i := end - 1; i >= l.slid; i-- {
		b := l.blocks[i]
		l.set(bs, i, 0)
		bs.drop(b)
	}
	l.slid = max(l.slid, end)
}

// share makes a list a second owner of the first n blocks of another one.
func (l *list) share(bs *blockStore, src *list, n int) {
	l.resize(n)
	for i, b := range src.blocks[:n] {
		if b != 0 {
			bs.hold(b)
		}
		l.set(bs, i, b)
	}
	l.slid = src.slid
}

// sole is how many pages of a list no other table holds.
func (l *list) sole(bs *blockStore) (pages int) {
	for _, b := range l.blocks {
		if b != 0 && bs.blocks[b].ref == 1 {
			pages += bs.pagesOf(b)
		}
	}
	return pages
}

// mustReplace reports whether the row after the final ones, if it is one of the first rows, goes to a block that may not be written.
func (l *list) mustReplace(bs *blockStore, y *Shape, tokens, rows int) bool {
	tail := tokens / y.blockTokens
	return rows > tokens && tail < len(l.blocks) && !bs.blocks[l.blocks[tail]].writable()
}
