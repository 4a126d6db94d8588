package prefix

import (
	"math/bits"
	"sync"
	"time"
)

// entry is a key in a replica's holdings. Entries name each other by their places; 0 is none and also the head of the list of
// leaves.
type entry struct {
	node     nodeID
	parent   uint32 // the key before it; 0 at a chain's start
	children uint32
	stamp    uint32 // of the last use, in uses of this replica
	// The list of leaves (entries without children), last used first; a free entry has the next free one in next.
	prev, next uint32
	until      uint32 // when a speculative entry ends, in milliseconds that wrap; 0: it is confirmed
	state      entryState
}

type entryState uint32

const (
	unused entryState = iota
	held
	gap // missing in the middle: the replica holds what comes after it
)

// entryBytes is about what one key of one replica takes: its entry and slot here, its node and slot in a shard, each with the
// slots' spare room.
const entryBytes = 100

// holdings are the keys of one replica.
type holdings struct {
	mu      sync.Mutex
	shards  *[shards]shard
	id      Replica
	entries slab[entry]
	slots   []nodeSlot // open addressing by node
	shift   uint8      // from a hash to its slot
	used    int        // entries, gaps included
	next    uint32     // place of the first entry that was never used
	free    uint32     // first of the free list
	uses    uint32     // counts stamps
	limit   int
	gaps    int
	pending queue // of speculative entries, in the order of their ends

	fed        bool // events have come
	epoch, seq uint64
}

func (h *holdings) init(id Replica, all *[shards]shard, limit int) {
	h.id, h.shards, h.limit, h.next = id, all, limit, 1
}

// ready allocates what a replica needs at its first key.
func (h *holdings) ready() {
	if h.slots == nil {
		h.resize(firstSize)
		h.entries.grow(1)
	}
}

func (h *holdings) at(e uint32) *entry { return h.entries.at(e) }

// nodeSlot is a node's mixed number and its entry; 0 is free.
type nodeSlot uint64

func newNodeSlot(hash, entry uint32) nodeSlot { return nodeSlot(hash)<<32 | nodeSlot(entry) }
func (s nodeSlot) hash() uint32               { return uint32(s >> 32) }
func (s nodeSlot) entry() uint32              { return uint32(s) }

// hash mixes a node's number, as nodes are numbered in the order of their creation. It loses nothing: the factor is odd.
func (n nodeID) hash() uint32 { return uint32(n) * 0x9e3779b1 }

// home is the first slot of a hash: by its upper bits, which depend on all of the number's.
func (h *holdings) home(hash uint32) uint32 { return hash >> h.shift }

// find is the entry of a node; 0 when there is none.
func (h *holdings) find(n nodeID) uint32 {
	hash, mask := n.hash(), uint32(len(h.slots)-1)
	for i := h.home(hash); ; i = (i + 1) & mask {
		if v := h.slots[i]; v == 0 || v.hash() == hash {
			return v.entry()
		}
	}
}

// entry is that of a key; 0 when there is none.
func (h *holdings) entry(k *Key) uint32 {
	key := splitKey(k)
	s := &h.shards[key.shard()]
	if h.slots == nil {
		return 0
	}
	place := s.search(key)
	if place == 0 {
		return 0
	}
	return h.find(nodeID(place<<shardBits | key.shard()))
}

// holds is the entry of a key that the replica has, or 0.
func (h *holdings) holds(k *Key) uint32 {
	if e := h.entry(k); e != 0 && h.at(e).state == held {
		return e
	}
	return 0
}

// depth is how many of the keys are held, and the entry of the last one. guess is where to look first.
func (h *holdings) depth(keys []Key, guess int) (int, uint32) {
	if h.used == 0 {
		return 0, 0
	}
	if h.gaps > 0 {
		return h.scan(keys)
	}
	low, high := 0, len(keys)+1 // held, not held
	last := uint32(0)
	probe := func(d int) {
		if e := h.holds(&keys[d-1]); e != 0 {
			low, last = d, e
		} else {
			high = d
		}
	}
	if guess > 0 && guess <= len(keys) {
		if probe(guess); low == guess && guess < len(keys) {
			probe(guess + 1)
		}
	}
	for high-low > 1 {
		probe((low + high) / 2)
	}
	return low, last
}

