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

	// Windows has one entry per group of layers, which have a block table of their own: how many positions its layers
	// see, 0 is all. nil is one group that sees all.
	Windows []int

	// StepRows bounds the rows of a sequence that are computed between two Commits. Tables with a window are grown so
	// far ahead of the final rows and no further. 0 is no bound: then they are grown as the others.
	StepRows int

	// States is how many slots the engine has for states, of models with layers that keep a state instead of keys and values; 0 is none.
	// Each sequence takes two, and the rest are checkpoints.
	States int

	// StateInterval is after how many rows of a long prompt a checkpoint is made on the way; 0 is never.
	StateInterval int

	// TenantBlocks bounds the blocks that a domain keeps resident, 0 is no
	// bound. It limits the cache, never a live sequence: a domain at its bound
	// grows by evicting its own cached blocks first, and drops cached blocks
	// that exceed it. Only blocks in use may go beyond it.
	TenantBlocks int

	// FloorPercent is the part of an equal share of the pool, in percent, that each
	// domain keeps: cached blocks of a domain that has no more are evicted for other
	// domains only when no domain has cached blocks above the floor. 0 is no floor.
	FloorPercent int

	// HashBits cuts block hashes to force collisions in tests; 0 means 128.
	HashBits int

	// FineTokens is how many rows a block has of sequences in fine domains (FineDomain), whose rows take more room; it divides
	// BlockTokens. 0 is BlockTokens.
	FineTokens int

	ModelDigest string // content digest of the weights and their parameters
	KVType      string // element type of the arena, as --kv-cache-dtype names it: "f32", "f16", "q8_0", "q4_0"
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

func (c Config) fineTokens() int {
	if c.FineTokens == 0 {
		return c.blockTokens()
	}
	return c.FineTokens
}

func (c Config) validate() error {
	if c.Blocks < 2 || c.Blocks > maxBlocks {
		return fmt.Errorf("kvcache: blocks is %d, want 2 to %d: one is the null block", c.Blocks, maxBlocks)
	}
	if n := c.blockTokens(); n < 1 || n > maxBlockTokens {
		return fmt.Errorf("kvcache: block tokens is %d, want 1 to %d", n, maxBlockTokens)
	}
	if n := c.fineTokens(); n < 1 || c.blockTokens()%n != 0 {
		return fmt.Errorf("kvcache: a block has %d rows of fine domains, want a part of its %d tokens", n, c.blockTokens())
	}
	if err := c.checkWindows(); err != nil {
		return err
	}
	if c.States != 0 && c.States < ownStates || c.States > maxBlocks || c.StateInterval < 0 {
		return fmt.Errorf("kvcache: states is %d and their interval %d rows, want 0 (none) or %d to %d slots, and 0 (never) or more", c.States, c.StateInterval,
			ownStates, maxBlocks)
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

// Pool hands out blocks and remembers what is in them. See the package comment
// for its structure and its rules.
type Pool struct {
	blockStore
	tables []*Table // live; Table.place points back
	fault  error    // first misuse
}

// New makes a pool whose blocks are all free.
func New(c Config) (*Pool, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	n := c.Blocks
	p := &Pool{blockStore: blockStore{
		domainTable: domainTable{usable: n - 1, floorPercent: c.FloorPercent, slots: map[Domain]int32{}},
		config:      c,
		layout:      newLayout(c),
		blocks:      make([]block, n),
		ids:         make([]int32, n*c.blockTokens()),
		states:      newStateStore(c),
	}}
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

// FineDomain is Config.FineDomain for this pool's configuration. It may be called from any goroutine.
func (p *Pool) FineDomain(name string, extra ...Field) Domain {
	return p.config.FineDomain(name, extra...)
}

// Stats reports the pool's state without walking it.
func (p *Pool) Stats() Stats {
	return Stats{
		Blocks:     p.Usable(),
		Free:       p.free,
		Cached:     p.cached,
		Referenced: p.Usable() - p.free - p.cached - p.pinned,
		Pinned:     p.pinned,
		Published:  p.published,
		Tables:     len(p.tables),
		Domains:    len(p.slots),
		States:     max(len(p.states.slots)-1, 0),
		StatesFree: len(p.states.free), Checkpoints: p.states.idle,
		Counters: p.counts,
	}
}

// Resident is the number of blocks that a domain holds or has cached.
func (p *Pool) Resident(d Domain) int {
	if slot, ok := p.slots[d]; ok {
		return p.domains[slot].resident
	}
	return 0
}

// FreeFor is the number of blocks that Grow could hand out to a table of a domain now: FreeNow except for what is protected of
// others.
func (p *Pool) FreeFor(d Domain) int {
	slot, ok := p.slots[d]
	if !ok {
		slot = noDomain
	}
	return p.FreeNow() + p.leaving - p.protectedFrom(slot)
}

// Without has FreeFor answer as if a table had been released, until WithAll. Nothing is released.
func (p *Pool) Without(t *Table) {
	n := t.Sole()
	p.domains[t.domain].leaving += n
	p.leaving += n
	p.left = append(p.left, t.domain)
}

// WithAll ends what Without began.
func (p *Pool) WithAll() {
	for _, slot := range p.left {
		p.domains[slot].leaving = 0
	}
	p.left, p.leaving = p.left[:0], 0
}

// affords reports whether so many blocks can be taken for a domain, of so many that are idle, without what is protected of others.
func (p *Pool) affords(slot int32, need, idle int) bool {
	return need <= idle && (need <= p.free || need <= idle-p.protectedFrom(slot))
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
		p.pinned += p.pagesOf(b)
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
	p.pinned -= p.pagesOf(b)
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
