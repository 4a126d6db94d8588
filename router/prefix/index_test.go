package prefix

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
)

func newIndex(t testing.TB, c Config) *Index {
	t.Helper()
	ix, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// key is a key that chains of tests use.
func key(n ...int) Key {
	var b []byte
	for _, v := range n {
		b = binary.LittleEndian.AppendUint64(b, uint64(v)+1)
	}
	c := NewRoot("test", "test").Begin(nil)
	c.Part("", string(append(b, make([]byte, PieceBytes)...)))
	return c.Keys()[0]
}

// chain is n keys; those of different names differ from the depth fork on.
func chain(name, fork, n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		if keys[i] = key(0, i); i >= fork {
			keys[i] = key(name, fork, i)
		}
	}
	return keys
}

// world drives an index and its naive twin by random bytes.
type world struct {
	t     *testing.T
	ix    *Index
	naive *naive
	next  func(n int) int
	now   time.Duration
	lies  bool // events name parents that are none: nothing but Check must hold then
}

const (
	worldReplicas = 9 // above the number of lanes, so that sets become wide
	worldLimit    = 24
	worldDepth    = 10
)

func newWorld(t *testing.T, next func(n int) int) *world {
	ix := newIndex(t, Config{Replicas: worldReplicas, BytesPerReplica: worldLimit * entryBytes})
	return &world{t: t, ix: ix, naive: newNaive(worldReplicas, worldLimit), next: next}
}

func (w *world) keys() []Key {
	n := 1 + w.next(worldDepth)
	return chain(1+w.next(3), w.next(n+1), n)
}

// step does one random operation on both.
func (w *world) step() {
	w.now += time.Duration(w.next(40)) * 10 * time.Millisecond
	r := Replica(w.next(worldReplicas))
	model := &w.naive.replicas[r]
	switch op := w.next(20); {
	case op < 8:
		until := w.now + time.Duration(1+w.next(3))*time.Second
		keys := w.keys()
		w.ix.Put(r, keys, w.next(len(keys)+2), w.now, until)
		model.put(keys, w.now, until)
	case op < 10:
		keys := w.keys()
		w.ix.Hold(r, keys, w.now)
		model.put(keys, w.now, 0)
	case op < 11:
		keys := w.keys()
		w.ix.Confirm(r, keys)
		if d := model.depth(keys); d > 0 && !model.fed {
			model.confirm(keys[d-1])
		}
	case op < 12:
		k := w.keys()
		w.ix.Remove(r, k[len(k)-1])
		model.take(k[len(k)-1])
	case op < 19:
		w.event(r, model)
	default:
		switch w.next(3) {
		case 0:
			w.ix.Expire(w.now)
			for r := range w.naive.replicas {
				w.naive.replicas[r].expire(w.now)
			}
		default:
			w.ix.Drop(r)
			*model = naiveReplica{limit: worldLimit, entries: make(map[Key]*naiveEntry)}
		}
	}
}

func (w *world) event(r Replica, model *naiveReplica) {
	keys := w.keys()
	e := Event{Epoch: 1 + uint64(w.next(12)/11), Seq: model.seq + 1, Kind: Stored, Key: keys[len(keys)-1]}
	if len(keys) > 1 {
		e.Parent = keys[len(keys)-2]
	}
	if w.lies && w.next(4) == 0 {
		keys = w.keys()
		e.Parent = keys[len(keys)-1]
	}
	switch w.next(12) {
	case 1:
		e.Seq = uint64(w.next(20))
	case 2:
		e.Kind = Cleared
	case 3, 4, 5:
		e.Kind = Removed
	}
	err := w.ix.Apply(r, e)
	var gap *GapError
	if missing := model.apply(e); missing != errors.As(err, &gap) || err != nil && gap == nil {
		w.t.Fatalf("event %+v: %v, want missing=%t", e, err, missing)
	}
	if gap != nil && (gap.After != model.seq || gap.Epoch != model.epoch) {
		w.t.Fatalf("%v; the model is at %d of epoch %d", err, model.seq, model.epoch)
	}
}

