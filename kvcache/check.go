package kvcache

import "fmt"

// Check recounts the whole pool from its lists and tables and names the first
// broken invariant, or the first misuse that a method refused. It costs a walk
// over all blocks: for tests after every call, for servers when idle.
//
// The invariants, as far as a single state can show them:
//
//	K1  free, cached, referenced, pinned and null blocks add up to all blocks
//	K2  a block's references are its occurrences in live tables
//	K3  a block is on exactly one list when it is idle, on none otherwise
//	K4  the index holds exactly the published blocks, one per hash
//	K5  what precedes a published block is published, in a class no lower
//	K6  a table covers its rows in every band
//	K7  no table names a block that was handed out again since
//	K10 a live table is listed once, and where it says
//	K11 the null block is on no list, unpublished, and only where a window slid
//	K15 nothing beyond a table's final rows is published
//	K16 a domain beyond its bound has no cached blocks
//	K19 a protected domain is open, and listed once
//	K20 a published block of a band with a window hangs on the cached one of the chain, in a class no higher
//	K21 what windows have passed was released
//	K23 a slot of states is free, a checkpoint, or in tables as often as it says
//	K22 every page is the null page, free, a block's first or one of its others; a table lists them by group
func (p *Pool) Check() error {
	if p.fault != nil {
		return p.fault
	}
	c := checker{p: p, refs: make([]int32, len(p.blocks)), lists: make([]int8, len(p.blocks)),
		domains: make([]domain, len(p.domains))}
	for _, step := range []func() error{c.tables, c.idle, c.owned, c.blocks, c.index, c.chain, c.states, c.sums} {
		if err := step(); err != nil {
			return fmt.Errorf("kvcache: %w", err)
		}
	}
	return nil
}

// checker holds what Check counts.
type checker struct {
	p       *Pool
	refs    []int32  // occurrences in tables
	lists   []int8   // occurrences on lists of idle blocks
	domains []domain // recounted
	free    int
	cached  int
	pinned  int
	used    int

	published int
	hung      int // blocks that hang on the chain
}

func (c *checker) tables() error {
	for i, t := range c.p.tables {
		if t.pool != c.p || t.place != i {
			return fmt.Errorf("K10: live table %d says it is number %d", i, t.place)
		}
		if err := c.table(i, t); err != nil {
			return err
		}
		c.domains[t.domain].tables++
	}
	return nil
}

func (c *checker) table(i int, t *Table) error {
	if t.tokens > t.grown || len(t.sides) != len(c.p.bands)-1 {
		return fmt.Errorf("K6: table %d: %d rows final, %d grown, %d bands", i, t.tokens, t.grown, 1+len(t.sides))
	}
	for band := range c.p.bands {
		if err := c.list(i, t, band); err != nil {
			return err
		}
	}
	return nil
}

// list checks a table's blocks of a band.
func (c *checker) list(i int, t *Table, band int) error {
	p, l, n := c.p, t.listOf(band), t.y.blockTokens
	if l.slid*n > t.tokens || t.grown > len(l.blocks)*n || len(l.gens) != len(l.blocks) {
		return fmt.Errorf("K6: table %d, band %d: %d blocks slid, %d rows final, %d grown, %d blocks", i, band, l.slid, t.tokens, t.grown,
			len(l.blocks))
	}
	if passed := t.y.bands[band].passed(t.tokens/n*n, n); l.slid < passed && (band > 0 || l.slid < t.tokens/n-1) {
		return fmt.Errorf("K21: table %d, band %d: %d blocks were released, windows have passed %d", i, band, l.slid, passed)
	}
	for j, b := range l.blocks {
		if (b == 0) != (j < l.slid) || b < 0 || int(b) >= len(p.blocks) {
			return fmt.Errorf("K11: table %d names block %d at %d, its window begins at %d", i, b, j, l.slid)
		}
		if err := c.entry(i, t, band, j); b != 0 && err != nil {
			return err
		}
	}
	return nil
}

