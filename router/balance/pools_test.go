package balance

import (
	"errors"
	"testing"
	"time"

	"weir/router/prefix"
)

// A pick is among the replicas of one pool, and their loads are compared with one another only.
func TestPoolsArePickedApart(t *testing.T) {
	b := newBalancer(t, Config{}, 2)
	prefilling, err := b.Add(start, Member{Pool: Prefilling})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // far above what the gate lets pass, if it compared with the idle one
		if l := pick(t, b, time.Minute, Request{Tokens: 100}); l.Replica == prefilling || l.Reason.Why == ByGate {
			t.Fatalf("pick %d: replica %d, %v", i, l.Replica, l.Reason)
		}
	}
	if l := pick(t, b, time.Minute, Request{Tokens: 100, Pool: Prefilling}); l.Replica != prefilling {
		t.Errorf("replica %d computes prompts", l.Replica)
	}
	keys := chain(1, 0, 64)
	b.Index().Hold(prefilling, keys, 0)
	if l := pick(t, b, time.Minute, Request{Keys: keys, Tokens: 1024}); l.Replica == prefilling {
		t.Error("a replica of another pool is picked for what it has cached")
	}
	b.Suspend(prefilling)
	if _, err := b.Pick(at(time.Minute), &Request{Pool: Prefilling}); !errors.Is(err, ErrNone) {
		t.Errorf("%v from an empty pool", err)
	}
}

// fetches reports how fast a replica fetches KV blocks.
func fetches(b *Balancer, id ReplicaID, tokensASecond float64) {
	b.Report(at(time.Minute), id, Report{WaitingTokens: -1, FetchRate: tokensASecond})
}

// What a replica lacks and can fetch costs what fetching takes, and no more than computing.
func TestFetchableBlocksCostLess(t *testing.T) {
	b := newBalancer(t, Config{}, 3) // 1 ms for a token
	keys := chain(1, 0, 64)
	l := pick(t, b, time.Minute, Request{Keys: keys, Tokens: 1024})
	l.Began(at(time.Minute))
	holder := l.Replica
	others := make([]ReplicaID, 0, 2)
	for id := range ReplicaID(3) {
		if id != holder {
			others = append(others, id)
		}
	}
	near, far := others[0], others[1]
	fetches(b, near, 20_000)
	fetches(b, far, 900) // slower than computing
	var seen []Candidate
	r := Request{Keys: keys, Tokens: 1024, Avoid: Set{holder}, Seen: &seen, Holders: []prefix.Match{{Replica: holder, Depth: 64}}}
	if q, err := b.Quote(at(time.Minute), &r); err != nil || q.Replica != near || q.Tokens != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	if got := pick(t, b, time.Minute, r); got.Replica != near {
		t.Fatalf("replica %d of %+v", got.Replica, seen)
	}
	for _, c := range seen {
		switch {
		case c.Replica == near && (c.Fetch != 1023 || c.Tokens != 1 || c.Cost > 0.1):
			t.Errorf("the one that fetches: %+v", c)
		case c.Replica == far && (c.Fetch != 0 || c.Tokens != 1024):
			t.Errorf("the one that is slow: %+v", c)
		}
	}
	r.Holders[0].Depth, r.Avoid = LeastFetch-1, Set{holder, near}
	fetches(b, far, 20_000)
	if q, err := b.Quote(at(time.Minute), &r); err != nil || q.Tokens != 1024 {
		t.Errorf("%+v, %v: few blocks are not worth a fetch", q, err)
	}
	if n := loads(b, time.Minute)[holder]; n != 1 {
		t.Errorf("a quote, or a pick that is over, counts: %d", n)
	}
}

