package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// pieceCache remembers the ids of recent short pieces, since words repeat. It
// is a direct-mapped table of immutable entries behind atomic pointers: no
// locks, a bounded size, and a race costs no more than a lost entry.
type pieceCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedPiece]
}

type cachedPiece struct {
	text string
	ids  []int32
}

const (
	cacheSlots      = 1 << 14
	cacheEntryBytes = 48 // longest piece kept: longer ones rarely come back
)

func newPieceCache() *pieceCache {
	return &pieceCache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cachedPiece], cacheSlots)}
}

// slot is nil for pieces that are not cached.
func (c *pieceCache) slot(piece string) *atomic.Pointer[cachedPiece] {
	if len(piece) > cacheEntryBytes {
		return nil
	}
	return &c.slots[maphash.String(c.seed, piece)%cacheSlots]
}

func (c *pieceCache) store(slot *atomic.Pointer[cachedPiece], piece string, ids []int32) {
	slot.Store(&cachedPiece{text: strings.Clone(piece), ids: append([]int32(nil), ids...)})
}
