package prefix

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// node is a key that some replica holds, or that is a gap in some replica's holdings.
type node struct {
	lo, hi  atomic.Uint64 // the key
	holders atomic.Uint64
	refs    uint32 // holdings that name the node, gaps included; behind the shard's lock
}

// nodeID names a node: its place in its shard, and the shard in the low bits. 0 is no node.
type nodeID uint32

const (
	shardBits = 6
	shards    = 1 << shardBits
	// A slot of a shard's table has the place of a node and a few bits of its key, so that most searches for absent keys read no
	// node.
	placeBits = 22
	placeMask = 1<<placeBits - 1
	tagMask   = math.MaxUint32 &^ placeMask
	firstSize = 1 << 8 // of a table
)

// split is a key as the index looks for it.
type split struct{ lo, hi uint64 }

func splitKey(k *Key) split {
	return split{binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])}
}

// shard, slot and tag come from different bits of the key.
func (k split) shard() uint32 { return uint32(k.hi) & (shards - 1) }
func (k split) slot() uint32  { return uint32(k.lo) }
func (k split) tag() uint32   { return uint32(k.lo>>32) & tagMask }

// table is an open-addressing hash table of places, with linear probing.
type table struct {
	mask  uint32
	slots []atomic.Uint32 // 0 is free
}

func newTable(size int) *table {
	return &table{mask: uint32(size - 1), slots: make([]atomic.Uint32, size)}
}

// shard is one part of the keys. Its lock is for changes; find and what it leads to are read by atomic loads alone.
type shard struct {
	mu    sync.Mutex
	words uint32 // of a wide set
	table atomic.Pointer[table]
	nodes slab[node]
	wides slab[atomic.Uint64]

	used      uint32 // nodes in use
	next      uint32 // place of the first node that was never used
	free      []uint32
	wideSets  uint32
	freeWides []uint32

	_ [64]byte // shards do not share a cache line
}

func (s *shard) init(words uint32) {
	s.words = words
	s.next = 1
	s.table.Store(newTable(firstSize))
	s.nodes.grow(1)
}

// find is the place of a key's node; 0 when there is none. Beside a change, it may miss.
func (s *shard) find(k split) uint32 {
	t := s.table.Load()
	tag := k.tag()
	for i, n := k.slot()&t.mask, uint32(0); n <= t.mask; i, n = (i+1)&t.mask, n+1 {
		v := t.slots[i].Load()
		if v == 0 {
			return 0
		}
		if v&tagMask != tag {
			continue
		}
		if p := s.nodes.at(v & placeMask); p.lo.Load() == k.lo && p.hi.Load() == k.hi {
			return v & placeMask
		}
	}
	return 0
}

// holders is the set of replicas that hold a key.
func (s *shard) holders(k split) holders {
	if place := s.find(k); place != 0 {
		return holders(s.nodes.at(place).holders.Load())
	}
	return 0
}

// acquire returns the node of a key and counts one reference more, for a replica that holds it or, with held false, has it as a
// gap. It is 0 when the shard is full.
func (s *shard) acquire(k split, r Replica, held bool) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.find(k)
	if place == 0 {
		if place = s.create(k); place == 0 {
			return 0
		}
	}
	p := s.nodes.at(place)
	p.refs++
	if held {
		p.holders.Store(uint64(s.insert(holders(p.holders.Load()), r)))
	}
	return place
}

// hold makes a gap a held key, or the other way round.
func (s *shard) hold(place uint32, r Replica, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.nodes.at(place)
	if h := holders(p.holders.Load()); held {
		p.holders.Store(uint64(s.insert(h, r)))
	} else {
		p.holders.Store(uint64(s.remove(h, r)))
	}
}

// release gives a reference back.
func (s *shard) release(place uint32, r Replica, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.nodes.at(place)
	if held {
		p.holders.Store(uint64(s.remove(holders(p.holders.Load()), r)))
	}
	if p.refs--; p.refs > 0 {
		return
	}
	s.unlink(split{p.lo.Load(), p.hi.Load()}, place)
	s.free = append(s.free, place)
	s.used--
}

// create adds a node to the table. The caller holds the lock and knows that the key has none.
func (s *shard) create(k split) uint32 {
	place := s.next
	if n := len(s.free); n > 0 {
		place = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		if place > placeMask {
			return 0
		}
		s.next++
		s.nodes.grow(s.next)
	}
	p := s.nodes.at(place)
	p.lo.Store(k.lo)
	p.hi.Store(k.hi)
	p.holders.Store(0)
	p.refs = 0
	s.used++
	t := s.table.Load()
	if 4*s.used > 3*uint32(len(t.slots)) {
		t = s.enlarge(t)
	}
	t.put(k, place)
	return place
}

// put writes a place into the first free slot of its key.
func (t *table) put(k split, place uint32) {
	i := k.slot() & t.mask
	for t.slots[i].Load() != 0 {
		i = (i + 1) & t.mask
	}
	t.slots[i].Store(k.tag() | place)
}

// enlarge makes a table of twice the size with the old one's places.
func (s *shard) enlarge(old *table) *table {
	t := newTable(2 * len(old.slots))
	for i := range old.slots {
		if v := old.slots[i].Load(); v != 0 {
			p := s.nodes.at(v & placeMask)
			t.put(split{p.lo.Load(), p.hi.Load()}, v&placeMask)
		}
	}
	s.table.Store(t)
	return t
}

// unlink takes a node out of the table and moves those behind it forward, so that no search meets a hole.
func (s *shard) unlink(k split, place uint32) {
	t := s.table.Load()
	i := k.slot() & t.mask
	for t.slots[i].Load()&placeMask != place {
		i = (i + 1) & t.mask
	}
	for j := i; ; {
		j = (j + 1) & t.mask
		v := t.slots[j].Load()
		if v == 0 {
			break
		}
		home := uint32(s.nodes.at(v&placeMask).lo.Load()) & t.mask
		if (j-home)&t.mask >= (j-i)&t.mask {
			t.slots[i].Store(v)
			i = j
		}
	}
	t.slots[i].Store(0)
}