// scan is depth where holdings have gaps.
func (h *holdings) scan(keys []Key) (int, uint32) {
	last := uint32(0)
	for i := range keys {
		e := h.holds(&keys[i])
		if e == 0 {
			return i, last
		}
		last = e
	}
	return len(keys), last
}

// add makes a key held, after its parent (0: it starts a chain), and returns its entry; 0 when its shard is full.
func (h *holdings) add(k *Key, parent, until uint32) uint32 {
	if e := h.entry(k); e != 0 {
		if h.at(e).state == gap {
			h.fillGap(e)
		}
		if parent != 0 && h.at(e).parent == 0 && !h.descends(parent, e) {
			h.adopt(parent, e)
		}
		return e
	}
	e := h.create(k, held, until)
	if e != 0 && parent != 0 {
		h.adopt(parent, e)
	}
	return e
}

// descends says whether e is another entry or comes after it: events that name each other as parents must not close a ring.
func (h *holdings) descends(e, other uint32) bool {
	for ; e != 0; e = h.at(e).parent {
		if e == other {
			return true
		}
	}
	return false
}

// create makes an entry without parent or children.
func (h *holdings) create(k *Key, state entryState, until uint32) uint32 {
	h.ready()
	key := splitKey(k)
	place := h.shards[key.shard()].acquire(key, h.id, state == held)
	if place == 0 {
		return 0
	}
	e := h.free
	if e != 0 {
		h.free = h.at(e).next
	} else {
		e = h.next
		h.next++
		h.entries.grow(h.next)
	}
	*h.at(e) = entry{node: nodeID(place<<shardBits | key.shard()), until: until, state: state}
	if h.used++; 4*h.used > 3*len(h.slots) {
		h.resize(2 * len(h.slots))
	}
	h.put(newNodeSlot(h.at(e).node.hash(), e))
	h.linkAfter(0, e)
	if state == gap {
		h.gaps++
	}
	return e
}

func (h *holdings) put(v nodeSlot) {
	i := h.home(v.hash())
	for h.slots[i] != 0 {
		i = (i + 1) & uint32(len(h.slots)-1)
	}
	h.slots[i] = v
}

// resize makes the table anew with so many slots.
func (h *holdings) resize(slots int) {
	old := h.slots
	h.slots, h.shift = make([]nodeSlot, slots), uint8(32-bits.Len(uint(slots-1)))
	for _, v := range old {
		if v != 0 {
			h.put(v)
		}
	}
}

// adopt makes an entry the child of another.
func (h *holdings) adopt(parent, child uint32) {
	p := h.at(parent)
	if p.children == 0 {
		h.unlink(parent)
	}
	p.children++
	h.at(child).parent = parent
}

// linkAfter puts a leaf behind another one in the list; 0 puts it first.
func (h *holdings) linkAfter(before, e uint32) {
	b, p := h.at(before), h.at(e)
	p.prev, p.next = before, b.next
	h.at(b.next).prev = e
	b.next = e
}

func (h *holdings) unlink(e uint32) {
	p := h.at(e)
	h.at(p.prev).next, h.at(p.next).prev = p.next, p.prev
}

// touch notes a use of a chain by its last entry. Those before it outlive it, so they need no note.
func (h *holdings) touch(e uint32) {
	h.uses++
	p := h.at(e)
	p.stamp = h.uses
	if p.children == 0 {
		h.unlink(e)
		h.linkAfter(0, e)
	}
}

