package kvcache

import "slices"

// Table is the list of blocks that hold one sequence's KV: row i is row
// i mod BlockTokens of block i / BlockTokens. The zero value is ready for
// Pool.Begin; after Pool.Release the same table can be begun again and keeps
// its capacity. A begun table must not be copied or moved.
type Table struct {
	pool     *Pool  // nil between Release and Begin
	y        *Shape // of its domain
	place    int    // in pool.tables
	domain   int32
	class    Class
	list            // of the chain
	sides    []list // of the other bands
	tokens   int    // rows whose KV is final
	grown    int    // rows that may be written: what the last Grow covered in all bands
	expected int    // rows after which other sequences may go on otherwise
	tableState
}

// listOf is the table's list of a band.
func (t *Table) listOf(band int) *list {
	if band == 0 {
		return &t.list
	}
	return &t.sides[band-1]
}

// Blocks lists the blocks of a group of layers, in order: row i of the sequence is row i mod BlockTokens of block
// i / BlockTokens, and the null block stands where a window has passed. It is valid until the next call
// that changes the table; callers only read it.
func (t *Table) Blocks(group int) []BlockID {
	if t.pool == nil {
		return nil
	}
	at := t.pool.places[group]
	l := t.listOf(at.band)
	if at.page == 0 {
		return l.blocks
	}
	return l.mates[at.page-1]
}

// Tokens is the number of leading rows whose KV is computed and final.
func (t *Table) Tokens() int { return t.tokens }

// Class is the retention class of blocks that the table takes from now on.
func (t *Table) Class() Class { return t.class }

// Expect says that other sequences may begin with the first rows of this one and go on otherwise: what windows see before
// there stays in the cache for longer than what they pass elsewhere. It holds until Release.
func (t *Table) Expect(rows int) { t.expected = rows }

// Grown is how many leading rows may be written: what the last Grow covered in all groups.
func (t *Table) Grown() int { return t.grown }

// Capacity is how many rows the table's blocks have of the groups that see farthest.
func (t *Table) Capacity() int {
	if t.pool == nil {
		return 0
	}
	return len(t.blocks) * t.y.blockTokens
}

// Held is how many blocks the table names, of all groups, without those that are full of the first rows.
func (t *Table) Held(from int) (blocks int) {
	if t.pool == nil {
		return 0
	}
	first := from / t.y.blockTokens
	for i := range t.pool.bands {
		l := t.listOf(i)
		blocks += max(0, len(l.blocks)-max(l.slid, first)) * t.pool.bands[i].pages
	}
	return blocks
}

// Borrowed is how many of its blocks other tables hold as well, of the groups without a window.
func (t *Table) Borrowed() int {
	if t.pool == nil || t.pool.bands[0].window > 0 {
		return 0
	}
	return t.Held(0) - t.heldOfWindows() - t.sole(&t.pool.blockStore)
}

// heldOfWindows is Held of the groups with a window.
func (t *Table) heldOfWindows() (blocks int) {
	for i := range t.sides {
		blocks += (len(t.sides[i].blocks) - t.sides[i].slid) * t.pool.bands[i+1].pages
	}
	return blocks
}

// Sole is how many blocks of a table no other table holds: Release makes those free that are not pinned.
func (t *Table) Sole() int {
	if t.pool == nil {
		return 0
	}
	n := t.sole(&t.pool.blockStore)
	for i := range t.sides {
		n += t.sides[i].sole(&t.pool.blockStore)
	}
	return n
}

// fewestRows is the least to which a live table can be truncated: what the row after them sees must be there.
func (t *Table) fewestRows() int {
	least := 0
	for i := range t.y.bands {
		l, w := t.listOf(i), t.y.bands[i].window
		if l.slid > 0 {
			least = max(least, min(l.slid*t.y.blockTokens+max(w-1, 0), t.tokens))
		}
	}
	return least
}

// Copy asks the engine to copy the first Rows rows of block Src to Dst, in all
// layers of a group. The copies of a step are executed in the order in which they were
// appended, before any row of the step is written; none may be left out.
type Copy struct {
	Src, Dst BlockID
	Rows     int
	Group    int  // of Config.Windows
	Fine     bool // of a fine domain
}

