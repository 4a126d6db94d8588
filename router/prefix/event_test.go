package prefix

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/kvcache"
)

// T41: gaps in a replica's events are named, and filled by what is fetched; absent keys abort nothing; a restart is seen.
func TestT41GapsAreNamedAndFilled(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 1})
	keys := chain(1, 0, 6)
	stored := func(epoch, seq uint64, i int) Event {
		e := Event{Epoch: epoch, Seq: seq, Key: keys[i]}
		if i > 0 {
			e.Parent = keys[i-1]
		}
		return e
	}
	apply := func(e Event) {
		t.Helper()
		if err := ix.Apply(0, e); err != nil {
			t.Fatal(err)
		}
	}
	apply(stored(7, 1, 0))
	apply(stored(7, 2, 1))
	err := ix.Apply(0, stored(7, 5, 4))
	var gap *GapError
	if !errors.As(err, &gap) || *gap != (GapError{Replica: 0, Epoch: 7, After: 2, Got: 5}) {
		t.Fatalf("events 3 and 4 are missing: %v", err)
	}
	if !strings.Contains(err.Error(), "epoch=7&after=2") {
		t.Errorf("%q does not say what to fetch", err)
	}
	if epoch, seq := ix.Cursor(0); epoch != 7 || seq != 2 {
		t.Errorf("after a gap the cursor is %d of epoch %d, want the last event that was applied, 2 of 7", seq, epoch)
	}
	for i := range 3 { // what was fetched, with one that came before
		apply(stored(7, uint64(2+i), 1+i))
	}
	apply(stored(7, 5, 4))
	apply(stored(7, 5, 4)) // twice
	if got := ix.Depth(0, keys); got != 5 {
		t.Errorf("%d keys held after the gap was filled, want 5", got)
	}
	// A batch of removals goes on after one that is not held.
	for i, k := range []Key{key(99), keys[4], key(98), keys[3]} {
		apply(Event{Epoch: 7, Seq: uint64(6 + i), Kind: Removed, Key: k})
	}
	if got := ix.Depth(0, keys); got != 3 {
		t.Errorf("%d keys held after two were removed between two that are unknown, want 3", got)
	}
	// A restart: other epoch, other cache. In the middle of it, nothing of the old one may be believed.
	if err := ix.Apply(0, stored(8, 4, 3)); !errors.As(err, &gap) || gap.Epoch != 8 || gap.After != 0 {
		t.Errorf("an event in the middle of a new epoch: %v", err)
	}
	if got := ix.Entries(0); got != 0 {
		t.Errorf("%d keys of the process before are still held", got)
	}
	apply(Event{Epoch: 8, Seq: 4, Kind: Cleared})
	apply(stored(8, 5, 0))
	if got := ix.Depth(0, keys); got != 1 {
		t.Errorf("%d keys held after the listing, want 1", got)
	}
	if err := ix.Apply(0, Event{Epoch: 8, Seq: 6, Kind: 9}); err == nil {
		t.Error("an event of unknown kind is accepted")
	}
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}

// A real pool's events, lost and listed again, keep the index equal to the pool.
func TestT41FollowsARealCache(t *testing.T) {
	pool, err := kvcache.New(kvcache.Config{Blocks: 65, BlockTokens: 4, ModelDigest: "m", KVType: "none", Events: true})
	if err != nil {
		t.Fatal(err)
	}
	ix := newIndex(t, Config{Replicas: 1})
	rng := rand.New(rand.NewPCG(1, 2))
	d := pool.Domain("tenant")
	seq := uint64(0)
	resident := make(map[Key]Key) // with their parents
	for round := range 2000 {
		prompt := make([]int32, 8+rng.IntN(60))
		for i := range prompt {
			prompt[i] = int32(i / (1 + rng.IntN(40)))
		}
		var s kvcache.Table
		var copies []kvcache.Copy
		pool.Begin(&s, d)
		hit := pool.Match(d, prompt, len(prompt)-1)
		if pool.Grow(&s, len(prompt), hit, &copies) {
			pool.Commit(&s, prompt, len(prompt))
		}
		pool.Release(&s)
		drained := round%7 != 0 // else a log overflows, or the connection was away
		pool.DrainEvents(func(e kvcache.Event) {
			switch e.Kind {
			case kvcache.Stored:
				resident[e.Hash] = e.Parent
			case kvcache.Removed:
				delete(resident, e.Hash)
			case kvcache.Cleared:
				clear(resident)
			}
			seq++
			if !drained {
				return
			}
			err := ix.Apply(0, Event{Epoch: 1, Seq: seq, Kind: EventKind(e.Kind), Key: e.Hash, Parent: e.Parent})
			if _, gap := errors.AsType[*GapError](err); gap {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if _, at := ix.Cursor(0); at != seq {
			seq++
			if err := ix.Apply(0, Event{Epoch: 1, Seq: seq, Kind: Cleared}); err != nil {
				t.Fatal(err)
			}
			list(t, ix, resident, &seq)
		}
		if got := ix.Stats(); got.Entries-got.Gaps != len(resident) {
			t.Fatalf("round %d: %d keys held, the pool has %d", round, got.Entries-got.Gaps, len(resident))
		}
		for _, k := range d.Chain(nil, prompt, 4) {
			if _, want := resident[k]; (ix.holdings[0].holds(&k) != 0) != want {
				t.Fatalf("round %d: resident=%t, and the index says otherwise", round, want)
			}
		}
		if err := ix.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// list tells the index what is resident, in an order that has nothing to do with the chains.
func list(t *testing.T, ix *Index, parents map[Key]Key, seq *uint64) {
	t.Helper()
	all := slices.SortedFunc(maps.Keys(parents), func(a, b Key) int { return slices.Compare(a[:], b[:]) })
	for _, k := range all {
		*seq++
		if err := ix.Apply(0, Event{Epoch: 1, Seq: *seq, Kind: Stored, Key: k, Parent: parents[k]}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEventsThatNameEachOtherAsParentsEnd(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 1, BytesPerReplica: 8 * entryBytes})
	ring := chain(1, 0, 5)
	for i := range 40 {
		e := Event{Epoch: 1, Seq: uint64(i + 1), Key: ring[i%5], Parent: ring[(i+4)%5]}
		if err := ix.Apply(0, e); err != nil {
			t.Fatal(err)
		}
		if err := ix.Check(); err != nil {
			t.Fatal(err)
		}
	}
	ix.Hold(0, chain(2, 0, 20), 0) // evicts all of them
	if got := ix.Depth(0, chain(2, 0, 20)); got != 8 {
		t.Errorf("%d keys held, want the bound of 8", got)
	}
}
