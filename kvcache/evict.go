package kvcache

import "slices"

// unpublish takes block b and all its descendants out of the cache, leaves
// first. Idle ones become free, those in use lose only their hash. In
// pools without sliding windows an evicted block has no children left, so the
// cost is one block.
func (p *Pool) unpublish(b BlockID) {
	for at := b; ; {
		if list := p.childRing(0, at); !p.children.empty(list) {
			at = BlockID(p.children.front(list))
			continue
		}
		parent := p.blocks[at].parent
		p.unpublishLeaf(at)
		if at == b {
			return
		}
		at = parent
	}
}

// unpublishLeaf takes one block without children out of the cache.
func (p *Pool) unpublishLeaf(b BlockID) {
	m := &p.blocks[b]
	idle := m.idle()
	if idle {
		p.unpark(b)
		p.counts.Evictions++
	}
	p.index.remove(b)
	p.children.remove(int32(b))
	if p.config.Events {
		p.log.add(Event{Kind: Removed, Hash: m.hash, Parent: p.blocks[m.parent].hash})
	}
	m.published, m.parent, m.hash = false, 0, Hash{}
	if idle {
		p.park(b)
	}
}

// evict frees the least recently used cached block of the lowest class for a domain: if
// possible of a domain above its floor, else its own or of one that is not protected.
func (p *Pool) evict(slot int32) {
	if p.config.FloorPercent > 0 && len(p.slots) > 1 {
		if p.evictWhere(p.aboveFloor) {
			return
		}
		if len(p.protected) > 0 && p.evictWhere(func(s int32) bool { return s == slot || !p.domains[s].protected }) {
			return
		}
	}
	for c := range Class(numClasses) {
		if list := p.classRing(c); !p.lru.empty(list) {
			p.unpublish(BlockID(p.lru.front(list)))
			return
		}
	}
}

// floorScan is how many blocks at the front of a class's list are looked at for
// one of a domain that has to give way. Where none is, the domains are searched.
const floorScan = 16

// evictWhere frees a cached block of a domain that gives way, near the least
// recently used one of the lowest class; false when there is none.
func (p *Pool) evictWhere(gives func(slot int32) bool) bool {
	for c := range Class(numClasses) {
		list := p.classRing(c)
		for n, b := 0, p.lru.front(list); n < floorScan && b != list; n, b = n+1, p.lru.front(b) {
			if gives(p.blocks[b].domain) {
				p.unpublish(BlockID(b)) // what follows it is of its domain: nothing ahead of it in the list
				return true
			}
		}
	}
	for range p.domains {
		if p.hand++; int(p.hand) >= len(p.domains) {
			p.hand = 0
		}
		if p.domains[p.hand].cached > 0 && gives(p.hand) {
			return p.evictOwn(p.hand)
		}
	}
	return false
}

// aboveFloor reports whether a domain has more blocks than others leave it.
func (p *Pool) aboveFloor(slot int32) bool {
	return p.domains[slot].resident*len(p.slots)*100 > p.Usable()*p.config.FloorPercent
}

// evictOwn is evict among the cached blocks of one domain; false when it has
// none.
func (p *Pool) evictOwn(slot int32) bool {
	for c := range Class(numClasses) {
		if list := p.ownRing(slot, c); !p.own.empty(list) {
			p.unpublish(BlockID(p.own.front(list)))
			return true
		}
	}
	return false
}

// trim evicts cached blocks of a domain that exceed its bound.
func (p *Pool) trim(slot int32) {
	if p.config.TenantBlocks == 0 || slot == noDomain {
		return
	}
	d := &p.domains[slot]
	for d.cached > 0 && d.resident > p.config.TenantBlocks {
		p.evictOwn(slot)
	}
}

// openDomain finds or makes the slot of a domain.
func (p *Pool) openDomain(d Domain) int32 {
	if slot, ok := p.slots[d]; ok {
		return slot
	}
	var slot int32
	if n := len(p.slotsFree); n > 0 {
		slot, p.slotsFree = p.slotsFree[n-1], p.slotsFree[:n-1]
	} else {
		slot = int32(len(p.domains))
		p.domains = append(p.domains, domain{})
		p.own.grow(numClasses)
		p.children.grow(1)
	}
	p.domains[slot] = domain{key: d}
	p.slots[d] = slot
	return slot
}

// closeDomain frees the slot of a domain that has neither tables nor blocks.
func (p *Pool) closeDomain(slot int32) {
	if d := &p.domains[slot]; d.tables == 0 && d.resident == 0 {
		if d.protected {
			p.unprotect(slices.Index(p.protected, slot))
		}
		delete(p.slots, d.key)
		p.slotsFree = append(p.slotsFree, slot)
	}
}

// DropDomain frees the cached blocks of one domain and returns how many.
// Blocks in use stay as they are.
func (p *Pool) DropDomain(d Domain) int {
	slot, ok := p.slots[d]
	if !ok {
		return 0
	}
	before := p.cached
	for p.evictOwn(slot) {
		continue
	}
	return before - p.cached
}

// Reset frees all cached blocks and returns how many. Blocks in use stay as
// they are.
func (p *Pool) Reset() int {
	n := p.cached
	for p.cached > 0 {
		p.evict(noDomain)
	}
	return n
}