// Begin binds an empty table to a domain, with class Normal. Every begun table
// needs a Release.
func (p *Pool) Begin(t *Table, d Domain) {
	if t.pool != nil {
		p.misuse("begin a table that was not released")
		return
	}
	slot := p.openDomain(d)
	p.adopt(t, slot, Normal)
}

// adopt enters a table into the list of live ones.
func (p *Pool) adopt(t *Table, slot int32, c Class) {
	t.pool, t.place, t.domain, t.class = p, len(p.tables), slot, c
	t.y = p.ShapeOf(p.domains[slot].key)
	t.tokens, t.grown, t.slid, t.expected = 0, 0, 0, 0
	if p.wide || len(t.sides)+len(t.mates) > 0 {
		t.shape(p.bands)
	}
	p.tables = append(p.tables, t)
	p.domains[slot].tables++
}

// shape gives an empty table the lists of a pool.
func (t *Table) shape(bands []band) {
	t.list.shape(bands[0].pages)
	if len(t.sides) != len(bands)-1 {
		t.sides = make([]list, len(bands)-1)
	}
	for i := range t.sides {
		t.sides[i].shape(bands[i+1].pages)
	}
}

// holds reports whether t is a live table of this pool, and not a copy of one.
func (p *Pool) holds(t *Table) bool {
	return t.pool == p && t.place < len(p.tables) && p.tables[t.place] == t
}

// demand is what covering rows with table t takes: fresh blocks, and how many
// idle blocks there are for them once the hit is held. cow says that the tail
// block must be replaced. ok is false for a table of another pool and for a
// hit that has gone stale.
func (p *Pool) demand(t *Table, rows int, hit *Hit) (need, idle int, cow, ok bool) {
	if !p.holds(t) {
		return 0, 0, false, false
	}
	if p.Stateful() && len(t.blocks) == 0 && !p.states.affordable(hit) {
		return 0, 0, false, false
	}
	if !p.simple {
		return demandAll(p, t, rows, hit)
	}
	idle = p.FreeNow()
	if len(t.blocks) == 0 && hit.Tokens > 0 {
		if !p.current(hit) {
			return 0, 0, false, false
		}
		for b := hit.last; b != 0; b = p.blocks[b].parent {
			if p.blocks[b].idle() {
				idle--
			}
		}
		return t.y.blocksFor(max(rows, hit.Tokens)) - hit.Full, idle, false, true
	}
	need = max(0, t.y.blocksFor(rows)-len(t.blocks))
	if tail := t.tokens / t.y.blockTokens; rows > t.tokens && tail < len(t.blocks) {
		if cow = !p.blocks[t.blocks[tail]].writable(); cow {
			need++
		}
	}
	return need, idle, cow, true
}

// CanGrow says whether Grow with the same arguments would succeed, and how
// many blocks it would take from FreeNow beside those of the hit. need is 0
// with ok false when the table is not begun or the hit is stale.
func (p *Pool) CanGrow(t *Table, rows int, hit Hit) (need int, ok bool) {
	need, idle, _, ok := p.demand(t, rows, &hit)
	return need, ok && p.affords(t.domain, need, idle)
}

// CanGrowBeside is CanGrow where so many blocks more must be free; need counts them.
func (p *Pool) CanGrowBeside(t *Table, rows int, hit Hit, spare int) (need int, ok bool) {
	need, idle, _, ok := p.demand(t, rows, &hit)
	if need += spare; !ok {
		return 0, false
	}
	return need, p.affords(t.domain, need, idle)
}

// CanGrowAlone says whether GrowAlone would succeed.
func (p *Pool) CanGrowAlone(t *Table, rows int, hit Hit) bool {
	need, idle, _, ok := p.demand(t, rows, &hit)
	return ok && need <= idle
}

