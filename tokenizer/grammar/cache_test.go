package grammar

import (
	"sync/atomic"
	"testing"
)

// TestTheCacheIsBounded: what is not used gives way to what is new, and what is used stays.
func TestTheCacheIsBounded(t *testing.T) {
	const words = 1 << 17 // a MiB
	bits := make([]uint64, words)
	var c cache
	slots := make([]atomic.Pointer[known], 3*cacheBytes>>20)
	for i := range slots {
		c.put(&slots[i], &known{tokens: tokenSet{bits: bits}})
		if k := slots[0].Load(); k != nil {
			k.used.Store(true)
		}
	}
	kept := 0
	for i := range slots {
		if slots[i].Load() != nil {
			kept++
		}
	}
	if c.bytes > cacheBytes || kept == 0 || kept > cacheBytes>>20 {
		t.Errorf("%d of %d are kept, %d bytes, the limit is %d", kept, len(slots), c.bytes, cacheBytes)
	}
	if slots[0].Load() == nil {
		t.Error("what was used all the time gave way")
	}
	if slots[len(slots)-1].Load() == nil {
		t.Error("what came last gave way")
	}
}

func TestTokenSets(t *testing.T) {
	for _, step := range []int{1, 3, 700} {
		words, got := make([]uint64, 2000), make([]uint64, 2000)
		for id := 0; id < 64*len(words); id += step {
			words[id>>6] |= 1 << (id & 63)
		}
		s := newTokenSet(words)
		s.addTo(got)
		for i := range words {
			if got[i] != words[i] {
				t.Fatalf("every %d: word %d is %x, want %x", step, i, got[i], words[i])
			}
		}
		if (s.bits == nil) != (step == 700) {
			t.Errorf("every %d: kept as a list: %v", step, s.bits == nil)
		}
	}
}
