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
