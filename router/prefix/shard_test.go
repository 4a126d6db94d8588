package prefix

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
)

// Removals move the slots behind them. A replica finds what it holds all the same: a search that missed would make a second entry of
// the key.
func TestWhatIsHeldIsFoundBesideRemovals(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 2})
	keys := make([]Key, 8) // of one hash, so that their slots are side by side
	for i := range keys {
		binary.LittleEndian.PutUint32(keys[i][4:], uint32(i+1))
	}
	mine, others := keys[:1], keys[1:]
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			for i := range others {
				ix.Hold(1, others[i:i+1], 0)
			}
			for i := range others {
				ix.Remove(1, others[i])
			}
		}
	})
	for range 50_000 {
		ix.Hold(0, mine, 0) // behind some of the others
		for range 10 {
			if ix.Depth(0, mine) != 1 {
				t.Fatal("a key that is held is not found")
			}
		}
		ix.Remove(0, mine[0])
	}
	done.Store(true)
	wg.Wait()
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}
