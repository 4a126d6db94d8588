package llm

import (
	"context"
	"errors"
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

// follower holds what a reader of the log believes to be cached.
type follower struct {
	epoch, seq uint64
	held       map[kvcache.Hash]bool
	cleared    int
}

// follow reads until nothing is new.
func (f *follower) follow(t *testing.T, e *Engine, most int) {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		got, err := e.BlockEvents(gone, f.epoch, f.seq, most)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Events) == 0 {
			return
		}
		if got.Epoch == f.epoch && got.First != f.seq+1 && got.Events[0].Kind != kvcache.Cleared {
			t.Fatalf("after %d comes %d, which does not start over", f.seq, got.First)
		}
		f.epoch, f.seq = got.Epoch, got.First+uint64(len(got.Events))-1
		for _, ev := range got.Events {
			switch ev.Kind {
			case kvcache.Cleared:
				clear(f.held)
				f.cleared++
			case kvcache.Stored:
				f.held[ev.Hash] = true
			case kvcache.Removed:
				delete(f.held, ev.Hash)
			}
		}
	}
}

// A reader of the log knows the blocks of each prompt that was computed, whether it reads
// along, comes late, has missed more than the log keeps, or the cache is reset.
func TestReadersKnowTheCache(t *testing.T) {
	e := start(t, families[0], Options{BlockEvents: true, KVBlocks: 200})
	along := follower{held: map[kvcache.Hash]bool{}}
	var last []kvcache.Hash
	for i := range 40 {
		p := prompt(uint64(100+i), 70)
		ask(t, e, greedy(p, 1))
		last = e.cache.Domain("").Chain(nil, p, 16)
		if along.follow(t, e, 3); i%7 == 0 {
			along = follower{held: map[kvcache.Hash]bool{}}
			along.follow(t, e, 1000)
		}
		for _, h := range last {
			if !along.held[h] {
				t.Fatalf("request %d: a reader does not know the block %v", i, h)
			}
		}
	}
	if n := e.pool.Stats().Cached; len(along.held) != n {
		t.Errorf("a reader knows %d blocks, the cache has %d", len(along.held), n)
	}
	lost := follower{epoch: along.epoch, seq: 1, held: map[kvcache.Hash]bool{}}
	for range len(e.blocks.ring) { // nothing of what it lacks is left
		e.blocks.mu.Lock()
		e.blocks.add(kvcache.Event{Kind: kvcache.Removed})
		e.blocks.mu.Unlock()
	}
	lost.follow(t, e, 1000)
	if lost.cleared != 1 || len(lost.held) != len(along.held) {
		t.Errorf("one that missed events starts over %d times and knows %d blocks, want 1 and %d", lost.cleared, len(lost.held), len(along.held))
	}
	if _, err := e.ResetPrefixCache(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost.follow(t, e, 1000); len(lost.held) != 0 {
		t.Errorf("after a reset a reader knows %d blocks", len(lost.held))
	}
}

// A scheduler and a pool that were rebuilt after a fault have nothing cached.
func TestReadersForgetWhatAFaultLost(t *testing.T) {
	s := newStepper(t, families[0], Options{BlockEvents: true})
	s.submit(t, greedy(prompt(1, 70), 1))
	for s.turn() {
	}
	f := follower{held: map[kvcache.Hash]bool{}}
	if f.follow(t, s.Engine, 1000); len(f.held) == 0 {
		t.Fatal("nothing is cached")
	}
	s.loop.rebuild(errors.New("a test"))
	if f.follow(t, s.Engine, 1000); len(f.held) != 0 || f.cleared != 2 {
		t.Errorf("%d blocks are known after the cache was relearned %d times", len(f.held), f.cleared)
	}
}

// A reader waits for news; without a log it is told so.
func TestReadersWait(t *testing.T) {
	e := start(t, families[0], Options{BlockEvents: true})
	f := follower{held: map[kvcache.Hash]bool{}}
	f.follow(t, e, 10)
	got := make(chan BlockEvents)
	go func() {
		found, err := e.BlockEvents(t.Context(), f.epoch, f.seq, 10)
		if err != nil {
			t.Error(err)
		}
		got <- found
	}()
	ask(t, e, greedy(prompt(1, 70), 1))
	if found := <-got; found.First != f.seq+1 || len(found.Events) == 0 {
		t.Errorf("%+v, want what comes after %d", found, f.seq)
	}
	if _, err := start(t, families[0], Options{}).BlockEvents(t.Context(), 0, 0, 10); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("without a log: %v", err)
	}
}
