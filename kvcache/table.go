package kvcache

import "slices"

// Table is the list of blocks that hold one sequence's KV: row i is row
// i mod BlockTokens of block i / BlockTokens. The zero value is ready for
// Pool.Begin; after Pool.Release the same table can be begun again and keeps
// its capacity. A begun table must not be copied or moved.
type Table struct {
	pool   *Pool // nil between Release and Begin
	place  int   // in pool.tables
	domain int32
	class  Class
	blocks []BlockID
	gens   []uint32 // of the blocks when they entered, for Check
	tokens int      // rows whose KV is final
	grown  int      // rows that may be written: what the last Grow covered
	slid   int      // leading blocks released by Slide
}

// Blocks lists the blocks of a group of layers, in order: row i of the sequence is row i mod BlockTokens of block
// i / BlockTokens, and the null block stands where a window has passed. It is valid until the next call
// that changes the table; callers only read it.
func (t *Table) Blocks(group int) []BlockID {
	if group != 0 {
		return nil
	}
	return t.blocks
}

// Tokens is the number of leading rows whose KV is computed and final.
func (t *Table) Tokens() int { return t.tokens }

// Class is the retention class of blocks that the table takes from now on.
func (t *Table) Class() Class { return t.class }

// Copy asks the engine to copy the first Rows rows of block Src to Dst, in all
// layers of a group. The copies of a step are executed in the order in which they were
// appended, before any row of the step is written; none may be left out.
type Copy struct {
	Src, Dst BlockID
	Rows     int
	Group    int // of Config.Windows
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
	t.tokens, t.grown, t.slid = 0, 0, 0
	p.tables = append(p.tables, t)
	p.domains[slot].tables++
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
		return p.blocksFor(max(rows, hit.Tokens)) - hit.Full, idle, false, true
	}
	need = max(0, p.blocksFor(rows)-len(t.blocks))
	if tail := t.tokens / p.blockTokens; rows > t.tokens && tail < len(t.blocks) {
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
	need, idle, cow, ok := p.demand(t, rows, &hit)
	if ok = ok && p.affords(t.domain, need, idle); ok {
		p.grow(t, rows, &hit, cow, copies)
	}
	return ok
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
		p.counts.QueryTokens += uint64(hit.queried)
		p.counts.HitTokens += uint64(hit.Tokens)
	}
	if cow {
		p.replaceTail(t, copies)
	}
	for n := p.blocksFor(rows); len(t.blocks) < n; {
		t.push(p, p.alloc(t.domain, t.class))
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
	t.resize(hit.Full)
	for i, b := hit.Full-1, hit.last; i >= 0; i, b = i-1, p.blocks[b].parent {
		p.hold(b)
		t.set(p, i, b)
	}
	p.raise(hit.last, t.class)
	if hit.PartialTokens > 0 {
		p.refresh(hit.Partial)
		fresh := p.alloc(t.domain, t.class)
		t.push(p, fresh)
		p.copyRows(copies, hit.Partial, fresh, hit.PartialTokens)
	}
	t.tokens, t.grown = hit.Tokens, hit.Tokens
}

// replaceTail gives the table a fresh copy of the block that its next row
// goes to.
func (p *Pool) replaceTail(t *Table, copies *[]Copy) {
	i := t.tokens / p.blockTokens
	old, fresh := t.blocks[i], p.alloc(t.domain, t.class)
	t.set(p, i, fresh)
	p.copyRows(copies, old, fresh, t.tokens%p.blockTokens)
	p.drop(old)
}

// copyRows appends a copy. The source of a partial hit may have been evicted
// to become the destination itself, rows and all.
func (p *Pool) copyRows(copies *[]Copy, src, dst BlockID, rows int) {
	p.counts.CopiedRows += uint64(rows)
	if src != dst && rows > 0 {
		*copies = append(*copies, Copy{Src: src, Dst: dst, Rows: rows})
	}
}

// Truncate drops the rows from rows on: blocks that cover none of the first rows rows are
// released and Tokens is at most rows. Published blocks stay in the cache, and
// one that is cut in the middle is replaced by the next Grow.
func (p *Pool) Truncate(t *Table, rows int) {
	if !p.holds(t) || rows < t.slid*p.blockTokens || rows < 0 {
		p.misuse("truncate to %d rows: the table is not live or its window begins later", rows)
		return
	}
	p.shrink(t, p.blocksFor(rows))
	t.tokens, t.grown = min(t.tokens, rows), min(t.grown, rows)
	p.trim(t.domain)
}

// shrink drops all but the first n blocks, tail first.
func (p *Pool) shrink(t *Table, n int) {
	for i := len(t.blocks) - 1; i >= n; i-- {
		b := t.blocks[i]
		t.blocks, t.gens = t.blocks[:i], t.gens[:i]
		p.drop(b)
	}
}

// Fork makes dst, a table that is not begun, a second owner of the blocks that
// hold src's final rows. Whichever writes to the shared tail first gets a copy
// of it from Grow.
func (p *Pool) Fork(dst, src *Table) {
	if dst.pool != nil || !p.holds(src) {
		p.misuse("fork: the source is not live or the destination was not released")
		return
	}
	p.adopt(dst, src.domain, src.class)
	n := p.blocksFor(src.tokens)
	dst.resize(n)
	for i, b := range src.blocks[:n] {
		if b != 0 {
			p.hold(b)
		}
		dst.set(p, i, b)
	}
	dst.tokens, dst.grown, dst.slid = src.tokens, src.tokens, src.slid
}

// Sole is how many blocks of a table no other table holds: Release makes those free that are not pinned.
func (p *Pool) Sole(t *Table) int {
	n := 0
	for _, b := range t.blocks {
		if m := &p.blocks[b]; b != 0 && m.ref == 1 {
			n++
		}
	}
	return n
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
	p.shrink(t, 0)
	last := len(p.tables) - 1
	p.tables[t.place] = p.tables[last]
	p.tables[t.place].place = t.place
	p.tables[last] = nil
	p.tables = p.tables[:last]
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
	end := max(t.slid, min(firstNeeded, t.tokens)/p.blockTokens)
	for i := end - 1; i >= t.slid; i-- {
		b := t.blocks[i]
		t.set(p, i, 0)
		p.drop(b)
	}
	t.slid = end
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
	for _, b := range slices.Backward(t.blocks) {
		p.raise(b, c)
	}
}

func (t *Table) push(p *Pool, b BlockID) {
	t.blocks = append(t.blocks, b)
	t.gens = append(t.gens, p.blocks[b].gen)
}

func (t *Table) set(p *Pool, i int, b BlockID) { t.blocks[i], t.gens[i] = b, p.blocks[b].gen }

// resize makes room for n entries, which the caller sets.
func (t *Table) resize(n int) {
	t.blocks = slices.Grow(t.blocks[:0], n)[:n]
	t.gens = slices.Grow(t.gens[:0], n)[:n]
}
