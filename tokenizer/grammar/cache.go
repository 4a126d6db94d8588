package grammar

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"weak"
)

// cacheBytes bounds the masks and splits that the matchers of one vocabulary keep.
const cacheBytes = 64 << 20

// sparseIDs is up to how many tokens a set is kept as a list.
const sparseIDs = 1024

// tokenSet is a set of tokens: a list where they are few, else a bit for each id of the vocabulary.
type tokenSet struct {
	ids  []int32
	bits []uint64
}

func newTokenSet(words []uint64) tokenSet {
	count := 0
	for _, w := range words {
		count += bits.OnesCount64(w)
	}
	if count > sparseIDs {
		return tokenSet{bits: append([]uint64(nil), words...)}
	}
	ids := make([]int32, 0, count)
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, int32(i<<6+bits.TrailingZeros64(w)))
		}
	}
	return tokenSet{ids: ids}
}

// addTo sets the bits of the set.
func (t *tokenSet) addTo(dst []uint64) {
	for _, id := range t.ids {
		dst[id>>6] |= 1 << (id & 63)
	}
	if t.bits == nil {
		return
	}
	dst = dst[:len(t.bits)]
	for i, w := range t.bits {
		dst[i] |= w
	}
}

// known is what was worked out once: what the parser adds to the mask of a place, or the split of a lexer state. It never changes once it is in its slot.
type known struct {
	tokens tokenSet // of a mask: those that run past a terminal's end; of a split: those that stay inside the terminals in progress
	cross  []node   // of a split: the trie of tokens that may run past a terminal's end, which the parser has to judge
	whole  []node   // of a split: what nodes of cross that stand for whole trees refer to
	slot   *atomic.Pointer[known]
	used   atomic.Bool // since the cache's hand last came by
}

func (k *known) bytes() int {
	const perEntry, perNode = 128, 12
	return perEntry + 4*len(k.tokens.ids) + 8*len(k.tokens.bits) + perNode*len(k.cross)
}

// cache bounds what is known over one vocabulary. What was not used since the hand last came by gives way; readers that hold it still may
// go on reading. The cache refers to it weakly, so that a grammar that is not used any more is not kept alive by its masks.
type cache struct {
	mu    sync.Mutex
	all   []entry
	hand  int
	bytes int
}

type entry struct {
	known weak.Pointer[known]
	bytes int
}

// put fills a slot, unless another goroutine did meanwhile.
func (c *cache) put(slot *atomic.Pointer[known], k *known) {
	k.slot = slot
	if !slot.CompareAndSwap(nil, k) {
		return
	}
	size := k.bytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, entry{weak.Make(k), size})
	c.bytes += size
	for c.bytes > cacheBytes && len(c.all) > 1 {
		c.hand %= len(c.all)
		e := c.all[c.hand]
		if old := e.known.Value(); old != nil {
			if old == k || old.used.Swap(false) {
				c.hand++
				continue
			}
			old.slot.CompareAndSwap(old, nil)
		}
		c.bytes -= e.bytes
		last := len(c.all) - 1
		c.all[c.hand] = c.all[last]
		c.all[last] = entry{}
		c.all = c.all[:last]
	}
}
