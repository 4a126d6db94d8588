package kvcache

// The lists of idle blocks: sentinels in blockStore.lru after the blocks.
const (
	freeList = 0 // unpublished, a stack
	rankList = 1 // one per rank, published, least recently used first
	numRanks = numAside + numClasses
	numLists = rankList + numRanks
)

// blockStore has the blocks and what is in them: references, the prefix cache, and the order in which idle blocks are taken.
type blockStore struct {
	domainTable
	config Config
	layout

	blocks   []block
	sources  []BlockID // scratch of growth
	ids      []int32   // [Blocks][BlockTokens] token ids of published blocks
	index    index
	lru      rings // blocks, then the numLists lists of idle blocks
	own      rings // blocks, then numRanks lists of cached blocks per domain slot
	states   stateStore
	children rings // blocks, then the published children of each block, then those of each domain slot
	hand     int32 // domain at which the search for one above its floor goes on

	free, cached, pinned int // pages: idle unpublished, idle published, unreferenced but pinned
	published            int // pages
	counts               Counters
	log                  eventLog
	buf                  preimage // scratch of hashes
}

// publish enters block b into the cache as a child of parent.
func (bs *blockStore) publish(b, parent BlockID, h Hash, ids []int32) {
	m := &bs.blocks[b]
	m.hash, m.parent, m.published = h, parent, true
	copy(bs.ids[int(b)*bs.blockTokens:], ids)
	bs.index.insert(b)
	bs.published += bs.pagesOf(b)
	list := bs.childRing(m.domain, parent)
	if bs.wide && parent != 0 && !bs.children.empty(list) {
		bs.marks[parent].forked = true
	}
	bs.children.pushFront(list, int32(b))
	bs.raise(parent, m.class) // a replaced tail may be of a lower class than the blocks grown after it
	if bs.config.Events {
		bs.log.add(Event{Kind: Stored, Hash: h, Parent: bs.blocks[parent].hash})
	}
}

// Usable is the number of blocks that sequences can hold: all but the null
// block.
func (bs *blockStore) Usable() int { return len(bs.blocks) - 1 }

// FreeNow is the number of blocks that could be handed out now: never used,
// released, or cached and evictable.
func (bs *blockStore) FreeNow() int { return bs.free + bs.cached }

// rows are the token ids stored for block b, which is published.
func (bs *blockStore) rows(b BlockID) []int32 {
	at := int(b) * bs.blockTokens
	return bs.ids[at : at+bs.ShapeOf(bs.domains[bs.blocks[b].domain].key).blockTokens]
}

// rankRing is the list of idle published blocks of a rank.
func (bs *blockStore) rankRing(rank int32) int32 { return int32(len(bs.blocks)) + rankList + rank }

// ownRing is the same of one domain.
func (bs *blockStore) ownRing(slot, rank int32) int32 {
	return int32(len(bs.blocks)) + slot*numRanks + rank
}

// childRing is the list of published blocks that follow parent, newest first.
func (bs *blockStore) childRing(slot int32, parent BlockID) int32 {
	if parent == 0 {
		return 2*int32(len(bs.blocks)) + slot
	}
	return int32(len(bs.blocks)) + int32(parent)
}

// park puts a block that became idle on its list. An unpublished one leaves
// its domain.
func (bs *blockStore) park(b BlockID) {
	m := &bs.blocks[b]
	if m.published {
		rank, pages := bs.rank(b, m.class), bs.pagesOf(b)
		bs.lru.pushBack(bs.rankRing(rank), int32(b))
		bs.own.pushBack(bs.ownRing(m.domain, rank), int32(b))
		bs.domains[m.domain].cached += pages
		bs.cached += pages
		return
	}
	pages := 1
	bs.lru.pushFront(int32(len(bs.blocks))+freeList, int32(b))
	if bs.wide {
		pages = bs.freeMates(b)
	}
	bs.free += pages
	if m.domain != noDomain {
		slot := m.domain
		m.domain = noDomain
		bs.domains[slot].resident -= pages
		bs.closeDomain(slot)
	}
}

