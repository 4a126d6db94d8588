package balance

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/router/prefix"
)

var start = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return start.Add(d) }

func newBalancer(t testing.TB, c Config, replicas int) *Balancer {
	t.Helper()
	b, err := New(start, c)
	if err != nil {
		t.Fatal(err)
	}
	for range replicas {
		if _, err := b.Add(start, Member{}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func pick(t testing.TB, b *Balancer, now time.Duration, r Request) Lease {
	t.Helper()
	l, err := b.Pick(at(now), &r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// chain is n keys of a conversation, the first shared of which are those of all.
func chain(name, shared, n int) []prefix.Key {
	keys := make([]prefix.Key, n)
	for i := range keys {
		who := uint64(name) + 1
		if i < shared {
			who = 0
		}
		binary.LittleEndian.PutUint64(keys[i][:8], mix(who<<32+uint64(i)))
		binary.LittleEndian.PutUint64(keys[i][8:], mix(who<<40+uint64(i)))
	}
	return keys
}

func loads(b *Balancer, now time.Duration) []int {
	var all []int
	for _, s := range b.Status(at(now)) {
		all = append(all, s.Load)
	}
	return all
}

func all(t *testing.T, run func(t *testing.T, p Policy)) {
	for i, name := range Policies() {
		t.Run(name, func(t *testing.T) { run(t, Policy(i)) })
	}
}

func TestPoliciesSpreadEqualRequests(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 1}, 8)
		for i := range 800 {
			pick(t, b, 0, Request{Keys: chain(i, 0, 8), Tokens: 512, Output: 100})
		}
		for id, load := range loads(b, 0) {
			if load < 60 || load > 150 {
				t.Errorf("replica %d has %d of 800 requests, want about 100", id, load)
			}
		}
	})
}

func TestPolicyNames(t *testing.T) {
	for i, name := range Policies() {
		if p, err := ParsePolicy(name); err != nil || p != Policy(i) || p.String() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := ParsePolicy("best"); err == nil {
		t.Error("a policy that is not there is found")
	}
}

func TestAConversationStays(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 4)
	for c := range 20 {
		keys := chain(c, 2, 60)
		first := pick(t, b, 0, Request{Keys: keys[:10], Tokens: 640})
		first.Began(at(time.Second))
		first.Done(at(2*time.Second), Outcome{Output: 10})
		for turn := 2; turn <= 6; turn++ {
			now := time.Duration(turn) * time.Minute
			l := pick(t, b, now, Request{Keys: keys[:10*turn], Tokens: 640 * turn})
			if l.Replica != first.Replica || l.Reason.Hit != 10*(turn-1) {
				t.Errorf("conversation %d, turn %d goes to %d (%v), began at %d", c, turn, l.Replica, l.Reason, first.Replica)
			}
			if got, want := l.Reason.String(), "prefix "; got[:len(want)] != want {
				t.Errorf("reason %q", got)
			}
			l.Began(at(now + time.Second))
			l.Done(at(now+2*time.Second), Outcome{Output: 10})
		}
	}
}

// T36: a miss goes where the load is least, whatever is cached there; the emptiest cache is no reason.
func TestT36AMissDoesNotGoToTheEmptiestCache(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 3)
	for c := range 50 { // 0 and 1 have much in their caches, 2 nothing
		for id := range ReplicaID(2) {
			b.Index().Hold(id, chain(100+c, 0, 50), 0)
		}
	}
	b.Report(start, 2, Report{Running: 8, Waiting: 40, WaitingTokens: 40_000})
	for i := range 20 {
		if l := pick(t, b, 0, Request{Keys: chain(i, 0, 20), Tokens: 1280, Output: 50}); l.Replica == 2 {
			t.Fatalf("miss %d went to the replica with the emptiest cache, which has 48 requests (%v)", i, l.Reason)
		}
	}
}

