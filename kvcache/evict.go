package kvcache

import "slices"

// unpublish takes block b and all its descendants out of the cache, leaves
// first. Idle ones become free, those in use lose only their hash. In
// pools without sliding windows an evicted block has no children left, so the
// cost is one block.
func (bs *blockStore) unpublish(b BlockID) {
	if bs.bandOf(b) > 0 {
		bs.unhang(b)
		return
	}
	for at := b; ; {
		if list := bs.childRing(0, at); !bs.children.empty(list) {
			at = BlockID(bs.children.front(list))
			continue
		}
		parent := bs.blocks[at].parent
		bs.unpublishLeaf(at)
		if at == b {
			return
		}
		at = parent
	}
}

// unpublishLeaf takes one block without children out of the cache.
func (bs *blockStore) unpublishLeaf(b BlockID) {
	m := &bs.blocks[b]
	if bs.stateful {
		bs.states.unhang(bs.states.of[b])
	}
	if bs.wide {
		bs.unhangAll(b)
		bs.marks[b].forked = false
	}
	idle, pages := m.idle(), bs.pagesOf(b)
	if idle {
		bs.unpark(b)
		bs.counts.Evictions += uint64(pages)
	}
	bs.index.remove(b)
	bs.published -= pages
	bs.children.remove(int32(b))
	if bs.config.Events {
		bs.log.add(Event{Kind: Removed, Hash: m.hash, Parent: bs.blocks[m.parent].hash})
	}
	m.published, m.parent, m.hash = false, 0, Hash{}
	if idle {
		bs.park(b)
	}
}

// evict frees the least recently used cached block of the lowest class for a domain: if
// possible of a domain above its floor, else its own or of one that is not protected.
func (bs *blockStore) evict(slot int32) {
	if bs.config.FloorPercent > 0 && len(bs.slots) > 1 {
		if bs.evictWhere(bs.aboveFloor) {
			return
		}
		if len(bs.protected) > 0 && bs.evictWhere(func(s int32) bool { return s == slot || !bs.domains[s].protected }) {
			return
		}
	}
	for rank := bs.firstRank; rank < numRanks; rank++ {
		if list := bs.rankRing(rank); !bs.lru.empty(list) {
			bs.unpublish(BlockID(bs.lru.front(list)))
			return
		}
	}
}

// floorScan is how many blocks at the front of a class's list are looked at for
// one of a domain that has to give way. Where none is, the domains are searched.
const floorScan = 16

// evictWhere frees a cached block of a domain that gives way, near the least
// recently used one of the lowest class; false when there is none.
func (bs *blockStore) evictWhere(gives func(slot int32) bool) bool {
	for rank := range int32(numRanks) {
		list := bs.rankRing(rank)
		for n, b := 0, bs.lru.front(list); n < floorScan && b != list; n, b = n+1, bs.lru.front(b) {
			if gives(bs.blocks[b].domain) {
				bs.unpublish(BlockID(b)) // what follows it is of its domain: nothing ahead of it in the list
				return true
			}
		}
	}
	for range bs.domains {
		if bs.hand++; int(bs.hand) >= len(bs.domains) {
			bs.hand = 0
		}
		if bs.domains[bs.hand].cached > 0 && gives(bs.hand) {
			return bs.evictOwn(bs.hand)
		}
	}
	return false
}

// evictOwn is evict among the cached blocks of one domain; false when it has
// none.
func (bs *blockStore) evictOwn(slot int32) bool {
	for rank := range int32(numRanks) {
		if list := bs.ownRing(slot, rank); !bs.own.empty(list) {
			bs.unpublish(BlockID(bs.own.front(list)))
			return true
		}
	}
	return false
}

// trim evicts cached blocks of a domain that exceed its bound.
func (bs *blockStore) trim(slot int32) {
	if bs.config.TenantBlocks == 0 || slot == noDomain {
		return
	}
	d := &bs.domains[slot]
	for d.cached > 0 && d.resident > bs.config.TenantBlocks {
		bs.evictOwn(slot)
	}
}

// openDomain finds or makes the slot of a domain.
func (bs *blockStore) openDomain(d Domain) int32 {
	if slot, ok := bs.slots[d]; ok {
		return slot
	}
	var slot int32
	if n := len(bs.slotsFree); n > 0 {
		slot, bs.slotsFree = bs.slotsFree[n-1], bs.slotsFree[:n-1]
	} else {
		slot = int32(len(bs.domains))
		bs.domains = append(bs.domains, domain{})
		bs.own.grow(numRanks)
		bs.children.grow(1)
	}
	bs.domains[slot] = domain{key: d}
	bs.slots[d] = slot
	return slot
}

// closeDomain frees the slot of a domain that has neither tables nor blocks.
func (bs *blockStore) closeDomain(slot int32) {
	if d := &bs.domains[slot]; d.tables == 0 && d.resident == 0 {
		if d.protected {
			bs.unprotect(slices.Index(bs.protected, slot))
		}
		delete(bs.slots, d.key)
		bs.slotsFree = append(bs.slotsFree, slot)
	}
}

// DropDomain frees the cached blocks of one domain and returns how many.
// Blocks in use stay as they are.
func (bs *blockStore) DropDomain(d Domain) int {
	slot, ok := bs.slots[d]
	if !ok {
		return 0
	}
	before := bs.cached
	for bs.evictOwn(slot) {
		continue
	}
	return before - bs.cached
}

// Reset frees all cached blocks and returns how many. Blocks in use stay as
// they are.
func (bs *blockStore) Reset() int {
	n := bs.cached
	for bs.cached > 0 {
		bs.evict(noDomain)
	}
	return n
}
