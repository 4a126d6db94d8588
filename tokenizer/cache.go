package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// pieceCache remembers the ids of recent short pieces, since words repeat. It
// is a direct-mapped table of immutable entries behind atomic pointers: no
// locks, a bounded size (about 2 MB), and a race costs no more than a lost
// entry.
type pieceCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedPiece]
}

const (
	cacheSlots = 1 << 14
	cacheBytes = 48 // longest piece kept: longer ones rarely occur again
	cacheIDs   = 15 // most ids kept
)

// cachedPiece holds no pointers, so that the collector need not look at it.
type cachedPiece struct {
	text      [cacheBytes]byte
	ids       [cacheIDs]int32
	textBytes uint8
	count     uint8
}

func newPieceCache() *pieceCache {
	return &pieceCache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cachedPiece], cacheSlots)}
}

// slot is nil for pieces that are not cached.
func (c *pieceCache) slot(piece string) *atomic.Pointer[cachedPiece] {
	if len(piece) > cacheBytes {
		return nil
	}
	return &c.slots[maphash.String(c.seed, piece)%cacheSlots]
}

// lookup gives the ids that slot holds for piece. They must not be changed.
func lookup(slot *atomic.Pointer[cachedPiece], piece string) ([]int32, bool) {
	if slot == nil {
		return nil, false
	}
	e := slot.Load()
	if e == nil || string(e.text[:e.textBytes]) != piece {
		return nil, false
	}
	return e.ids[:e.count], true
}

func store(slot *atomic.Pointer[cachedPiece], piece string, ids []int32) {
	if slot == nil || len(ids) > cacheIDs {
		return
	}
	e := &cachedPiece{textBytes: uint8(len(piece)), count: uint8(len(ids))}
	copy(e.text[:], piece)
	copy(e.ids[:], ids)
	slot.Store(e)
}