// Grow makes rows [t.Tokens(), rows) of the table writable, all or nothing. An
// empty table first takes the blocks of the hit, so that t.Tokens() is
// hit.Tokens; on any other table the hit is ignored. Blocks that may not be
// written are replaced, and the row copies that this takes are appended to
// copies, which must not be nil. Every step's rows must be announced by a Grow
// before they are written, also when the table is long enough already. What is
// protected of other domains is not taken.
func (p *Pool) Grow(t *Table, rows int, hit Hit, copies *[]Copy) bool {
	if p.holds(t) && t.hasRoom(rows) {
		t.grown = max(t.grown, rows)
		return true
	}
	need, idle, cow, ok := p.demand(t, rows, &hit)
	if ok = ok && p.affords(t.domain, need, idle); ok {
		p.grow(t, rows, &hit, cow, copies)
	}
	return ok
}

// hasRoom reports whether rows go on in the last block of a table, which is its own. That is most steps of an output.
func (t *Table) hasRoom(rows int) bool {
	p := t.pool
	end := len(t.blocks) * t.y.blockTokens
	return p.simple && rows <= end && t.tokens >= end-t.y.blockTokens && end > 0 && p.blocks[t.blocks[len(t.blocks)-1]].writable()
}

// GrowAlone is Grow for the only sequence that runs: it takes what is protected, too.
func (p *Pool) GrowAlone(t *Table, rows int, hit Hit, copies *[]Copy) bool {
	need, idle, cow, ok := p.demand(t, rows, &hit)
	if ok = ok && need <= idle; ok {
		p.grow(t, rows, &hit, cow, copies)
	}
	return ok
}

// grow takes the blocks that demand found to be there.
func (p *Pool) grow(t *Table, rows int, hit *Hit, cow bool, copies *[]Copy) {
	if len(t.blocks) == 0 {
		p.attach(t, hit, copies)
		if p.Stateful() {
			p.states.enter(&t.tableState, hit)
		}
		p.counts.QueryTokens += uint64(hit.queried)
		p.counts.HitTokens += uint64(hit.Tokens)
		p.counts.Stateless += uint64(max(hit.Fork-hit.Tokens, 0))
	}
	if !p.simple {
		growAll(p, t, rows, hit, copies)
		return
	}
	if cow {
		p.replaceTail(t, 0, copies)
	}
	for n := t.y.blocksFor(rows); len(t.blocks) < n; {
		b := p.alloc(t.domain, t.class, 0)
		t.blocks, t.gens = append(t.blocks, b), append(t.gens, p.blocks[b].gen)
	}
	t.grown = max(t.grown, rows)
	if cow {
		p.trim(t.domain)
	}
}

// attach takes the blocks of a hit into an empty table, walking from the last
// one to the root.
func (p *Pool) attach(t *Table, hit *Hit, copies *[]Copy) {
	if hit.Tokens == 0 {
		return
	}
	if !p.simple {
		attachAll(p, t, hit, copies)
		return
	}
	t.resize(hit.Full)
	for i, b := hit.Full-1, hit.last; i >= 0; i, b = i-1, p.blocks[b].parent {
		p.holdPage(b)
		t.blocks[i], t.gens[i] = b, p.blocks[b].gen
	}
	p.raise(hit.last, t.class)
	if hit.PartialTokens > 0 {
		p.refresh(hit.Partial)
		fresh := p.alloc(t.domain, t.class, 0)
		t.push(&p.blockStore, fresh)
		p.copyRows(copies, t, 0, hit.Partial, fresh, hit.PartialTokens)
	}
	t.tokens, t.grown = hit.Tokens, hit.Tokens
}

// replaceTail gives the table a fresh copy of the block of a band that its next row
// goes to.
func (p *Pool) replaceTail(t *Table, band int, copies *[]Copy) {
	i, l := t.tokens/t.y.blockTokens, t.listOf(band)
	old, fresh := l.blocks[i], p.alloc(t.domain, t.class, band)
	l.set(&p.blockStore, i, fresh)
	p.copyRows(copies, t, band, old, fresh, t.tokens%t.y.blockTokens)
	p.drop(old)
}