// entry checks one that is not null.
func (c *checker) entry(i int, t *Table, band, j int) error {
	p, l := c.p, t.listOf(band)
	b := l.blocks[j]
	m := &p.blocks[b]
	c.refs[b]++
	switch {
	case m.domain != t.domain || p.bandOf(b) != band:
		return fmt.Errorf("K7: table %d of domain slot %d names block %d of slot %d and band %d", i, t.domain, b, m.domain, p.bandOf(b))
	case m.gen != l.gens[j]:
		return fmt.Errorf("K7: table %d names block %d of generation %d, which is at %d", i, b, l.gens[j], m.gen)
	case j >= t.y.blocksFor(t.tokens) && !m.writable():
		return fmt.Errorf("K15: table %d: block %d lies beyond the final rows and is not the table's own", i, b)
	case m.published && band == 0 && j > l.slid && m.parent != l.blocks[j-1]:
		return fmt.Errorf("K5: table %d: block %d follows %d, but is published as a child of %d", i, b, l.blocks[j-1], m.parent)
	case m.published && band > 0 && j < t.tokens/t.y.blockTokens && t.blocks[j] != 0 && m.parent != t.blocks[j]:
		return fmt.Errorf("K20: table %d: block %d is beside %d, but hangs on %d", i, b, t.blocks[j], m.parent)
	case len(l.mates) != p.bands[band].pages-1:
		return fmt.Errorf("K22: table %d has %d lists for the groups of band %d", i, 1+len(l.mates), band)
	}
	for k := range l.mates {
		if b = p.mates[b]; l.mates[k][j] != b {
			return fmt.Errorf("K22: table %d lists page %d at %d, the block has %d", i, l.mates[k][j], j, b)
		}
	}
	return nil
}

