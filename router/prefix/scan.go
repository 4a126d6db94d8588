package prefix

import (
	"math/bits"
	"slices"
)

// scan is Lookup where some holdings have gaps: it follows, key by key, the replicas that hold all keys so far. Those that drop out
// last hold the most.
func (ix *Index) scan(dst []Match, keys []Key) []Match {
	var buf [2][16]uint64 // 1024 replicas without allocating
	alive, next := buf[0][:], buf[1][:]
	if words := (len(ix.holdings) + 63) / 64; words <= len(buf[0]) {
		alive, next = alive[:words], next[:words]
	} else {
		alive, next = make([]uint64, words), make([]uint64, words)
	}
	for w := range alive {
		alive[w] = ^uint64(0)
	}
	room := dst[len(dst):len(dst):cap(dst)]
	over := 0 // what the next match overwrites once there is no room
	for depth := range keys {
		ix.bits(next, &keys[depth])
		left := uint64(0)
		for w := range alive {
			next[w] &= alive[w]
			left |= next[w]
		}
		if depth > 0 {
			room, over = keepLast(room, over, alive, next, depth)
		}
		if alive, next = next, alive; left == 0 {
			break
		}
	}
	clear(next)
	room, over = keepLast(room, over, alive, next, len(keys))
	slices.Reverse(room[:over])
	slices.Reverse(room[over:])
	return dst[:len(dst)+len(room)]
}

// bits writes the set of replicas that hold a key.
func (ix *Index) bits(set []uint64, k *Key) {
	clear(set)
	key := splitKey(k)
	s := &ix.shards[key.shard()]
	h := s.holders(key)
	if h.wide() {
		for w := range set {
			set[w] = s.wides.at(h.place()*s.words + uint32(w)).Load()
		}
		return
	}
	for i := range h.count() {
		r := h.lane(i)
		set[r/64] |= 1 << (r % 64)
	}
}

// keepLast adds the replicas of one set that are not in the other, over the oldest matches where there is no room.
func keepLast(room []Match, over int, set, without []uint64, depth int) ([]Match, int) {
	for w, word := range set {
		for word &^= without[w]; word != 0; word &= word - 1 {
			m := Match{Replica(64*w + bits.TrailingZeros64(word)), depth}
			if len(room) < cap(room) {
				room = append(room, m)
				continue
			}
			room[over] = m
			over = (over + 1) % len(room)
		}
	}
	return room, over
}
