package prefix

import (
	"math/bits"
	"sync/atomic"
)

// Replica is the number of a replica in an index.
type Replica uint16

// MaxReplicas is the most that an index can have.
const MaxReplicas = 1<<15 - 2

// holders is the set of replicas that hold a key, in one word, so that a reader sees a whole set. Up to four replicas are in
// lanes of 15 bits, as number + 1, the empty lanes last. A larger set has the top bit, its size, and the place of its bits in
// the shard's wide sets.
type holders uint64

const (
	lanes    = 4
	laneBits = 15
	laneMask = 1<<laneBits - 1
	wideBit  = holders(1) << 63
	// narrowAt is the size at which a wide set becomes lanes again: below lanes, so that a set that grows and shrinks by one does not
	// change its form each time.
	narrowAt = 2
)

func (h holders) wide() bool { return h&wideBit != 0 }

// place is where the bits of a wide set are.
func (h holders) place() uint32 { return uint32(h) }

func wideSet(count int, place uint32) holders {
	return wideBit | holders(count)<<32 | holders(place)
}

// count is the number of replicas in the set.
func (h holders) count() int {
	if h.wide() {
		return int(h >> 32 & (1<<31 - 1))
	}
	return (bits.Len64(uint64(h)) + laneBits - 1) / laneBits
}

func (h holders) lane(i int) Replica { return Replica(h>>(laneBits*i)&laneMask) - 1 }

func (h holders) with(i int, r Replica) holders { return h | holders(r+1)<<(laneBits*i) }

// has says whether a replica is in the set.
func (s *shard) has(h holders, r Replica) bool {
	if h.wide() {
		w := s.wides.at(h.place()*s.words + uint32(r)/64)
		return w.Load()>>(r%64)&1 != 0
	}
	for ; h != 0; h >>= laneBits {
		if h.lane(0) == r {
			return true
		}
	}
	return false
}

// insert adds a replica that is not in the set. The caller holds the shard's lock.
func (s *shard) insert(h holders, r Replica) holders {
	n := h.count()
	if !h.wide() {
		if n < lanes {
			return h.with(n, r)
		}
		place := s.newWide()
		for i := range lanes {
			s.setBit(place, h.lane(i), true)
		}
		h = wideSet(n, place)
	}
	s.setBit(h.place(), r, true)
	return wideSet(n+1, h.place())
}

// remove takes a replica out of the set that it is in. The caller holds the shard's lock.
func (s *shard) remove(h holders, r Replica) holders {
	n := h.count()
	var less holders
	if !h.wide() {
		for i, kept := 0, 0; i < n; i++ {
			if h.lane(i) != r {
				less = less.with(kept, h.lane(i))
				kept++
			}
		}
		return less
	}
	s.setBit(h.place(), r, false)
	if n-1 > narrowAt {
		return wideSet(n-1, h.place())
	}
	kept := 0
	for w := range s.words {
		word := s.wides.at(h.place()*s.words + w)
		for left := word.Load(); left != 0; left &= left - 1 {
			less = less.with(kept, Replica(64*int(w)+bits.TrailingZeros64(left)))
			kept++
		}
		word.Store(0)
	}
	s.freeWides = append(s.freeWides, h.place())
	return less
}

func (s *shard) setBit(place uint32, r Replica, on bool) {
	w := s.wides.at(place*s.words + uint32(r)/64)
	if on {
		w.Store(w.Load() | 1<<(r%64))
	} else {
		w.Store(w.Load() &^ (1 << (r % 64)))
	}
}

// newWide is the place of an empty wide set.
func (s *shard) newWide() uint32 {
	if n := len(s.freeWides); n > 0 {
		place := s.freeWides[n-1]
		s.freeWides = s.freeWides[:n-1]
		return place
	}
	place := s.wideSets
	s.wideSets++
	s.wides.grow(s.wideSets * s.words)
	return place
}

// slab is an array that grows by chunks that never move, so that readers need no lock.
type slab[T any] struct {
	dir atomic.Pointer[[]*[slabChunk]T]
}

const slabChunk = 512

func (s *slab[T]) at(i uint32) *T {
	return &(*s.dir.Load())[i/slabChunk][i%slabChunk]
}

// grow makes room for n elements. One goroutine at a time may call it.
func (s *slab[T]) grow(n uint32) {
	if have := s.chunks() * slabChunk; int(n) > have {
		s.extend((int(n) - have + slabChunk - 1) / slabChunk)
	}
}

func (s *slab[T]) extend(chunks int) {
	var dir []*[slabChunk]T
	if old := s.dir.Load(); old != nil {
		dir = *old
	}
	for range chunks {
		// Readers never look beyond the length that they loaded, so a spare place may be written.
		dir = append(dir, new([slabChunk]T))
	}
	s.dir.Store(&dir)
}

// clear forgets all elements. It may not be read meanwhile.
func (s *slab[T]) clear() { s.dir.Store(nil) }

// chunks is the number of chunks that exist.
func (s *slab[T]) chunks() int {
	if dir := s.dir.Load(); dir != nil {
		return len(*dir)
	}
	return 0
}