// idle walks the free stack and the class lists.
func (c *checker) idle() error {
	p := c.p
	for list := range int32(numLists) {
		at := int32(len(p.blocks)) + list
		err := c.walk(p.lru, at, func(b BlockID) error {
			c.lists[b]++
			m := &p.blocks[b]
			if list == freeList {
				c.free++
			} else {
				c.cached += p.pagesOf(b)
			}
			if m.ref != 0 || m.pins != 0 || m.published != (list != freeList) || m.published && p.rankRing(p.rank(b, m.class)) != at {
				return fmt.Errorf("K3: block %d does not belong on list %d: %d references, %d pins, published %v, class %v",
					b, list, m.ref, m.pins, m.published, m.class)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// owned walks the cached blocks of each domain.
func (c *checker) owned() error {
	p := c.p
	for slot := range int32(len(p.domains)) {
		for rank := range int32(numRanks) {
			err := c.walk(p.own, p.ownRing(slot, rank), func(b BlockID) error {
				m := &p.blocks[b]
				if !m.idle() || !m.published || m.domain != slot || p.rank(b, m.class) != rank {
					return fmt.Errorf("K3: block %d does not belong on list %d of domain %d", b, rank, slot)
				}
				c.domains[slot].cached += p.pagesOf(b)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// walk visits a list; a list that is longer than the pool has a loop.
func (c *checker) walk(r rings, list int32, visit func(BlockID) error) error {
	count := 0
	for at := r.front(list); at != list; at = r.front(at) {
		if at <= 0 || int(at) >= len(c.p.blocks) || r[r[at].next].prev != at || count == len(c.p.blocks) {
			return fmt.Errorf("K3: list %d is broken at node %d", list, at)
		}
		count++
		if err := visit(BlockID(at)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) blocks() error {
	p := c.p
	if m := p.blocks[0]; m.ref != 0 || m.pins != 0 || m.published || c.lists[0] != 0 {
		return fmt.Errorf("K11: the null block has %d references, %d pins, published %v", m.ref, m.pins, m.published)
	}
	others, err := c.mates()
	if err != nil {
		return err
	}
	for i := 1; i < len(p.blocks); i++ {
		m := &p.blocks[i]
		if others[i] {
			if m.ref != 0 || m.pins != 0 || m.published || c.lists[i] != 0 || m.domain != noDomain {
				return fmt.Errorf("K22: page %d is of another one's block and has %d references, %d pins, %d lists", i, m.ref, m.pins, c.lists[i])
			}
			continue
		}
		if m.ref != c.refs[i] {
			return fmt.Errorf("K2: block %d has %d references, tables name it %d times", i, m.ref, c.refs[i])
		}
		if on := c.lists[i] == 1; on != m.idle() || c.lists[i] > 1 {
			return fmt.Errorf("K3: block %d is on %d lists with %d references and %d pins", i, c.lists[i], m.ref, m.pins)
		}
		if held := m.domain != noDomain; held != (!m.idle() || m.published) {
			return fmt.Errorf("K1: block %d is counted in domain slot %d", i, m.domain)
		}
		c.count(BlockID(i))
	}
	return nil
}

// count adds the pages of a block.
func (c *checker) count(b BlockID) {
	m, pages := &c.p.blocks[b], c.p.pagesOf(b)
	switch {
	case m.ref > 0:
		c.used += pages
	case m.pins > 0:
		c.pinned += pages
	}
	if m.published {
		c.published += pages
	}
	if m.domain != noDomain {
		c.domains[m.domain].resident += pages
	}
}

// mates finds the pages that are not the first of their block.
func (c *checker) mates() (others []bool, err error) {
	p := c.p
	others = make([]bool, len(p.blocks))
	for i := 1; i < len(p.blocks) && p.wide; i++ {
		m := &p.blocks[i]
		if m.domain == noDomain { // free, or no first page
			continue
		}
		pages, at, want := 1, BlockID(i), p.pagesOf(BlockID(i))
		for ; p.mates[at] != 0 && pages <= want; pages++ {
			if at = p.mates[at]; others[at] {
				return nil, fmt.Errorf("K22: page %d is of two blocks, one of them %d", at, i)
			}
			others[at] = true
		}
		if pages != want {
			return nil, fmt.Errorf("K22: block %d of band %d has %d pages", i, p.bandOf(BlockID(i)), pages)
		}
	}
	return others, nil
}

func (c *checker) index() error {
	p := c.p
	published := 0
	for i := range p.blocks {
		m := &p.blocks[i]
		if !m.published {
			continue
		}
		if band := p.bandOf(BlockID(i)); band > 0 {
			if up := &p.blocks[m.parent]; !up.published || p.bandOf(m.parent) != 0 || up.domain != m.domain || up.class < m.class || *p.side(m.parent, band) != BlockID(i) {
				return fmt.Errorf("K20: block %d of band %d hangs on %d (published %v, %v), on which hangs %d", i, band, m.parent, up.published, up.class, *p.side(m.parent, band))
			}
			c.hung++
			continue
		}
		published++
		if at := p.index.find(m.hash); at != BlockID(i) {
			return fmt.Errorf("K4: the index has block %d for the hash of block %d", at, i)
		}
	}
	if published != p.index.count {
		return fmt.Errorf("K4: %d blocks are published, the index counts %d", published, p.index.count)
	}
	for _, b := range p.hung {
		if b != 0 {
			c.hung--
		}
	}
	if c.hung != 0 {
		return fmt.Errorf("K20: %d more blocks hang on the chain than it says", c.hung)
	}
	return nil
}

// chain walks the children of every block and of every domain: each published
// block must be among the children of its parent.
func (c *checker) chain() error {
	p := c.p
	found := 0
	for i := range len(p.blocks) + len(p.domains) {
		parent, slot := BlockID(i), int32(i-len(p.blocks))
		root := slot >= 0
		if root {
			parent = 0
		} else if i == 0 {
			continue
		}
		list := p.childRing(max(slot, 0), parent)
		err := c.walk(p.children, list, func(b BlockID) error {
			found++
			m, up := &p.blocks[b], &p.blocks[parent]
			if !m.published || m.parent != parent || root && m.domain != slot {
				return fmt.Errorf("K5: block %d is among the children of %d", b, parent)
			}
			if !root && (!up.published || up.domain != m.domain || up.class < m.class) {
				return fmt.Errorf("K5: block %d (%v) is published as a child of %d (published %v, %v)",
					b, m.class, parent, up.published, up.class)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if found != p.index.count {
		return fmt.Errorf("K5: %d blocks are published, %d have a parent", p.index.count, found)
	}
	return nil
}

func (c *checker) sums() error {
	p := c.p
	if c.published != p.published {
		return fmt.Errorf("K1: counted %d published pages, the pool says %d", c.published, p.published)
	}
	if c.free != p.free || c.cached != p.cached || c.pinned != p.pinned || 1+c.free+c.cached+c.pinned+c.used != len(p.blocks) {
		return fmt.Errorf("K1: counted 1 null + %d free + %d cached + %d pinned + %d referenced of %d blocks; the pool says %d, %d, %d",
			c.free, c.cached, c.pinned, c.used, len(p.blocks), p.free, p.cached, p.pinned)
	}
	open := 0
	for slot := range p.domains {
		have, want := &p.domains[slot], &c.domains[slot]
		if have.tables != want.tables || have.resident != want.resident || have.cached != want.cached {
			return fmt.Errorf("K1: domain slot %d has %d tables, %d blocks, %d cached; the pool says %d, %d, %d",
				slot, want.tables, want.resident, want.cached, have.tables, have.resident, have.cached)
		}
		if limit := p.config.TenantBlocks; limit > 0 && have.cached > 0 && have.resident > limit {
			return fmt.Errorf("K16: domain slot %d has %d blocks, %d of them cached, its bound is %d", slot, have.resident, have.cached,
				limit)
		}
		if have.tables > 0 || have.resident > 0 {
			open++
			if at, ok := p.slots[have.key]; !ok || int(at) != slot {
				return fmt.Errorf("K1: domain slot %d is not where its key leads", slot)
			}
		}
	}
	if open != len(p.slots) {
		return fmt.Errorf("K1: %d domains are open, %d have tables or blocks", len(p.slots), open)
	}
	return p.checkProtection()
}