// remove takes a leaf out, and its parent with it where that was a gap only.
func (h *holdings) remove(e uint32) {
	for {
		p := *h.at(e)
		h.unlink(e)
		h.forget(e)
		if p.parent == 0 {
			return
		}
		up := h.at(p.parent)
		if up.children--; up.children > 0 {
			return
		}
		h.inherit(p.parent, p.stamp)
		if up.state != gap {
			return
		}
		e = p.parent
	}
}

// inherit puts an entry that became a leaf on the list, where the leaf that it had was last used, or first if it was itself used
// since then.
func (h *holdings) inherit(e, stamp uint32) {
	p := h.at(e)
	if int32(p.stamp-stamp) > 0 {
		h.linkAfter(0, e)
		return
	}
	p.stamp = stamp
	h.linkAfter(h.at(0).prev, e)
}

// forget frees an entry that is on no list.
func (h *holdings) forget(e uint32) {
	p := h.at(e)
	mask := uint32(len(h.slots) - 1)
	v := newNodeSlot(p.node.hash(), e)
	i := h.home(v.hash())
	for h.slots[i] != v {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		v := h.slots[j]
		if v == 0 {
			break
		}
		if (j-h.home(v.hash()))&mask >= (j-i)&mask {
			h.slots[i], i = v, j
		}
	}
	h.slots[i] = 0
	h.shards[p.node&(shards-1)].release(uint32(p.node>>shardBits), h.id, p.state == held)
	if p.state == gap {
		h.gaps--
	}
	h.used--
	*p = entry{next: h.free}
	h.free = e
}

// evict forgets the least recently used leaves, but for the one to keep, until at most limit entries are left.
func (h *holdings) evict(limit int, keep uint32) {
	for h.used > limit {
		e := h.at(0).prev
		if e == keep {
			// Entries that became leaves were put before it.
			h.unlink(e)
			h.linkAfter(0, e)
			e = h.at(0).prev
		}
		h.remove(e)
	}
}

// openGap makes an entry that has children a gap.
func (h *holdings) openGap(e uint32) {
	p := h.at(e)
	p.state, p.until = gap, 0
	h.gaps++
	h.shards[p.node&(shards-1)].hold(uint32(p.node>>shardBits), h.id, false)
}

func (h *holdings) fillGap(e uint32) {
	p := h.at(e)
	p.state = held
	h.gaps--
	h.shards[p.node&(shards-1)].hold(uint32(p.node>>shardBits), h.id, true)
}

// confirm makes an entry and all before it last.
func (h *holdings) confirm(e uint32) {
	for ; e != 0 && h.at(e).until != 0; e = h.at(e).parent {
		h.at(e).until = 0
	}
}

// expire forgets speculative entries whose time has come.
func (h *holdings) expire(now time.Duration) {
	tick := millis(now)
	for {
		e, at := h.pending.first()
		if e == 0 || int32(at-tick) > 0 {
			return
		}
		h.pending.pop()
		h.lapse(e, tick)
	}
}

// lapse forgets a leaf and what is before it as far as they are speculative and past their time.
func (h *holdings) lapse(e, tick uint32) {
	for e != 0 {
		p := *h.at(e)
		if p.state != held || p.until == 0 || p.children > 0 {
			return
		}
		if int32(p.until-tick) > 0 {
			h.pending.push(e, p.until)
			return
		}
		h.remove(e)
		e = p.parent
	}
}

// millis is a time in milliseconds that wrap, never 0.
func millis(t time.Duration) uint32 { return max(uint32(t/time.Millisecond), 1) }

// queue is a first-in-first-out list of speculative entries. An entry that is renewed keeps its place and is put back when that
// comes.
type queue struct {
	items []pendingItem
	head  int
}

type pendingItem struct{ entry, at uint32 }

func (q *queue) push(e, at uint32) {
	if q.head > 64 && 2*q.head > len(q.items) {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, pendingItem{e, at})
}

func (q *queue) first() (e, at uint32) {
	if q.head == len(q.items) {
		return 0, 0
	}
	return q.items[q.head].entry, q.items[q.head].at
}

func (q *queue) pop() {
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}
