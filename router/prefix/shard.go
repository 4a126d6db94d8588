package prefix

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// node is a key that some replica holds, or that is a gap in some replica's holdings. It takes half a cache line.
type node struct {
	lo      atomic.Uint64 // the key's first half
	holders atomic.Uint64
	names   atomic.Uint64
	hi      atomic.Uint32 // the upper part of the key's second half; of the lower one, the shard's number is told apart
	fork    atomic.Uint32 // a guess: to which depth more replicas than these held the chain that last ended here
}

// is says whether a node is that of a key of its shard.
func (p *node) is(k split) bool { return p.lo.Load() == k.lo && p.hi.Load() == uint32(k.hi>>32) }

// hash is that of the node's key.
func (p *node) hash() uint32 { return split{lo: p.lo.Load()}.hash() }

// names is what a node knows of the entries that name it, gaps included: one of them (32 bits), the replica that it belongs to, as
// number + 1 (16), and how many there are (16). Most nodes have one entry alone, which is found here; where the others are, their
// own replicas know. It changes behind the shard's lock, and for the replica that is named also behind that one's own.
type names uint64

const oneName = names(1)

func (n names) count() int         { return int(n & (1<<16 - 1)) }
func (n names) of(r Replica) bool  { return uint32(n>>16)&(1<<16-1) == uint32(r)+1 }
func (n names) none() bool         { return uint32(n>>16)&(1<<16-1) == 0 }
func (n names) entry() uint32      { return uint32(n >> 32) }
func (n names) without() names     { return n & (1<<16 - 1) }
func (n names) with(by name) names { return n | names(by.entry)<<32 | names(by.replica+1)<<16 }

// name is an entry of a replica.
type name struct {
	replica Replica
	entry   uint32
}

const (
	shardBits = 6
	shards    = 1 << shardBits
	maxPlace  = 1<<(32-shardBits) - 1
	firstSize = 1 << 8 // of a table
)

// split is a key as the index looks for it.
type split struct{ lo, hi uint64 }

func splitKey(k *Key) split {
	return split{binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])}
}

// shard and hash come from different bits of the key.
func (k split) shard() uint32 { return uint32(k.hi) & (shards - 1) }
func (k split) hash() uint32  { return uint32(k.lo) }

// table is an open-addressing hash table with linear probing.
type table struct {
	mask  uint32
	slots []atomic.Uint64
}

// slot is what a table has of a node: the hash of its key (32 bits), how many replicas hold it, up to many (6), and its place (26).
// Searches read hardly any node of another key, and moves none. 0 is free.
type slot uint64

// many is what a slot says of a key that so many replicas hold, or more.
const many = 1<<shardBits - 1

func newSlot(hash, place uint32, count int) slot {
	return slot(hash)<<32 | slot(min(count, many))<<(32-shardBits) | slot(place)
}

func (s slot) hash() uint32  { return uint32(s >> 32) }
func (s slot) place() uint32 { return uint32(s) & maxPlace }
func (s slot) count() int    { return int(s >> (32 - shardBits) & many) }

func newTable(size int) *table {
	return &table{mask: uint32(size - 1), slots: make([]atomic.Uint64, size)}
}

// shard is one part of the keys. What searches read, by atomic loads alone, shares no cache line with what changes write, which need the
// lock.
type shard struct {
	table atomic.Pointer[table]
	nodes *nodes
	wides slab[atomic.Uint64]
	words uint32 // of a wide set
	_     [36]byte

	mu        sync.Mutex
	used      uint32 // nodes in use
	wideSets  uint32
	freeWides []uint32
	_         [24]byte
}

func (s *shard) init(words uint32, all *nodes) {
	s.words, s.nodes = words, all
	s.table.Store(newTable(firstSize))
}

// find is the place of a key's node and its slot's number; 0 when there is none. Without the lock it may miss: a removal moves the
// slots behind it.
func (s *shard) find(k split) (place, at uint32) {
	t := s.table.Load()
	hash := k.hash()
	for i, n := hash&t.mask, uint32(0); n <= t.mask; i, n = (i+1)&t.mask, n+1 {
		v := slot(t.slots[i].Load())
		if v == 0 {
			break
		}
		if v.hash() != hash {
			continue
		}
		if s.nodes.at(v.place()).is(k) {
			return v.place(), i
		}
	}
	return 0, 0
}

// search is find for a caller that must not miss a node that is there.
func (s *shard) search(k split) (place uint32) {
	if place, _ = s.find(k); place == 0 {
		s.mu.Lock()
		place, _ = s.find(k)
		s.mu.Unlock()
	}
	return place
}

