package kvcache

// The lists of idle blocks: sentinels in blockStore.lru after the blocks.
const (
	freeList  = 0 // unpublished, a stack
	classList = 1 // one per class, published, least recently used first
	numLists  = classList + numClasses
)

// blockStore has the blocks and what is in them: references, the prefix cache, and the order in which idle blocks are taken.
type blockStore struct {
	domainTable
	config      Config
	blockTokens int

	blocks   []block
	ids      []int32 // [Blocks][BlockTokens] token ids of published blocks
	index    index
	lru      rings // blocks, then the numLists lists of idle blocks
	own      rings // blocks, then numClasses lists of cached blocks per domain slot
	children rings // blocks, then the published children of each block, then those of each domain slot
	hand     int32 // domain at which the search for one above its floor goes on

	free, cached, pinned int // idle unpublished, idle published, unreferenced but pinned
	counts               Counters
	log                  eventLog
	buf                  preimage // scratch of hashes
}

// publish enters block b into the cache as a child of parent.
func (bs *blockStore) publish(b, parent BlockID, h Hash, ids []int32) {
	m := &bs.blocks[b]
	m.hash, m.parent, m.published = h, parent, true
	copy(bs.rows(b), ids)
	bs.index.insert(b)
	bs.children.pushFront(bs.childRing(m.domain, parent), int32(b))
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

// Groups is the number of block tables of a sequence: one per entry of Config.Windows.
func (bs *blockStore) Groups() int { return max(1, len(bs.config.Windows)) }

// Need is the most blocks that a sequence of so many rows takes, in all groups.
func (bs *blockStore) Need(rows int) int { return bs.blocksFor(rows) }

// blocksFor is the number of blocks that cover rows.
func (bs *blockStore) blocksFor(rows int) int { return (rows + bs.blockTokens - 1) / bs.blockTokens }

// rows are the token ids stored for block b.
func (bs *blockStore) rows(b BlockID) []int32 {
	at := int(b) * bs.blockTokens
	return bs.ids[at : at+bs.blockTokens]
}

func (bs *blockStore) classRing(c Class) int32 { return int32(len(bs.blocks)) + classList + int32(c) }

func (bs *blockStore) ownRing(slot int32, c Class) int32 {
	return int32(len(bs.blocks)) + slot*numClasses + int32(c)
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
		bs.lru.pushBack(bs.classRing(m.class), int32(b))
		bs.own.pushBack(bs.ownRing(m.domain, m.class), int32(b))
		bs.domains[m.domain].cached++
		bs.cached++
		return
	}
	bs.lru.pushFront(int32(len(bs.blocks))+freeList, int32(b))
	bs.free++
	if m.domain != noDomain {
		slot := m.domain
		m.domain = noDomain
		bs.domains[slot].resident--
		bs.closeDomain(slot)
	}
}

// unpark takes an idle block off its list.
func (bs *blockStore) unpark(b BlockID) {
	m := &bs.blocks[b]
	bs.lru.remove(int32(b))
	if !m.published {
		bs.free--
		return
	}
	bs.own.remove(int32(b))
	bs.domains[m.domain].cached--
	bs.cached--
}

// refresh makes a cached block the most recently used of its class.
func (bs *blockStore) refresh(b BlockID) {
	if bs.blocks[b].idle() {
		bs.unpark(b)
		bs.park(b)
	}
}

// hold adds a table's reference.
func (bs *blockStore) hold(b BlockID) {
	m := &bs.blocks[b]
	switch {
	case m.idle():
		bs.unpark(b)
	case m.ref == 0:
		bs.pinned--
	}
	m.ref++
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
		bs.pinned++
	}
}

// alloc takes an idle block for a table of domain slot: the domain's own
// oldest when it is at its bound, else a free one, else the oldest of the
// lowest class: of domains above their floor if there are any, else its own or of those that are not protected. The caller has made sure that one is idle.
func (bs *blockStore) alloc(slot int32, c Class) BlockID {
	if d := &bs.domains[slot]; bs.config.TenantBlocks > 0 && d.resident >= bs.config.TenantBlocks {
		bs.evictOwn(slot)
	}
	if bs.free == 0 {
		bs.evict(slot)
	}
	b := BlockID(bs.lru.front(int32(len(bs.blocks)) + freeList))
	bs.unpark(b)
	m := &bs.blocks[b]
	m.ref, m.class, m.domain = 1, c, slot
	m.gen++
	bs.domains[slot].resident++
	return b
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
