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
//	K7  no table names a block that was handed out again since
//	K10 a live table is listed once, and where it says
//	K11 the null block is on no list, unpublished, and only where a window slid
//	K15 nothing beyond a table's final rows is published
//	K16 a domain beyond its bound has no cached blocks
//	K19 a protected domain is open, and listed once
func (p *Pool) Check() error {
	if p.fault != nil {
		return p.fault
	}
	c := checker{p: p, refs: make([]int32, len(p.blocks)), lists: make([]int8, len(p.blocks)),
		domains: make([]domain, len(p.domains))}
	for _, step := range []func() error{c.tables, c.idle, c.owned, c.blocks, c.index, c.chain, c.sums} {
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
	p, n := c.p, c.p.blockTokens
	if t.slid*n > t.tokens || t.tokens > t.grown || t.grown > len(t.blocks)*n || len(t.gens) != len(t.blocks) {
		return fmt.Errorf("K6: table %d: %d blocks slid, %d rows final, %d grown, %d blocks", i, t.slid, t.tokens, t.grown,
			len(t.blocks))
	}
	for j, b := range t.blocks {
		if (b == 0) != (j < t.slid) || b < 0 || int(b) >= len(p.blocks) {
			return fmt.Errorf("K11: table %d names block %d at %d, its window begins at %d", i, b, j, t.slid)
		}
		if b == 0 {
			continue
		}
		m := &p.blocks[b]
		c.refs[b]++
		switch {
		case m.domain != t.domain:
			return fmt.Errorf("K7: table %d of domain slot %d names block %d of slot %d", i, t.domain, b, m.domain)
		case m.gen != t.gens[j]:
			return fmt.Errorf("K7: table %d names block %d of generation %d, which is at %d", i, b, t.gens[j], m.gen)
		case j >= p.blocksFor(t.tokens) && !m.writable():
			return fmt.Errorf("K15: table %d: block %d lies beyond the final rows and is not the table's own", i, b)
		case m.published && j > t.slid && m.parent != t.blocks[j-1]:
			return fmt.Errorf("K5: table %d: block %d follows %d, but is published as a child of %d", i, b, t.blocks[j-1], m.parent)
		}
	}
	return nil
}

// idle walks the free stack and the class lists.
func (c *checker) idle() error {
	p := c.p
	for list := range int32(numLists) {
		at := int32(len(p.blocks)) + list
		count, err := c.walk(p.lru, at, func(b BlockID) error {
			c.lists[b]++
			m := &p.blocks[b]
			if !m.idle() || m.published != (list != freeList) || m.published && p.classRing(m.class) != at {
				return fmt.Errorf("K3: block %d does not belong on list %d: %d references, %d pins, published %v, class %v",
					b, list, m.ref, m.pins, m.published, m.class)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if list == freeList {
			c.free = count
		} else {
			c.cached += count
		}
	}
	return nil
}

// owned walks the cached blocks of each domain.
func (c *checker) owned() error {
	p := c.p
	for slot := range int32(len(p.domains)) {
		for class := range Class(numClasses) {
			count, err := c.walk(p.own, p.ownRing(slot, class), func(b BlockID) error {
				if m := &p.blocks[b]; !m.idle() || !m.published || m.domain != slot || m.class != class {
					return fmt.Errorf("K3: block %d does not belong on the %v list of domain %d", b, class, slot)
				}
				return nil
			})
			if err != nil {
				return err
			}
			c.domains[slot].cached += count
		}
	}
	return nil
}

// walk visits a list; a list that is longer than the pool has a loop.
func (c *checker) walk(r rings, list int32, visit func(BlockID) error) (count int, err error) {
	for at := r.front(list); at != list; at = r.front(at) {
		if at <= 0 || int(at) >= len(c.p.blocks) || r[r[at].next].prev != at || count == len(c.p.blocks) {
			return 0, fmt.Errorf("K3: list %d is broken at node %d", list, at)
		}
		count++
		if err := visit(BlockID(at)); err != nil {
			return 0, err
		}
	}
	return count, nil
}

func (c *checker) blocks() error {
	p := c.p
	if m := p.blocks[0]; m.ref != 0 || m.pins != 0 || m.published || c.lists[0] != 0 {
		return fmt.Errorf("K11: the null block has %d references, %d pins, published %v", m.ref, m.pins, m.published)
	}
	for i := 1; i < len(p.blocks); i++ {
		m := &p.blocks[i]
		if m.ref != c.refs[i] {
			return fmt.Errorf("K2: block %d has %d references, tables name it %d times", i, m.ref, c.refs[i])
		}
		if on := c.lists[i] == 1; on != m.idle() || c.lists[i] > 1 {
			return fmt.Errorf("K3: block %d is on %d lists with %d references and %d pins", i, c.lists[i], m.ref, m.pins)
		}
		if held := m.domain != noDomain; held != (!m.idle() || m.published) {
			return fmt.Errorf("K1: block %d is counted in domain slot %d", i, m.domain)
		}
		switch {
		case m.ref > 0:
			c.used++
		case m.pins > 0:
			c.pinned++
		}
		if m.domain != noDomain {
			c.domains[m.domain].resident++
		}
	}
	return nil
}

func (c *checker) index() error {
	p := c.p
	published := 0
	for i := range p.blocks {
		m := &p.blocks[i]
		if !m.published {
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
		count, err := c.walk(p.children, list, func(b BlockID) error {
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
		found += count
	}
	if found != p.index.count {
		return fmt.Errorf("K5: %d blocks are published, %d have a parent", p.index.count, found)
	}
	return nil
}

func (c *checker) sums() error {
	p := c.p
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