// count is how many replicas hold a key, up to many. It trusts the hash alone, so that it reads no node: for one key in hundreds of
// thousands, it is the number of another one.
func (s *shard) count(k split) int {
	t := s.table.Load()
	hash := k.hash()
	for i, n := hash&t.mask, uint32(0); n <= t.mask; i, n = (i+1)&t.mask, n+1 {
		if v := slot(t.slots[i].Load()); v == 0 || v.hash() == hash {
			return v.count()
		}
	}
	return 0
}

// warm reads a key's slot and does nothing with it. Several such reads, one after the other, wait for memory together.
func (s *shard) warm(k split) {
	t := s.table.Load()
	t.slots[k.hash()&t.mask].Load()
}

// node is that of a key; nil when there is none.
func (s *shard) node(k split) *node {
	if place, _ := s.find(k); place != 0 {
		return s.nodes.at(place)
	}
	return nil
}

// holders is the set of replicas that hold a key.
func (s *shard) holders(k split) holders {
	if p := s.node(k); p != nil {
		return holders(p.holders.Load())
	}
	return 0
}

// join counts one entry more that names a node, of a replica that holds the key or, with held false, has it as a gap. It reports whether
// the node knows the entry. The caller holds the lock.
func (s *shard) join(place, at uint32, by name, held bool) (named bool) {
	p := s.nodes.at(place)
	n := names(p.names.Load()) + oneName
	if named = n.none(); named {
		n = n.with(by)
	}
	p.names.Store(uint64(n))
	if held {
		s.set(p, at, s.insert(holders(p.holders.Load()), by.replica))
	}
	return named
}

// set changes who holds a node, in the node and in its slot.
func (s *shard) set(p *node, at uint32, h holders) {
	p.holders.Store(uint64(h))
	t := s.table.Load()
	v := slot(t.slots[at].Load())
	t.slots[at].Store(uint64(newSlot(v.hash(), v.place(), h.count())))
}

// slotOf is the number of a node's slot.
func (s *shard) slotOf(place uint32) uint32 {
	t := s.table.Load()
	i := s.nodes.at(place).hash() & t.mask
	for slot(t.slots[i].Load()).place() != place {
		i = (i + 1) & t.mask
	}
	return i
}

// hold makes a gap a held key, or the other way round.
func (s *shard) hold(place uint32, r Replica, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.nodes.at(place)
	if h := holders(p.holders.Load()); held {
		s.set(p, s.slotOf(place), s.insert(h, r))
	} else {
		s.set(p, s.slotOf(place), s.remove(h, r))
	}
}

// release counts one entry less. It reports whether the node knew it, and whether it was the last one: then the node's place is the
// caller's. A node goes as it is: code that makes it another one writes all of it.
func (s *shard) release(place uint32, r Replica, held bool) (named, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, at := s.nodes.at(place), s.slotOf(place)
	n := names(p.names.Load()) - oneName
	named = n.of(r)
	if n.count() == 0 {
		s.table.Load().unlink(at)
		s.used--
		return named, true
	}
	if held {
		s.set(p, at, s.remove(holders(p.holders.Load()), r))
	}
	if named {
		n = n.without()
	}
	p.names.Store(uint64(n))
	return named, false
}

// create makes a node at a free place, with one entry that names it. The caller holds the lock and knows that the key has none.
func (s *shard) create(place uint32, k split, by name, held bool) {
	var set holders
	if held {
		set = set.with(0, by.replica)
	}
	p := s.nodes.at(place)
	p.lo.Store(k.lo)
	p.hi.Store(uint32(k.hi >> 32))
	p.holders.Store(uint64(set))
	p.names.Store(uint64(oneName.with(by)))
	if p.fork.Load() != 0 {
		p.fork.Store(0)
	}
	s.used++
	t := s.table.Load()
	if 4*s.used > 3*uint32(len(t.slots)) {
		t = s.enlarge(t)
	}
	t.put(newSlot(k.hash(), place, set.count()))
}

// put writes a slot into the first free one from its home on.
func (t *table) put(v slot) {
	i := v.hash() & t.mask
	for t.slots[i].Load() != 0 {
		i = (i + 1) & t.mask
	}
	t.slots[i].Store(uint64(v))
}

// enlarge makes a table of twice the size with what the old one has.
func (s *shard) enlarge(old *table) *table {
	t := newTable(2 * len(old.slots))
	for i := range old.slots {
		if v := slot(old.slots[i].Load()); v != 0 {
			t.put(v)
		}
	}
	s.table.Store(t)
	return t
}

// unlink frees a slot and moves those behind it forward, so that no search meets a hole.
func (t *table) unlink(i uint32) {
	for j := i; ; {
		j = (j + 1) & t.mask
		v := slot(t.slots[j].Load())
		if v == 0 {
			break
		}
		if (j-v.hash())&t.mask >= (j-i)&t.mask {
			t.slots[i].Store(uint64(v))
			i = j
		}
	}
	t.slots[i].Store(0)
}
