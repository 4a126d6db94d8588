package prefix

import (
	"math"
	"sync"
	"time"
)

// entry is a key in a replica's holdings. Entries name each other by their places; 0 is none.
type entry struct {
	node     nodeID
	parent   uint32 // the key before it; 0 at a chain's start. A free entry has the next free one
	children uint32
	stamp    uint32 // of the last use, in uses of this replica
	until    uint32 // when a speculative entry ends, in milliseconds that wrap; 0: it is confirmed
	state    entryState
	listed   bool // it is in the heap of leaves, which a free one may be too
}

type entryState uint8

const (
	unused entryState = iota
	held
	gap // missing in the middle: the replica holds what comes after it
)

// entryBytes is about what one key of one replica takes: its entry here, its node and slot in a shard, with the slots' spare room.
const entryBytes = 80

// holdings are the keys of one replica.
type holdings struct {
	mu      sync.Mutex
	shards  *[shards]shard
	id      Replica
	entries slab[entry]
	others  nodeTable // the entries that their nodes do not know
	leaves  leaves
	spare   spare
	used    int    // entries, gaps included
	next    uint32 // place of the first entry that was never used
	free    uint32 // first of the free list
	uses    uint32 // counts stamps
	limit   int
	gaps    int
	pending queue // of speculative entries, in the order of their ends

	fed        bool // events have come
	partial    bool // and do not tell all that is held
	epoch, seq uint64

	_ [64]byte // replicas do not share a cache line
}

func (h *holdings) init(id Replica, all *[shards]shard, limit int) {
	h.id, h.shards, h.limit, h.next = id, all, limit, 1
}

func (h *holdings) at(e uint32) *entry { return h.entries.at(e) }

// entry is that of a key; 0 when there is none.
func (h *holdings) entry(k *Key) uint32 {
	if h.used == 0 {
		return 0
	}
	key := splitKey(k)
	place := h.shards[key.shard()].search(key)
	if place == 0 {
		return 0
	}
	return h.of(newNodeID(place, key.shard()))
}

