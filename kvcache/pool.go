package kvcache

import (
	"errors"
	"fmt"
	"math"

	"weir/internal/invariants"
)

// Config sizes a pool and names what its KV depends on.
type Config struct {
	Blocks      int // in the engine's arena, the null block included; at least 2
	BlockTokens int // rows per block, 1 to 256; 0 means 16

	// TenantBlocks bounds the blocks that a domain keeps resident, 0 is no
	// bound. It limits the cache, never a live sequence: a domain at its bound
	// grows by evicting its own cached blocks first, and drops cached blocks
	// that exceed it. Only blocks in use may go beyond it.
	TenantBlocks int

	// FloorPercent is the part of an equal share of the pool, in percent, that each
	// domain keeps: cached blocks of a domain that has no more are evicted for other
	// domains only when nobody has cached blocks above the floor. 0 is no floor.
	FloorPercent int

	// HashBits cuts block hashes to force collisions in tests; 0 means 128.
	HashBits int

	ModelDigest string // content digest of the weights and their parameters
	KVType      string // element type of the arena: "f16", "q8_0"
	Secret      []byte // makes hashes unpredictable to clients; share it among replicas of one router

	Events bool // keep a log for DrainEvents
}

const (
	defaultBlockTokens = 16
	maxBlocks          = 1 << 28 // node ids of the rings stay within int32
)

func (c Config) blockTokens() int {
	if c.BlockTokens == 0 {
		return defaultBlockTokens
	}
	return c.BlockTokens
}

func (c Config) validate() error {
	if c.Blocks < 2 || c.Blocks > maxBlocks {
		return fmt.Errorf("kvcache: blocks is %d, want 2 to %d: one is the null block", c.Blocks, maxBlocks)
	}
	if n := c.blockTokens(); n < 1 || n > maxBlockTokens {
		return fmt.Errorf("kvcache: block tokens is %d, want 1 to %d", n, maxBlockTokens)
	}
	if c.TenantBlocks < 0 {
		return fmt.Errorf("kvcache: tenant blocks is %d, want 0 (no bound) or more", c.TenantBlocks)
	}
	if c.FloorPercent < 0 || c.FloorPercent > 100 {
		return fmt.Errorf("kvcache: floor percent is %d, want 0 (no floor) to 100", c.FloorPercent)
	}
	if c.HashBits < 0 || c.HashBits > 128 {
		return fmt.Errorf("kvcache: hash bits is %d, want 0 to 128", c.HashBits)
	}
	return nil
}

// The lists of idle blocks: sentinels in Pool.lru after the blocks.
const (
	freeList  = 0 // unpublished, a stack
	classList = 1 // one per class, published, least recently used first
	numLists  = classList + numClasses
)

// Pool hands out blocks and remembers what is in them. See the package comment
// for its structure and its rules.
type Pool struct {
	config      Config
	blockTokens int

	blocks   []block
	ids      []int32 // [Blocks][BlockTokens] token ids of published blocks
	index    index
	lru      rings // blocks, then the numLists lists of idle blocks
	own      rings // blocks, then numClasses lists of cached blocks per domain slot
	children rings // blocks, then the published children of each block, then those of each domain slot

	slots     map[Domain]int32 // into domains; looked up, never iterated
	domains   []domain
	slotsFree []int32
	hand      int32   // domain at which the search for one above its floor goes on
	protected []int32 // domains whose floor holds against sequences of others, too
	soonest   int64   // when the protection of one ends, or before
	left      []int32 // domains of the tables that Without counts as released
	leaving   int     // their blocks

	tables []*Table // live; Table.place points back

	free, cached, pinned int // idle unpublished, idle published, unreferenced but pinned
	counts               Counters
	log                  eventLog
	buf                  preimage
	fault                error // first misuse
}

// New makes a pool whose blocks are all free.
func New(c Config) (*Pool, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	n := c.Blocks
	p := &Pool{
		config:      c,
		blockTokens: c.blockTokens(),
		blocks:      make([]block, n),
		ids:         make([]int32, n*c.blockTokens()),
		slots:       map[Domain]int32{},
	}
	p.index = newIndex(p.blocks)
	p.lru.grow(n + numLists)
	p.own.grow(n)
	p.children.grow(2 * n)
	for b := BlockID(n - 1); b > 0; b-- {
		p.blocks[b].domain = noDomain
		p.park(b)
	}
	p.blocks[0].domain = noDomain
	if c.Events {
		p.log.open(n)
	}
	return p, nil
}

// Domain is Config.Domain for this pool's configuration. It may be called from
// any goroutine.
func (p *Pool) Domain(name string, extra ...Field) Domain { return p.config.Domain(name, extra...) }

// BlockTokens is the number of rows in a block.
func (p *Pool) BlockTokens() int { return p.blockTokens }

// Usable is the number of blocks that sequences can hold: all but the null
// block.
func (p *Pool) Usable() int { return len(p.blocks) - 1 }

// FreeNow is the number of blocks that could be handed out now: never used,
// released, or cached and evictable.
func (p *Pool) FreeNow() int { return p.free + p.cached }

// blocksFor is the number of blocks that cover rows.
func (p *Pool) blocksFor(rows int) int { return (rows + p.blockTokens - 1) / p.blockTokens }