// T37: whatever a request is and whichever policy picks, it counts until its end.
func TestT37EveryPickCounts(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 1}, 8)
		var leases []Lease
		for i := range 480 {
			r := Request{Output: i % 7}
			switch i % 3 { // a chat, an embedding without keys, a session
			case 0:
				r.Keys, r.Tokens = chain(i, 0, 5), 320
			case 1:
				r.Tokens = 20
			case 2:
				r.Session = uint64(i)
			}
			leases = append(leases, pick(t, b, 0, r))
		}
		sum, most := 0, 0
		for _, load := range loads(b, 0) {
			sum, most = sum+load, max(most, load)
		}
		if sum != 480 || most > 120 {
			t.Errorf("480 requests count as %d, of which one replica has %d", sum, most)
		}
		for _, l := range leases {
			l.Done(at(time.Second), Outcome{})
		}
		for _, s := range b.Status(at(time.Second)) {
			if s.Load != 0 || s.Tokens != 0 {
				t.Errorf("after all ended: %+v", s)
			}
		}
	})
}

// T38: a load that is uneven takes affinity only from requests that would go where it is too high.
func TestT38OnlyTheOverloadedReplicaLosesItsPrefixes(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 4)
	for c := range 4 { // one conversation is cached at each replica
		b.Index().Hold(ReplicaID(c), chain(c, 0, 40), 0)
	}
	for range 60 { // and 0 gets 60 requests more than the others
		b.replicas[0].picks.Add(1)
		b.pools[Decoding].flying.Add(1)
	}
	for c := range 4 {
		l := pick(t, b, 0, Request{Keys: chain(c, 0, 40), Tokens: 2560})
		l.Began(start)
		switch {
		case c == 0 && (l.Replica == 0 || l.Reason.Why != ByGate):
			t.Errorf("a prefix that is cached at the overloaded replica: %d, %v", l.Replica, l.Reason)
		case c > 0 && l.Replica != ReplicaID(c):
			t.Errorf("the prefix that is cached at replica %d went to %d (%v)", c, l.Replica, l.Reason)
		}
	}
	// Where it was spilled to, it is known from now on.
	if l := pick(t, b, 0, Request{Keys: chain(0, 0, 40), Tokens: 2560}); l.Replica == 0 || l.Reason.Hit != 40 {
		t.Errorf("the next request with the spilled prefix: %d, %v", l.Replica, l.Reason)
	}
}