// compare looks a random chain up in both.
func (w *world) compare() {
	w.t.Helper()
	if err := w.ix.Check(); err != nil {
		w.t.Fatal(err)
	}
	keys := w.keys()
	if w.lies {
		w.ix.Lookup(make([]Match, 0, 4), keys, 0)
		return
	}
	want := w.naive.lookup(keys)
	for r := range w.naive.replicas {
		if got := w.ix.Depth(Replica(r), keys); got != want[Replica(r)] {
			w.t.Fatalf("replica %d holds %d of %d keys, want %d", r, got, len(keys), want[Replica(r)])
		}
		if got, model := w.ix.Entries(Replica(r)), len(w.naive.replicas[r].entries); got != model {
			w.t.Fatalf("replica %d has %d entries, want %d", r, got, model)
		}
	}
	room := 1 + w.next(worldReplicas)
	got := w.ix.Lookup(make([]Match, 0, room), keys, uint32(w.next(1<<20)))
	depths := make([]int, 0, len(want))
	for _, d := range want {
		depths = append(depths, d)
	}
	slices.SortFunc(depths, func(a, b int) int { return b - a })
	seen := make(map[Replica]bool)
	for i, m := range got {
		if m.Depth != want[m.Replica] || seen[m.Replica] {
			w.t.Fatalf("match %d of %v: %d keys, want %d", i, got, m.Depth, want[m.Replica])
		}
		if m.Depth != depths[i] {
			w.t.Fatalf("match %d of %v is not the next longest of %v", i, got, depths)
		}
		seen[m.Replica] = true
	}
	// A lookup may end early only at its bound of different depths.
	if different := len(slices.Compact(slices.Clone(depths))); len(got) < min(room, len(want)) && different <= levels {
		w.t.Fatalf("%d matches of %v with room for %d: %v", len(got), depths, room, got)
	}
}

func TestIndexAgainstNaive(t *testing.T) {
	steps := reference.Repeats(250, 3000, 8000)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, rng.IntN)
		for range steps {
			w.step()
			w.compare()
		}
	}
}

// A replica's uses are counted by 32 bits; beyond them, all stamps are lowered, and what was used before what stays so.
func TestStampsOutliveTheirNumbers(t *testing.T) {
	for seed := range uint64(reference.Repeats(1, 4, 4)) { //nolint:gosec // few
		w := newWorld(t, rand.New(rand.NewPCG(seed, 7)).IntN)
		for r := range w.ix.holdings {
			w.ix.holdings[r].uses = math.MaxUint32 - 40 + uint32(r)
		}
		for range 800 {
			w.step()
			w.compare()
		}
		if last := w.ix.holdings[0].uses; last > math.MaxUint32/2+1000 {
			t.Fatalf("%d uses are counted: the stamps were not lowered", last)
		}
	}
}

// A chain that grows by one key at a time has one leaf, as events have it, and its heap stays small.
func TestHeapOfLeavesHasLittleElse(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 1})
	keys := chain(1, 0, 5000)
	for i := range keys {
		e := Event{Epoch: 1, Seq: uint64(i + 1), Key: keys[i]}
		if i > 0 {
			e.Parent = keys[i-1]
		}
		if err := ix.Apply(0, e); err != nil {
			t.Fatal(err)
		}
	}
	if got := cap(ix.holdings[0].leaves); got > 64 {
		t.Errorf("the heap of one leaf has room for %d", got)
	}
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}

func TestEventsThatLieDoNoHarm(t *testing.T) {
	reference.Slow(t)
	rng := rand.New(rand.NewPCG(3, 7))
	w := newWorld(t, rng.IntN)
	w.lies = true
	for range 5000 {
		w.step()
		w.compare()
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("a first chain of keys"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 200, 255, 13, 19, 19, 2, 2, 2})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 2000 {
			t.Skip("long programs find nothing that short ones do not")
		}
		w := newWorld(t, func(n int) int {
			if len(program) == 0 {
				return 0
			}
			v := int(program[0])
			program = program[1:]
			return v % n
		})
		w.lies = len(program)%2 == 1
		for len(program) > 0 {
			w.step()
			w.compare()
		}
	})
}

func TestLookupAllocatesNothing(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 64})
	keys := chain(1, 100, 128)
	for r := range Replica(64) {
		ix.Hold(r, keys[:2*(r+1)], 0)
	}
	var buf [8]Match
	if n := testing.AllocsPerRun(100, func() { ix.Lookup(buf[:0], keys, 3) }); n != 0 {
		t.Errorf("a lookup allocates %g times", n)
	}
	got := ix.Lookup(buf[:0], keys, 3)
	for i, m := range got {
		if want := (Match{Replica(63 - i), 128 - 2*i}); m != want {
			t.Errorf("match %d is %v, want %v", i, m, want)
		}
	}
	if len(got) != levels {
		t.Errorf("%d matches, want one for each of %d depths", len(got), levels)
	}
	if n := testing.AllocsPerRun(100, func() { ix.Put(3, keys[:8], 8, 0, time.Second) }); n != 0 {
		t.Errorf("noting a pick of what is held allocates %g times", n)
	}
}

