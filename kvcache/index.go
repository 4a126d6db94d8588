package kvcache

import "math/bits"

// index finds a published block by its hash: open addressing with linear
// probing over block ids, at most half full, the hashes themselves staying in
// the blocks. It is sized once, so that publishing and evicting never
// allocate, which a Go map cannot promise under steady churn.
type index struct {
	slots  []BlockID // 0 is empty; the length is a power of two
	blocks []block   // the pool's
	count  int
}

func newIndex(blocks []block) index {
	return index{slots: make([]BlockID, 1<<bits.Len(uint(2*len(blocks)-1))), blocks: blocks}
}

func (x *index) home(h Hash) int { return int(h.prefix()) & (len(x.slots) - 1) }

func (x *index) next(i int) int { return (i + 1) & (len(x.slots) - 1) }

// find returns the block published under h, or 0.
func (x *index) find(h Hash) BlockID {
	for i := x.home(h); x.slots[i] != 0; i = x.next(i) {
		if b := x.slots[i]; x.blocks[b].hash == h {
			return b
		}
	}
	return 0
}

// insert adds block b under its hash, which must not be present.
func (x *index) insert(b BlockID) {
	i := x.home(x.blocks[b].hash)
	for x.slots[i] != 0 {
		i = x.next(i)
	}
	x.slots[i] = b
	x.count++
}

// remove takes block b out and moves later entries of its run forward, so
// that no tombstones are needed.
func (x *index) remove(b BlockID) {
	hole := x.home(x.blocks[b].hash)
	for x.slots[hole] != b {
		hole = x.next(hole)
	}
	for i := x.next(hole); x.slots[i] != 0; i = x.next(i) {
		home := x.home(x.blocks[x.slots[i]].hash)
		if x.distance(home, i) >= x.distance(hole, i) {
			x.slots[hole] = x.slots[i]
			hole = i
		}
	}
	x.slots[hole] = 0
	x.count--
}

// distance is how many probes lead from one slot to another.
func (x *index) distance(from, to int) int { return (to - from) & (len(x.slots) - 1) }
