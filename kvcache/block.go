package kvcache

import "strconv"

// BlockID names a block of BlockTokens rows in the engine's KV arena. 0 is the
// null block: it stands in tables in the place of blocks that Slide released,
// and is never handed out.
type BlockID int32

// Class orders cached blocks for eviction: all idle blocks of a lower class
// are evicted before any of a higher one. Blocks of every class can be evicted:
// a live sequence always comes before the cache.
type Class uint8

// The retention classes, in the order of eviction. Ephemeral, the zero value, suits
// generated text that no client is expected to send again.
const (
	Ephemeral Class = iota
	Normal
	Retained
	Pinned
	numClasses = 4
)

// String names the class.
func (c Class) String() string {
	switch c {
	case Ephemeral:
		return "ephemeral"
	case Normal:
		return "normal"
	case Retained:
		return "retained"
	case Pinned:
		return "pinned"
	}
	return "class " + strconv.Itoa(int(c))
}

// order says when an idle block is taken.
type order uint8

// A block that a window has passed is of use only to a sequence that goes on within a window's length of it. It goes first, and
// those before a place where one is expected (Table.Expect) go next.
const (
	byClass order = iota
	passedFirst
	expectedNext
	numAside = 2 // orders before the classes
)

// noDomain is the domain slot of a block on the free stack.
const noDomain = -1

// block is what the pool records about one block. It holds no pointers, so that
// the garbage collector never walks a pool.
type block struct {
	hash      Hash    // valid while published
	parent    BlockID // published block before this one, 0 at the start of a sequence; of a band with a window: the block of the chain on which it hangs
	domain    int32   // slot of the domain that owns it; noDomain while free
	ref       int32   // table entries that name it
	gen       uint32  // times it was handed out
	pins      uint16
	class     Class
	published bool
}

// mark is what a pool of several groups records about a block beside. It is not in block: a pool of one group goes over fewer bytes
// for that.
type mark struct {
	band   uint8 // 0 is the chain's
	order  order // among idle ones
	forked bool  // several blocks of the chain have followed it
}

// idle blocks are on exactly one list and may be handed out.
func (b *block) idle() bool { return b.ref == 0 && b.pins == 0 }

// writable blocks belong to one table alone: neither pinned nor published.
func (b *block) writable() bool { return b.ref == 1 && b.pins == 0 && !b.published }