// However far a prompt goes on beyond what is held of it, a lookup finds the last key that is.
func TestLookupFindsWhereAPromptGoesOn(t *testing.T) {
	const most = 70
	ix := newIndex(t, Config{Replicas: 2})
	keys := chain(1, 0, most)
	var buf [2]Match
	for held := 1; held < most; held++ {
		ix.Hold(0, keys[:held], 0)
		for n := held; n <= most; n++ {
			got := ix.Lookup(buf[:0], keys[:n], 0)
			if want := (Match{0, held}); len(got) != 1 || got[0] != want {
				t.Fatalf("%d keys of which %d are held: %v", n, held, got)
			}
		}
	}
}

func TestHoldersOfOneKeyTakeTurns(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 100})
	keys := chain(1, 0, 5)
	for r := range Replica(100) {
		ix.Hold(r, keys, 0)
	}
	var buf [2]Match
	seen := make(map[Replica]bool)
	for salt := range uint32(400) {
		for _, m := range ix.Lookup(buf[:0], keys, salt) {
			if m.Depth != 5 {
				t.Fatalf("%v", m)
			}
			seen[m.Replica] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("of 100 holders of a prefix only %d are ever given", len(seen))
	}
}

func TestDropForgetsOneReplica(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 6})
	keys := chain(1, 0, 300)
	for r := range Replica(6) {
		ix.Hold(r, keys, 0)
	}
	ix.Drop(2)
	for r := range Replica(6) {
		want := 300
		if r == 2 {
			want = 0
		}
		if got := ix.Depth(r, keys); got != want {
			t.Errorf("replica %d holds %d keys, want %d", r, got, want)
		}
	}
	for r := range Replica(6) {
		ix.Drop(r)
	}
	if st := ix.Stats(); st.Keys != 0 || st.Entries != 0 {
		t.Errorf("after dropping all: %+v", st)
	}
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}

func TestDeepestAreForgottenFirst(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 1, BytesPerReplica: 100 * entryBytes})
	first, second := chain(1, 20, 60), chain(2, 20, 60)
	ix.Hold(0, first, 0)
	ix.Hold(0, second, 0) // 20 common, 40 and 40
	if got := ix.Depth(0, first); got != 60 {
		t.Fatalf("%d keys held before the bound, want 60", got)
	}
	ix.Hold(0, chain(3, 0, 30), 0)
	if a, b := ix.Depth(0, first), ix.Depth(0, second); a != 30 || b != 60 {
		t.Errorf("of two chains, the one used longer ago holds %d keys and the other %d; want 30 and 60", a, b)
	}
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}

func TestSpeculativeEntriesEnd(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 2})
	keys := chain(1, 0, 20)
	ix.Put(0, keys, 0, 0, 2*time.Second)
	ix.Put(1, keys, 0, 0, 2*time.Second)
	ix.Confirm(1, keys[:15])
	ix.Put(0, keys[:5], 0, time.Second, 9*time.Second)
	ix.Expire(3 * time.Second)
	if a, b := ix.Depth(0, keys), ix.Depth(1, keys); a != 5 || b != 15 {
		t.Errorf("%d keys of the renewed chain and %d of the confirmed one are left; want 5 and 15", a, b)
	}
	ix.Expire(10 * time.Second)
	if a, b := ix.Depth(0, keys), ix.Depth(1, keys); a != 0 || b != 15 {
		t.Errorf("%d and %d keys are left, want 0 and 15", a, b)
	}
}

func TestManyReplicasAtOnce(t *testing.T) {
	ix := newIndex(t, Config{Replicas: 16, BytesPerReplica: 2000 * entryBytes})
	chains := make([][]Key, 64)
	for i := range chains {
		chains[i] = chain(i, 4+i%30, 64)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			var buf [4]Match
			for i := range 3000 {
				keys := chains[rng.IntN(len(chains))]
				r := Replica(rng.IntN(16))
				guess := 0
				for _, m := range ix.Lookup(buf[:0], keys, uint32(i)) {
					if m.Depth < 1 || m.Depth > len(keys) || int(m.Replica) >= 16 {
						t.Errorf("match %v", m)
					}
					r, guess = m.Replica, m.Depth
				}
				switch rng.IntN(100) {
				case 0:
					ix.Drop(r)
				case 1:
					ix.Remove(r, keys[rng.IntN(len(keys))])
				default:
					ix.Put(r, keys, guess, time.Duration(i)*time.Millisecond, time.Duration(i+rng.IntN(50))*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if err := ix.Check(); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{Replicas: -1}, {Replicas: MaxReplicas + 1}, {BytesPerReplica: 1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