// of is the entry of a node; 0 when there is none.
func (h *holdings) of(n nodeID) uint32 {
	if known := names(h.shards[n.shard()].nodes.at(n.place()).names.Load()); known.of(h.id) {
		return known.entry()
	}
	return h.others.find(n)
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

// add makes a key held, after its parent (0: it starts a chain), and returns its entry; 0 when there is no room for its node.
func (h *holdings) add(k *Key, parent, until uint32) uint32 {
	e := h.create(k, held, until)
	if e == 0 {
		return 0
	}
	if h.at(e).state == gap {
		h.fillGap(e)
	}
	if parent != 0 {
		h.adopt(parent, e)
	}
	return e
}

// adopt makes an entry the child of another, unless it has a parent, as where events name another one, or comes before it.
func (h *holdings) adopt(parent, child uint32) {
	p, c := h.at(parent), h.at(child)
	if c.parent == 0 && !h.descends(parent, child) {
		p.children++
		c.parent = parent
	} else if p.children == 0 && !p.listed {
		h.list(parent, p)
	}
}

// descends says whether e is another entry or comes after it: events that name each other as parents must not close a ring.
func (h *holdings) descends(e, other uint32) bool {
	for before := h.at(other).children > 0; e != other; e = h.at(e).parent {
		if e == 0 || !before {
			return false
		}
	}
	return true
}

// create makes an entry without parent or children, where the replica has none of the key, and returns the entry; 0 when its shard is
// full. A use of it, or of what comes after it, is to be noted next.
func (h *holdings) create(k *Key, state entryState, until uint32) uint32 {
	e := h.free
	if e == 0 {
		e = h.next
		h.entries.grow(e + 1)
	}
	key := splitKey(k)
	node, have, named := h.claim(key, e, state == held)
	if have != e {
		return have
	}
	p := h.at(e)
	if e == h.next {
		h.next++
	} else {
		h.free = p.parent
	}
	*p = entry{node: node, stamp: h.uses + 1, until: until, state: state, listed: p.listed}
	if h.used++; !named {
		h.others.put(p.node, e)
	}
	if state == gap {
		h.gaps++
	}
	return e
}

// claim names a key's node by an entry, unless the replica has one, and returns the node and the replica's entry; no entry when
// there is no room for a node. named says that the node knows the entry.
func (h *holdings) claim(key split, e uint32, held bool) (n nodeID, entry uint32, named bool) {
	s, by := &h.shards[key.shard()], name{h.id, e}
	if len(h.spare) == 0 {
		s.nodes.fill(&h.spare)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place, at := s.find(key)
	if place == 0 {
		last := len(h.spare) - 1
		if last < 0 {
			return 0, 0, false
		}
		place, h.spare = h.spare[last], h.spare[:last]
		s.create(place, key, by, held)
		return newNodeID(place, key.shard()), e, true
	}
	n = newNodeID(place, key.shard())
	if have := h.of(n); have != 0 {
		return n, have, false
	}
	return n, e, s.join(place, at, by, held)
}

// touch notes a use of a chain by its last entry. Those before it outlive it, so they need no note.
func (h *holdings) touch(e uint32) {
	if h.uses++; h.uses == math.MaxUint32 {
		h.age()
	}
	p := h.at(e)
	p.stamp = h.uses
	if p.children == 0 && !p.listed {
		h.list(e, p)
	}
}

// remove takes a leaf out, and its parent with it where that was a gap only.
func (h *holdings) remove(e uint32) {
	for {
		p := *h.at(e)
		h.forget(e)
		if p.parent == 0 {
			return
		}
		up := h.at(p.parent)
		if up.children--; up.children > 0 {
			return
		}
		up.stamp = max(up.stamp, p.stamp) // what its last child was used for, it was, too
		if up.state != gap {
			if !up.listed {
				h.list(p.parent, up)
			}
			return
		}
		e = p.parent
	}
}

// forget frees an entry.
func (h *holdings) forget(e uint32) {
	p := h.at(e)
	if named := h.release(p); !named {
		h.others.remove(p.node)
	}
	if p.state == gap {
		h.gaps--
	}
	h.used--
	*p = entry{parent: h.free, listed: p.listed}
	h.free = e
}

// release takes an entry's name from its node. It reports whether the node knew it.
func (h *holdings) release(p *entry) (named bool) {
	s := &h.shards[p.node.shard()]
	named, gone := s.release(p.node.place(), h.id, p.state == held)
	if gone {
		s.nodes.put(&h.spare, p.node.place())
	}
	return named
}

// evict forgets the least recently used leaves until at most limit entries are left.
func (h *holdings) evict(limit int) {
	for ahead := 0; h.used > limit; ahead-- {
		e := h.oldest()
		if ahead == 0 {
			ahead = h.warm(e, h.used-limit)
		}
		h.remove(e)
	}
}

// warm reads the nodes and slots of an entry and of those before it, up to n, and does nothing with them: they are likely to be removed
// one after the other, and what lies in memory is waited for together. It returns how many it has read, at least 1.
func (h *holdings) warm(e uint32, n int) int {
	var hashes [16]uint32
	var tables [16]*table
	read := 0
	for ; e != 0 && read < min(n, len(hashes)); read++ {
		p := h.at(e)
		s := &h.shards[p.node.shard()]
		hashes[read], tables[read] = s.nodes.at(p.node.place()).hash(), s.table.Load()
		e = p.parent
	}
	for i, t := range tables[:read] {
		t.slots[hashes[i]&t.mask].Load()
	}
	return read
}

// openGap makes an entry that has children a gap.
func (h *holdings) openGap(e uint32) {
	p := h.at(e)
	p.state, p.until = gap, 0
	h.gaps++
	h.shards[p.node.shard()].hold(p.node.place(), h.id, false)
}

func (h *holdings) fillGap(e uint32) {
	p := h.at(e)
	p.state = held
	h.gaps--
	h.shards[p.node.shard()].hold(p.node.place(), h.id, true)
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