// rows are the token ids stored for block b.
func (p *Pool) rows(b BlockID) []int32 {
	at := int(b) * p.blockTokens
	return p.ids[at : at+p.blockTokens]
}

func (p *Pool) classRing(c Class) int32 { return int32(len(p.blocks)) + classList + int32(c) }

func (p *Pool) ownRing(slot int32, c Class) int32 {
	return int32(len(p.blocks)) + slot*numClasses + int32(c)
}

// childRing is the list of published blocks that follow parent, newest first.
func (p *Pool) childRing(slot int32, parent BlockID) int32 {
	if parent == 0 {
		return 2*int32(len(p.blocks)) + slot
	}
	return int32(len(p.blocks)) + int32(parent)
}

// park puts a block that became idle on its list. An unpublished one leaves
// its domain.
func (p *Pool) park(b BlockID) {
	m := &p.blocks[b]
	if m.published {
		p.lru.pushBack(p.classRing(m.class), int32(b))
		p.own.pushBack(p.ownRing(m.domain, m.class), int32(b))
		p.domains[m.domain].cached++
		p.cached++
		return
	}
	p.lru.pushFront(int32(len(p.blocks))+freeList, int32(b))
	p.free++
	if m.domain != noDomain {
		slot := m.domain
		m.domain = noDomain
		p.domains[slot].resident--
		p.closeDomain(slot)
	}
}

// unpark takes an idle block off its list.
func (p *Pool) unpark(b BlockID) {
	m := &p.blocks[b]
	p.lru.remove(int32(b))
	if !m.published {
		p.free--
		return
	}
	p.own.remove(int32(b))
	p.domains[m.domain].cached--
	p.cached--
}

// refresh makes a cached block the most recently used of its class.
func (p *Pool) refresh(b BlockID) {
	if p.blocks[b].idle() {
		p.unpark(b)
		p.park(b)
	}
}

// hold adds a table's reference.
func (p *Pool) hold(b BlockID) {
	m := &p.blocks[b]
	switch {
	case m.idle():
		p.unpark(b)
	case m.ref == 0:
		p.pinned--
	}
	m.ref++
}

// drop takes a table's reference back; the null block has none.
func (p *Pool) drop(b BlockID) {
	if b == 0 {
		return
	}
	m := &p.blocks[b]
	m.ref--
	switch {
	case m.idle():
		p.park(b)
	case m.ref == 0:
		p.pinned++
	}
}

// alloc takes an idle block for a table of domain slot: the domain's own
// oldest when it is at its bound, else a free one, else the oldest of the
// lowest class: of domains above their floor if there are any, else its own or of those that are not protected. The caller has made sure that one is idle.
func (p *Pool) alloc(slot int32, c Class) BlockID {
	if d := &p.domains[slot]; p.config.TenantBlocks > 0 && d.resident >= p.config.TenantBlocks {
		p.evictOwn(slot)
	}
	if p.free == 0 {
		p.evict(slot)
	}
	b := BlockID(p.lru.front(int32(len(p.blocks)) + freeList))
	p.unpark(b)
	m := &p.blocks[b]
	m.ref, m.class, m.domain = 1, c, slot
	m.gen++
	p.domains[slot].resident++
	return b
}

// raise lifts a block and the published blocks before it to class c at least,
// so that a parent is never in a lower class than its children.
func (p *Pool) raise(b BlockID, c Class) {
	for b != 0 && p.blocks[b].class < c {
		m := &p.blocks[b]
		idle := m.idle()
		if idle {
			p.unpark(b)
		}
		m.class = c
		if idle {
			p.park(b)
		}
		b = m.parent
	}
}

// Pin keeps a published block's content in place although no table may name
// it, for a reader outside the step loop. It reports false, and
// pins nothing, for a block that is not published. Each Pin needs one Unpin.
func (p *Pool) Pin(b BlockID) bool {
	if b <= 0 || int(b) >= len(p.blocks) {
		return false
	}
	m := &p.blocks[b]
	if !m.published || m.pins == math.MaxUint16 {
		return false
	}
	if m.idle() {
		p.unpark(b)
		p.pinned++
	}
	m.pins++
	return true
}

// Unpin undoes one Pin. A block that neither a table nor another Pin holds then
// goes to the recent end of its list, and its ancestors after it.
func (p *Pool) Unpin(b BlockID) {
	if b <= 0 || int(b) >= len(p.blocks) || p.blocks[b].pins == 0 {
		p.misuse("unpin block %d: it is not pinned", b)
		return
	}
	m := &p.blocks[b]
	m.pins--
	if !m.idle() {
		return
	}
	p.pinned--
	slot := m.domain
	p.park(b)
	for a := m.parent; m.published && a != 0; a = p.blocks[a].parent {
		p.refresh(a)
	}
	p.trim(slot)
}

// errMisuse marks what Check reports after a broken contract.
var errMisuse = errors.New("kvcache: misuse")

// misuse remembers the first broken contract for Check.
func (p *Pool) misuse(format string, args ...any) {
	err := fmt.Errorf("%w: "+format, append([]any{errMisuse}, args...)...)
	if invariants.Enabled {
		panic("BUG: " + err.Error())
	}
	if p.fault == nil {
		p.fault = err
	}
}
