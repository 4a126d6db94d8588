package kvcache

import "math"

// Commit says that rows [0, verified) of the table are computed and final,
// tokens being the ids of the whole sequence so far. Blocks that are full now
// are published, or folded into a resident twin, and those that windows have passed are released, so t.Blocks may change.
// Rows of drafts that were not accepted must not be counted: nothing beyond
// verified is ever hashed. Where sequences have states, only rows become final behind which there is one (see Table.Advance): t.Tokens tells
// how many, and the others are computed again.
func (p *Pool) Commit(t *Table, tokens []int32, verified int) {
	if !p.holds(t) || verified < t.tokens || verified > min(t.grown, len(tokens)) {
		p.misuse("commit %d rows of %d tokens: the table is not live, has more, or was not grown that far", verified, len(tokens))
		return
	}
	if p.stateful {
		verified = t.reached(verified)
	}
	n := t.y.blockTokens
	for i := t.tokens / n; (i+1)*n <= verified; i++ {
		if p.seal(t, i, tokens[i*n:(i+1)*n]) && p.wide {
			p.sealSides(t, i)
		}
	}
	if t.tokens = verified; p.windowed {
		p.passWindows(t)
	}
	if p.Stateful() {
		t.settle()
	}
}

// seal publishes entry i of the table's chain, which holds ids from now on, and reports whether it is in the cache then. It stays
// private when the block before it is not in the cache (a window slid past it)
// or when another prefix occupies its hash.
func (p *Pool) seal(t *Table, i int, ids []int32) bool {
	b := t.blocks[i]
	parent := BlockID(0)
	if i > 0 {
		parent = t.blocks[i-1]
		if parent == 0 || !p.blocks[parent].published {
			return false
		}
	}
	d := &p.domains[t.domain]
	h := d.key.hashBlock(&p.buf, i == 0, p.blocks[parent].hash, ids)
	twin := p.index.find(h)
	switch {
	case twin == 0:
		p.publish(b, parent, h, ids)
	case p.same(twin, t.domain, parent, ids):
		p.fold(&t.list, i, twin)
	default:
		p.counts.Collisions++
		return false
	}
	return true
}

// sealSides publishes entry i of the other bands, on that of the chain.
func (p *Pool) sealSides(t *Table, i int) {
	chain := t.blocks[i]
	for s := range t.sides {
		l := &t.sides[s]
		if twin := *p.side(chain, s+1); twin != 0 {
			p.fold(l, i, twin)
		} else {
			p.hang(l.blocks[i], chain)
		}
	}
}

// fold takes a resident twin into the place of entry i.
func (bs *blockStore) fold(l *list, i int, twin BlockID) {
	b := l.blocks[i]
	bs.hold(twin)
	bs.raise(twin, bs.blocks[b].class)
	l.set(bs, i, twin)
	bs.drop(b)
	bs.counts.Folded++
}

// passWindows releases the blocks that no row after the final ones sees.
func (p *Pool) passWindows(t *Table) {
	n := t.y.blockTokens
	for band := len(p.bands) - 1; band >= 0; band-- {
		l := t.listOf(band)
		end := t.y.bands[band].passed(t.tokens, n)
		if end <= l.slid {
			continue
		}
		if band == 0 {
			l.slide(&p.blockStore, min(end, t.tokens/n-1)) // the next block needs its parent
			continue
		}
		ends := expectedEnds(t, band, end)
		for i := end - 1; i >= l.slid; i-- {
			order := ends.order(i)
			if b := l.blocks[i]; p.blocks[b].ref == 1 {
				p.marks[b].order = order
			}
			p.drop(l.blocks[i])
			l.set(&p.blockStore, i, 0)
		}
		l.slid = end
	}
	p.trim(t.domain)
}

// ends are the places at which a sequence may go on from what a table's band has cached: where another sequence did, and where
// Expect says so.
type ends struct {
	store    *blockStore
	chain    []BlockID
	whole    int // blocks of the chain that are final
	width    int // of the band
	next     int // nearest fork of the chain behind the block that was asked for last; beyond all blocks if there is none
	expected int
}

// expectedEnds looks for those that matter to the blocks before end.
func expectedEnds(t *Table, band, end int) ends {
	p := t.pool
	e := ends{
		store: &p.blockStore, chain: t.blocks, whole: t.tokens / t.y.blockTokens, width: t.y.bands[band].width, next: math.MaxInt,
		expected: t.expected / t.y.blockTokens,
	}
	for n := min(end-1+e.width, e.whole); n > end; n-- {
		e.look(n)
	}
	return e
}

// look notes whether the chain forks after n blocks: other sequences went on there otherwise. The table's own next block may
// not be there yet.
func (e *ends) look(n int) {
	b := e.chain[n-1]
	if b == 0 || !e.store.blocks[b].published {
		return
	}
	if e.store.marks[b].forked || n == e.whole && !e.store.children.empty(e.store.childRing(0, b)) {
		e.next = n
	}
}

// order is how block i is kept that the window passes. It is asked for falling i.
func (e *ends) order(i int) order {
	e.look(i + 1)
	switch {
	case e.next-i <= e.width:
		return byClass
	case i <= e.expected && e.expected-i <= e.width:
		return expectedNext
	}
	return passedFirst
}