// copyRows appends the copies of a block's pages. The source of a partial hit may have been evicted
// to become the destination itself, rows and all.
func (p *Pool) copyRows(copies *[]Copy, t *Table, band int, src, dst BlockID, rows int) {
	p.counts.CopiedRows += uint64(rows)
	if src == dst || rows == 0 {
		return
	}
	for _, g := range p.bands[band].groups {
		*copies = append(*copies, Copy{Src: src, Dst: dst, Rows: rows, Group: g, Fine: t.y == &p.fine})
		if p.wide {
			src, dst = p.mates[src], p.mates[dst]
		}
	}
}

// Truncate drops the rows from rows on, where sequences have states none that is final: blocks that cover none of the first rows rows are
// released and Tokens is at most rows. Published blocks stay in the cache, and
// one that is cut in the middle is replaced by the next Grow.
func (p *Pool) Truncate(t *Table, rows int) {
	if !p.holds(t) || rows < t.fewestRows() || p.Stateful() && rows < t.tokens {
		p.misuse("truncate to %d rows: the table is not live or its window begins later", rows)
		return
	}
	for i := range slices.Backward(t.sides) {
		t.sides[i].shrink(&p.blockStore, t.y.blocksFor(rows))
	}
	t.shrink(&p.blockStore, t.y.blocksFor(rows))
	t.tokens, t.grown = min(t.tokens, rows), min(t.grown, rows)
	p.trim(t.domain)
}

// Fork makes dst, a table that is not begun, a second owner of the blocks that
// hold src's final rows. Whichever writes to the shared tail first gets a copy
// of it from Grow. Sequences with states do not fork: another one begins with the checkpoint of this one.
func (p *Pool) Fork(dst, src *Table) {
	if dst.pool != nil || !p.holds(src) || p.Stateful() {
		p.misuse("fork: the source is not live, the destination was not released, or sequences have states")
		return
	}
	p.adopt(dst, src.domain, src.class)
	n := src.y.blocksFor(src.tokens)
	dst.share(&p.blockStore, &src.list, n)
	for i := range dst.sides {
		dst.sides[i].share(&p.blockStore, &src.sides[i], n)
	}
	dst.tokens, dst.grown, dst.expected = src.tokens, src.tokens, src.expected
}

// Release gives the blocks of the sequence back, the last one first; published
// ones stay in the prefix cache. It is the only way to end a table and idempotent.
func (p *Pool) Release(t *Table) {
	if t.pool == nil {
		return
	}
	if !p.holds(t) {
		p.misuse("release a table of another pool or a copy of a table")
		return
	}
	for i := range slices.Backward(t.sides) {
		t.sides[i].shrink(&p.blockStore, 0)
		t.sides[i].slid = 0
	}
	t.shrink(&p.blockStore, 0)
	last := len(p.tables) - 1
	p.tables[t.place] = p.tables[last]
	p.tables[t.place].place = t.place
	p.tables[last] = nil
	p.tables = p.tables[:last]
	p.states.leave(&t.tableState)
	t.pool, t.tokens, t.grown, t.slid = nil, 0, 0, 0
	p.trim(t.domain)
	p.domains[t.domain].tables--
	p.closeDomain(t.domain)
}

// Slide releases the blocks that lie wholly before row firstNeeded, for layers
// that attend to a window only; the null block takes their places. Rows that
// are not final yet are kept whatever firstNeeded says.
func (p *Pool) Slide(t *Table, firstNeeded int) {
	if !p.holds(t) {
		p.misuse("slide a table that is not live")
		return
	}
	end := min(firstNeeded, t.tokens) / t.y.blockTokens
	for i := range slices.Backward(t.sides) {
		t.sides[i].slide(&p.blockStore, end)
	}
	t.slide(&p.blockStore, end)
	p.trim(t.domain)
}

// SetClass raises the table's blocks, and what precedes them in the cache, to
// class c at least; blocks that the table takes later get class c. A block's
// class never falls while it is resident.
func (p *Pool) SetClass(t *Table, c Class) {
	if !p.holds(t) || c >= numClasses {
		p.misuse("set class %d: no such class or the table is not live", c)
		return
	}
	t.class = c
	for i := range slices.Backward(t.sides) {
		for _, b := range slices.Backward(t.sides[i].blocks) {
			p.raise(b, c)
		}
	}
	for _, b := range slices.Backward(t.blocks) {
		p.raise(b, c)
	}
}