// A fetch tells nothing of how fast a replica computes.
func TestAFetchTeachesNoSpeed(t *testing.T) {
	b := newBalancer(t, Config{}, 2)
	keys := chain(1, 0, 64)
	fetches(b, 1, 20_000)
	l := pick(t, b, time.Minute, Request{Keys: keys, Tokens: 1024, Avoid: Set{0}, Holders: []prefix.Match{{Replica: 0, Depth: 64}}})
	before := b.Status(at(time.Minute))[1]
	l.Began(at(time.Minute + time.Second))
	l.Done(at(time.Minute+time.Second), Outcome{Output: 1})
	if after := b.Status(at(time.Minute + time.Second))[1]; after.Prefill != before.Prefill || before.Tokens != 1 || after.Tokens != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// split compares what a prompt of so many keys takes in one part and in two.
func split(b *Balancer, after time.Duration, keys int) Split {
	return b.Split(at(after), &Request{Keys: chain(1, 0, keys), Tokens: 16 * keys})
}

// splitting has a decode replica that is busy and fetches fast, and a prefill replica, both of which compute a token in 1 ms.
func splitting(t *testing.T) (b *Balancer, prefilling ReplicaID) {
	t.Helper()
	b = newBalancer(t, Config{}, 1)
	prefilling, err := b.Add(start, Member{Pool: Prefilling})
	if err != nil {
		t.Fatal(err)
	}
	b.Report(at(time.Minute), 0, Report{Running: 1, WaitingTokens: -1, FetchRate: 1e6})
	return b, prefilling
}

// A prompt that was given up tells how long it takes in two parts, at least: the next one of its size is computed at the decode replica at once,
// though the prefill replica says that it is fast, until some time has passed. Each further one in a row lasts twice as long.
func TestAPromptThatWasGivenUpCounts(t *testing.T) {
	b, prefilling := splitting(t)
	now, tokens := time.Minute, 16*64
	prefill := func(o Outcome) Split {
		t.Helper()
		s := split(b, now, 64)
		if s.Verdict != SplitWorth || s.Prefill.Overrun > s.Expected()/2 {
			t.Fatalf("%v: %+v", now, s)
		}
		l := pick(t, b, now, Request{Keys: chain(1, 0, 64), Tokens: tokens, Pool: Prefilling})
		now += 2 * s.Expected()
		o.Overrun += 2*s.Expected() + s.Direct()
		l.Done(at(now), o)
		return s
	}
	var waits []time.Duration
	for range 3 {
		prefill(Outcome{Failed: true})
		given := now
		for ; split(b, now, 64).Verdict != SplitWorth; now += 100 * time.Millisecond {
			b.Report(at(now), 0, Report{Running: 1, WaitingTokens: -1, FetchRate: 1e6})
			b.Report(at(now), prefilling, Report{WaitingTokens: -1, PrefillRate: 1000}) // what it says of itself
			if s := split(b, now, 64); s.Verdict != SplitFailing || s.Prefill.Overrun == 0 {
				t.Fatalf("%v after it was given up: %+v", now-given, s)
			}
			if now-given > time.Hour {
				t.Fatal("it is never asked again")
			}
		}
		waits = append(waits, now-given)
	}
	if waits[0] < 5*time.Second || waits[1] < waits[0]*3/2 || waits[2] < waits[1]*3/2 {
		t.Errorf("it is tried again after %v", waits)
	}
	if s := b.Status(at(now))[prefilling]; s.Overruns != 3 || s.Prefill <= time.Millisecond {
		t.Errorf("%+v", s)
	}
	l := pick(t, b, now, Request{Keys: chain(2, 0, 64), Tokens: tokens, Pool: Prefilling})
	now += time.Duration(tokens) * time.Millisecond
	l.Began(at(now))
	l.Done(at(now), Outcome{Output: 1})
	if s := b.Status(at(now))[prefilling]; s.Overruns != 0 || s.Prefill > 1100*time.Microsecond {
		t.Errorf("one in time, and still %+v", s)
	}
}

// A prompt that took longer than expected after one was given up, and ended, counts by its own time.
func TestAPromptThatIsLateAndEndsCountsByItsTime(t *testing.T) {
	b, prefilling := splitting(t)
	given := func(o Outcome, took time.Duration) {
		l := pick(t, b, time.Minute, Request{Tokens: 1000, Pool: Prefilling})
		if !o.Failed {
			l.Began(at(time.Minute + took))
		}
		l.Done(at(time.Minute+took), o)
	}
	given(Outcome{Failed: true, Overrun: 9 * time.Second}, 2*time.Second)
	if s := b.Status(at(time.Minute + 2*time.Second))[prefilling]; s.Prefill != 9*time.Millisecond {
		t.Errorf("a token is expected to take %v", s.Prefill)
	}
	given(Outcome{Output: 1}, 4*time.Second)
	if s := b.Status(at(time.Minute + 4*time.Second))[prefilling]; s.Prefill != 4*time.Millisecond || s.Overruns != 0 {
		t.Errorf("a token is expected to take %v, %d in a row", s.Prefill, s.Overruns)
	}
}

// A prefill replica whose requests fail costs their time as well.
func TestFailuresOfAPrefillReplicaCount(t *testing.T) {
	b, prefilling := splitting(t)
	for i := range 30 {
		l := pick(t, b, time.Minute, Request{Tokens: 100, Pool: Prefilling})
		l.Done(at(time.Minute), Outcome{Failed: true, Fault: true})
		if s := split(b, time.Minute, 64); s.Verdict == SplitFailing && s.Prefill.Replica == prefilling {
			if i == 0 {
				t.Error("one failure, which took no time")
			}
			return
		}
	}
	t.Error("30 failures cost nothing")
}