// T39: no timer gives load back; Done does, once, however many hold the lease.
func TestT39LoadIsGivenBackOnceAndByNoTimer(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 2)
	var leases []Lease
	for i := range 100 {
		leases = append(leases, pick(t, b, 0, Request{Keys: chain(i, 0, 4), Tokens: 256}))
	}
	later := 48 * time.Hour
	pick(t, b, later, Request{}).Done(at(later), Outcome{})
	if got := loads(b, later); got[0]+got[1] != 100 {
		t.Fatalf("after two days the loads are %v, want 100 together", got)
	}
	ended := make([]int, len(leases))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, l := range leases {
				l.Began(at(later))
				if l.Done(at(later), Outcome{Failed: i%2 == 0}) {
					mu.Lock()
					ended[i]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for i, n := range ended {
		if n != 1 {
			t.Errorf("lease %d ended %d times", i, n)
		}
	}
	again := pick(t, b, later, Request{Tokens: 10}) // its record is that of an ended lease
	for _, l := range leases {
		if l.Done(at(later), Outcome{}) {
			t.Error("a lease that ended ends another one")
		}
	}
	if got := loads(b, later); got[0]+got[1] != 1 {
		t.Errorf("loads %v, want 1 in flight", got)
	}
	if !again.Done(at(later), Outcome{}) || (Lease{}).Done(at(later), Outcome{}) {
		t.Error("the last lease does not end, or an empty one does")
	}
	for _, s := range b.Status(at(later)) {
		if s.InFlight != 0 || s.Tokens != 0 {
			t.Errorf("at the end: %+v", s)
		}
	}
}

// T40: between two reports, a burst does not all go to the replica that the last one showed idle.
func TestT40PicksSinceAReportCount(t *testing.T) {
	for _, p := range []Policy{Prefix, LeastLoad, PowerOfTwo} {
		b := newBalancer(t, Config{Policy: p, Seed: 1}, 3)
		b.Report(start, 0, Report{Running: 20})
		b.Report(start, 1, Report{Running: 20})
		b.Report(start, 2, Report{})
		for i := range 60 {
			pick(t, b, 10*time.Millisecond, Request{Keys: chain(i, 0, 4), Tokens: 256, Output: 100})
		}
		// By number the last has 33 in the end; by tokens, it gets a third of the burst.
		if got := loads(b, 10*time.Millisecond); got[2] < 15 || got[2] > 40 {
			t.Errorf("%v: after a burst of 60 between two reports the loads are %v", p, got)
		}
		// A report that was asked for before the burst and comes after it does not hide it.
		b = newBalancer(t, Config{Policy: p, Seed: 1}, 2)
		mark := b.Mark(1)
		for range 30 {
			pick(t, b, 0, Request{Tokens: 100})
		}
		mine := loads(b, 0)[1]
		b.Report(at(time.Millisecond), 1, Report{Running: 5, Since: mark})
		if got := loads(b, time.Millisecond)[1]; got != mine+5 {
			t.Errorf("%v: 5 requests of others and %d picks since the report was asked for count as %d", p, mine, got)
		}
	}
}

// T40: when all reports are old, own counts decide, and requests go on.
func TestT40StaleReportsFailOpen(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 2)
	b.Report(start, 0, Report{Running: 500, Waiting: 500, WaitingTokens: 1e6, KV: 1})
	b.Report(start, 1, Report{Running: 500, Waiting: 500, WaitingTokens: 1e6, KV: 1})
	for i := range 100 {
		pick(t, b, time.Hour, Request{Keys: chain(i, 0, 4), Tokens: 256})
	}
	if got := loads(b, time.Hour); got[0]+got[1] != 100 || got[0] < 35 || got[1] < 35 {
		t.Errorf("with reports of an hour ago the loads are %v, want about 50 each", got)
	}
}

func TestReportsOfOthersLoadCount(t *testing.T) {
	b := newBalancer(t, Config{Policy: LeastLoad, Seed: 1}, 2)
	l := pick(t, b, 0, Request{Avoid: Set{1}})
	b.Report(at(time.Second), 0, Report{Running: 7})
	if got := loads(b, time.Second)[0]; got != 7 {
		t.Errorf("a report of 7 with one of our own counts as %d", got)
	}
	l.Done(at(2*time.Second), Outcome{})
	if got := loads(b, 2*time.Second)[0]; got != 6 {
		t.Errorf("when ours ends 6 are left, not %d", got)
	}
}

func TestDrainingAndAvoidedReplicasGetNothing(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 1}, 4)
		keys := chain(1, 0, 30)
		b.Index().Hold(0, keys, 0)
		b.Index().Hold(1, keys, 0)
		b.Drain(0)
		for range 200 {
			l := pick(t, b, 0, Request{Keys: keys, Tokens: 2000, Session: 5, Avoid: Set{1}})
			if l.Replica < 2 {
				t.Fatalf("replica %d got a request (%v)", l.Replica, l.Reason)
			}
			l.Done(start, Outcome{})
		}
		b.Suspend(1)
		b.Suspend(2)
		if _, err := b.Pick(start, &Request{Avoid: Set{3}}); !errors.Is(err, ErrNone) {
			t.Errorf("with no replica left: %v", err)
		}
		b.Drain(3)
		if _, err := b.Pick(start, &Request{}); !errors.Is(err, ErrNone) {
			t.Errorf("with no active replica: %v", err)
		}
	})
}

func TestAReplicaComesBackSlowly(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 3}, 4)
		share := func(now time.Duration) float64 {
			n := 0
			for i := range 1000 {
				l := pick(t, b, now, Request{Keys: chain(i, 0, 3), Tokens: 200})
				if l.Replica == 1 {
					n++
				}
				l.Done(at(now), Outcome{Failed: true})
			}
			return float64(n) / 1000
		}
		b.Suspend(1)
		b.Resume(at(time.Minute), 1)
		early, late := share(time.Minute), share(3*time.Minute)
		if early > 0.08 || early == 0 || late < 0.15 || late > 0.4 {
			t.Errorf("it takes %.3f of requests when it is back and %.3f later, want about 0.03 and 0.25", early, late)
		}
	})
}

