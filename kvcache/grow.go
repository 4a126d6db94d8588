package kvcache

// growth is the growth of a table with several lists, or with windows, behind a hit if the table is empty. It goes over all bands,
// and finds out before it takes anything whether all of them get what they need.
type growth struct {
	*Pool
	t   *Table
	hit *Hit
}

//go:noinline
func demandAll(p *Pool, t *Table, rows int, hit *Hit) (need, idle int, cow, ok bool) {
	need, idle, ok = (&growth{p, t, hit}).demand(rows)
	return need, idle, false, ok
}

//go:noinline
func growAll(p *Pool, t *Table, rows int, hit *Hit, copies *[]Copy) {
	(&growth{p, t, hit}).grow(rows, copies)
}

//go:noinline
func attachAll(p *Pool, t *Table, hit *Hit, copies *[]Copy) { (&growth{p, t, hit}).attach(copies) }

// demand is Pool.demand. The blocks whose first rows a hit copies are held until they are copied; where there is no room for
// that, the hit does without them.
func (g *growth) demand(rows int) (need, idle int, ok bool) {
	idle = g.FreeNow()
	empty := len(g.t.blocks) == 0
	if empty && g.hit.Tokens > 0 {
		if !g.current(g.hit) {
			return 0, 0, false
		}
		g.eachSeen(g.hit, func(_, _ int, b BlockID) { idle -= g.idlePages(b) })
	}
	need = g.fresh(rows, empty)
	if !empty || g.hit.Partial == 0 {
		return need, idle, true
	}
	held := 0
	g.eachBand(g.hit.Partial, func(_ int, b BlockID) { held += g.idlePages(b) })
	if held > 0 && need > idle-held {
		g.hit.Tokens, g.hit.Partial, g.hit.PartialTokens = g.hit.Full*g.t.y.blockTokens, 0, 0
		return g.demand(rows)
	}
	return need, idle - held, true
}

// fresh is how many pages it takes.
func (g *growth) fresh(rows int, empty bool) (need int) {
	from := g.t.tokens
	if empty {
		from = g.hit.Tokens
	}
	y := g.t.y
	for i := range y.bands {
		b, l := &y.bands[i], g.t.listOf(i)
		have := len(l.blocks)
		if empty {
			have = g.hit.Full
		}
		blocks := max(0, y.blocksFor(y.cover(b, max(rows, from), from))-have)
		if !empty && l.mustReplace(&g.blockStore, y, from, rows) {
			blocks++
		}
		need += blocks * b.pages
	}
	return need
}

// idlePages is how many idle pages a block has.
func (g *growth) idlePages(b BlockID) int {
	if b != 0 && g.blocks[b].idle() {
		return g.pagesOf(b)
	}
	return 0
}

// grow takes the pages, once the table has the blocks of the hit.
func (g *growth) grow(rows int, copies *[]Copy) {
	t, y := g.t, g.t.y
	least := max(t.grown, rows)
	for i := len(y.bands) - 1; i >= 0; i-- {
		l := t.listOf(i)
		if l.mustReplace(&g.blockStore, y, t.tokens, rows) {
			g.replaceTail(t, i, copies)
		}
		covered := y.cover(&y.bands[i], max(rows, t.tokens), t.tokens)
		for n := y.blocksFor(covered); len(l.blocks) < n; {
			l.push(&g.blockStore, g.alloc(t.domain, t.class, i))
		}
		least = min(least, max(covered, t.grown))
	}
	t.grown = least
	g.trim(t.domain)
}

// attach takes the blocks of the hit.
func (g *growth) attach(copies *[]Copy) {
	t, hit := g.t, g.hit
	for i := range g.bands {
		l := t.listOf(i)
		l.resize(hit.Full)
		l.slid = t.y.bands[i].firstSeen(hit.Full)
		for j := range l.slid {
			l.set(&g.blockStore, j, 0)
		}
	}
	g.eachSeen(hit, func(band, i int, b BlockID) {
		g.hold(b)
		t.listOf(band).set(&g.blockStore, i, b)
		g.raise(b, t.class)
	})
	g.refreshForks()
	g.refreshChain()
	if hit.PartialTokens > 0 {
		g.copyPartial(copies)
		g.refreshChain() // a parent goes after its children
	}
	t.tokens, t.grown = hit.Tokens, hit.Tokens
}

// refreshForks makes what windows see before the forks of the hit recent: where other sequences went on otherwise, as behind a
// shared system prompt, further ones will, as long as those go on that began with it.
func (g *growth) refreshForks() {
	for band := len(g.bands) - 1; band > 0; band-- {
		seen := 0
		for b := g.hit.last; b != 0; b = g.blocks[b].parent {
			if g.marks[b].forked {
				seen = g.t.y.bands[band].width
			}
			if at := *g.side(b, band); at != 0 && seen > 0 {
				g.refresh(at)
			}
			seen--
		}
	}
}

// refreshChain makes the chain before a window recent: the window is of use as long as all of the chain is there.
func (g *growth) refreshChain() {
	for b := g.hit.last; g.t.slid > 0 && b != 0; b = g.blocks[b].parent {
		g.refresh(b)
	}
}

// copyPartial takes copies of the first rows of the hit's partial block, which is held until the copies are there.
func (g *growth) copyPartial(copies *[]Copy) {
	t, sources := g.t, g.sources[:0]
	g.eachBand(g.hit.Partial, func(_ int, b BlockID) {
		g.hold(b)
		sources = append(sources, b) // they may lose their hashes to what is allocated
	})
	for i, b := range sources {
		band := len(g.bands) - 1 - i
		fresh := g.alloc(t.domain, t.class, band)
		t.listOf(band).push(&g.blockStore, fresh)
		g.copyRows(copies, t, band, b, fresh, g.hit.PartialTokens)
	}
	for _, b := range sources {
		g.drop(b)
	}
	g.sources = sources
}