// freeMates puts the other pages of a block on the free stack, on top of its first, and returns how many pages it had.
func (bs *blockStore) freeMates(b BlockID) (pages int) {
	pages = 1
	for mate := bs.mates[b]; mate != 0; pages++ {
		bs.lru.pushFront(int32(len(bs.blocks))+freeList, int32(mate))
		mate, bs.mates[mate] = bs.mates[mate], 0
	}
	bs.mates[b] = 0
	return pages
}

// unpark takes an idle published block off its list.
func (bs *blockStore) unpark(b BlockID) {
	m := &bs.blocks[b]
	pages := bs.pagesOf(b)
	bs.lru.remove(int32(b))
	bs.own.remove(int32(b))
	bs.domains[m.domain].cached -= pages
	bs.cached -= pages
}

// refresh makes a cached block the most recently used of its class.
func (bs *blockStore) refresh(b BlockID) {
	if bs.blocks[b].idle() {
		bs.unpark(b)
		bs.park(b)
	}
}

// holdPage is hold in a pool of one group.
func (bs *blockStore) holdPage(b BlockID) {
	m := &bs.blocks[b]
	switch {
	case m.idle():
		bs.lru.remove(int32(b))
		bs.own.remove(int32(b))
		bs.domains[m.domain].cached--
		bs.cached--
	case m.ref == 0:
		bs.pinned--
	}
	m.ref++
}

// hold adds a table's reference.
func (bs *blockStore) hold(b BlockID) {
	m := &bs.blocks[b]
	switch {
	case m.idle():
		bs.unpark(b)
	case m.ref == 0:
		bs.pinned -= bs.pagesOf(b)
	}
	if m.ref++; bs.wide {
		bs.marks[b].order = byClass
	}
}

// drop takes a table's reference back; the null block has none.
func (bs *blockStore) drop(b BlockID) {
	if b == 0 {
		return
	}
	m := &bs.blocks[b]
	m.ref--
	switch {
	case m.idle():
		bs.park(b)
	case m.ref == 0:
		bs.pinned += bs.pagesOf(b)
	}
}

// alloc takes idle pages for a block of a band of a table of domain slot: the domain's own
// oldest when it is at its bound, else free ones, else the oldest of the
// lowest class: of domains above their floor if there are any, else its own or of those that are not protected. The caller has made sure that they are idle.
func (bs *blockStore) alloc(slot int32, c Class, band int) BlockID {
	pages := 1
	if bs.wide {
		pages = bs.bands[band].pages
	}
	if d, bound := &bs.domains[slot], bs.config.TenantBlocks; bound > 0 {
		for d.resident+pages > bound && bs.evictOwn(slot) {
			continue
		}
	}
	for bs.free < pages {
		bs.evict(slot)
	}
	b := BlockID(bs.lru.front(int32(len(bs.blocks)) + freeList))
	bs.lru.remove(int32(b))
	bs.free--
	if bs.wide {
		bs.marks[b] = mark{band: uint8(band)}
		bs.takeMates(b, pages)
	}
	m := &bs.blocks[b]
	m.ref, m.class, m.domain = 1, c, slot
	m.gen++
	bs.domains[slot].resident += pages
	return b
}

// takeMates takes the other pages of a block of so many from the top of the free stack.
func (bs *blockStore) takeMates(b BlockID, pages int) {
	for ; pages > 1; pages-- {
		mate := bs.lru.front(int32(len(bs.blocks)) + freeList)
		bs.lru.remove(mate)
		bs.free--
		bs.mates[b] = BlockID(mate)
		b = BlockID(mate)
	}
}

// raise lifts a block and the published blocks before it to class c at least,
// so that a parent is never in a lower class than its children.
func (bs *blockStore) raise(b BlockID, c Class) {
	for b != 0 && bs.blocks[b].class < c {
		m := &bs.blocks[b]
		idle := m.idle()
		if idle {
			bs.unpark(b)
		}
		m.class = c
		if idle {
			bs.park(b)
		}
		b = m.parent
	}
}