func TestANewReplicaAmongOthersBeginsSlowly(t *testing.T) {
	b := newBalancer(t, Config{}, 2)
	if _, err := b.Add(at(time.Hour), Member{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range b.Status(at(time.Hour)) {
		if want := map[bool]float64{true: 0.1, false: 1}[s.ID == 2]; s.Share != want {
			t.Errorf("replica %d takes %g of its requests, want %g", s.ID, s.Share, want)
		}
	}
}

func TestNumbersOfRemovedReplicasWaitForTheirLeases(t *testing.T) {
	b := newBalancer(t, Config{Index: prefix.Config{Replicas: 2}}, 2)
	l := pick(t, b, 0, Request{Avoid: Set{1}})
	b.Remove(0)
	if _, err := b.Add(start, Member{}); !errors.Is(err, ErrFull) {
		t.Errorf("a replica is added under the number of one that has a request in flight: %v", err)
	}
	l.Done(start, Outcome{})
	if id, err := b.Add(start, Member{}); err != nil || id != 0 {
		t.Errorf("%d, %v", id, err)
	}
}

func TestASlowReplicaGetsLess(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 2)
	now := time.Duration(0)
	counts := make([]int, 2)
	for i := range 400 { // 0 needs 4 ms for a token, 1 needs 1 ms; each request of 1000 tokens is alone
		l := pick(t, b, now, Request{Keys: chain(i, 0, 15), Tokens: 1000, Output: 10})
		took := time.Second
		if l.Replica == 0 {
			took *= 4
		}
		l.Began(at(now + took))
		l.Done(at(now+took+100*time.Millisecond), Outcome{Output: 10})
		if now += 5 * time.Second; i >= 100 {
			counts[l.Replica]++
		}
	}
	if counts[0] > 30 {
		t.Errorf("the replica that is four times slower got %d of 300 requests although the other one was idle", counts[0])
	}
}

func TestFullSlotsAreWaitedFor(t *testing.T) {
	b, err := New(start, Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := b.Add(start, Member{Slots: 4}); err != nil {
			t.Fatal(err)
		}
	}
	keys := chain(1, 0, 40)
	b.Index().Hold(0, keys, 0)
	b.replicas[0].service.set(float64(20 * time.Second))
	for range 4 { // the slots of 0 are taken by requests whose prompts are computed
		pick(t, b, 0, Request{Tokens: 10, Avoid: Set{1}}).Began(start)
	}
	if l := pick(t, b, 0, Request{Keys: keys, Tokens: 2560}); l.Replica != 1 {
		t.Errorf("2.5 s of prompt are cached where a slot comes free in 5 s: %d, %v", l.Replica, l.Reason)
	}
}

func TestSessionsDecideWhereNothingElseDoes(t *testing.T) {
	b := newBalancer(t, Config{Seed: 1}, 16)
	first := pick(t, b, 0, Request{Session: 99, Tokens: 100})
	if first.Reason.Why != BySession {
		t.Errorf("%v", first.Reason)
	}
	first.Done(start, Outcome{})
	for range 50 {
		l := pick(t, b, 0, Request{Session: 99, Tokens: 100})
		if l.Replica != first.Replica {
			t.Errorf("the session went to %d and then to %d", first.Replica, l.Replica)
		}
		l.Done(start, Outcome{})
	}
	b.Suspend(first.Replica)
	if l := pick(t, b, 0, Request{Session: 99}); l.Replica == first.Replica {
		t.Error("a session is kept at a replica that gets no requests")
	}
}

func TestConsistentHashKeepsPlacesAndItsBound(t *testing.T) {
	b := newBalancer(t, Config{Policy: ConsistentHash, Seed: 1}, 10)
	before := make([]ReplicaID, 300)
	for i := range before {
		l := pick(t, b, 0, Request{Keys: chain(i, 0, 6)})
		before[i] = l.Replica
		l.Done(start, Outcome{})
	}
	b.Suspend(3)
	for i, id := range before {
		l := pick(t, b, 0, Request{Keys: chain(i, 0, 6)})
		if id != 3 && l.Replica != id {
			t.Errorf("without replica 3, prompt %d moved from %d to %d", i, id, l.Replica)
		}
		l.Done(start, Outcome{})
	}
	for range 400 { // one prompt in demand
		pick(t, b, 0, Request{Keys: chain(7, 0, 6)})
	}
	if most := slices.Max(loads(b, 0)); float64(most) > 1.25*400/9+2 {
		t.Errorf("of 400 requests with one prompt, a replica has %d: above 1.25 times the mean", most)
	}
}

func TestTiesAreRandomAndSeeded(t *testing.T) {
	run := func(seed uint64) (order []ReplicaID) {
		b := newBalancer(t, Config{Seed: seed}, 4)
		for range 100 {
			l := pick(t, b, 0, Request{Tokens: 100})
			order = append(order, l.Replica)
			l.Done(start, Outcome{Failed: true})
		}
		return order
	}
	a, again, other := run(1), run(1), run(2)
	if !slices.Equal(a, again) || slices.Equal(a, other) {
		t.Error("picks depend on more than the seed, or not on it")
	}
	counts := make([]int, 4)
	for _, id := range a {
		counts[id]++
	}
	if slices.Min(counts) < 10 {
		t.Errorf("among equals the choice is %v", counts)
	}
}

func TestReasonsAreWritten(t *testing.T) {
	for want, r := range map[string]Reason{
		"prefix 12/14 blocks": {Why: ByPrefix, Hit: 12, Of: 14}, "gate": {Why: ByGate}, "session": {Why: BySession},
		"least_load": {Why: ByLoad}, "only": {Why: Only}, "round_robin": {Policy: RoundRobin},
	} {
		if got := r.String(); got != want {
			t.Errorf("%+v is written as %q, want %q", r, got, want)
		}
	}
}

func TestPicksAllocateNothing(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 1}, 64)
		r := Request{Keys: chain(1, 3, 128), Tokens: 8192, Output: 100, Session: 7}
		var text [64]byte
		run := func() {
			l, err := b.Pick(at(0), &r)
			if err != nil {
				t.Fatal(err)
			}
			l.Reason.Append(text[:0])
			l.Began(at(0))
			l.Done(at(0), Outcome{Output: 5})
		}
		for range 200 {
			run()
		}
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%g allocations", n)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	all(t, func(t *testing.T, p Policy) {
		b := newBalancer(t, Config{Policy: p, Seed: 1, Index: prefix.Config{Replicas: 16}}, 8)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				var open []Lease
				for i := range 2000 {
					now := time.Duration(i) * 10 * time.Millisecond
					r := Request{Keys: chain(rng.IntN(40), 2, 4+rng.IntN(30)), Tokens: 500, Session: rng.Uint64N(9)}
					if l, err := b.Pick(at(now), &r); err == nil {
						open = append(open, l)
					}
					if len(open) > 20 {
						l := open[rng.IntN(len(open))]
						l.Began(at(now))
						l.Done(at(now), Outcome{Output: rng.IntN(3), Failed: rng.IntN(9) == 0})
					}
					id := ReplicaID(rng.IntN(8))
					switch rng.IntN(200) {
					case 0:
						b.Suspend(id)
					case 1, 2:
						b.Resume(at(now), id)
					case 3:
						b.Forget(id)
					case 4:
						b.Report(at(now), id, Report{Running: rng.IntN(9), Since: b.Mark(id)})
					case 5:
						b.Status(at(now))
					}
				}
				for _, l := range open {
					l.Done(at(time.Hour), Outcome{})
				}
			})
		}
		wg.Wait()
		for _, s := range b.Status(at(24 * time.Hour)) {
			if s.Load != 0 || s.Tokens != 0 {
				t.Errorf("at the end: %+v", s)
			}
		}
		if err := b.Index().Check(); err != nil {
			t.Error(err)
		}
	})
}
