package admission

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
)

// lanes are queues that share a service.
func lanes(t testing.TB, n int, cfg Config) (all []*Queue) {
	t.Helper()
	s := new(Service)
	for range n {
		cfg.Lane = s.Lane()
		all = append(all, mustQueue(t, cfg))
	}
	return all
}

// serveNext admits the next item, charges it and ends it, or reports false.
func serveNext(t testing.TB, q *Queue) (ref uint64, ok bool) {
	t.Helper()
	q.Exchange()
	return takeNext(t, q, 0)
}

func TestWhoFloodsALaneWaitsInAnother(t *testing.T) {
	q := lanes(t, 2, Config{MaxRequests: 1000})
	for range 50 {
		offer(t, q[0], 0, "flood:10")
		offer(t, q[1], 0, "flood:10", "modest:10") // odd numbers are the flood's
	}
	for range 20 {
		if _, ok := serveNext(t, q[0]); !ok {
			t.Fatal("the first lane serves no tenant")
		}
	}
	q[0].Exchange()
	for i := range 20 {
		if ref, _ := serveNext(t, q[1]); ref%2 == 1 {
			t.Fatalf("turn %d of the second lane is the flood's, which had 20 turns in the first", i)
		}
	}
	floods := 0
	for range 20 { // both lanes are even now
		if ref, _ := serveNext(t, q[1]); ref%2 == 1 {
			floods++
		}
	}
	if floods != 10 {
		t.Errorf("the flood got %d of 20 turns after it had waited, want 10", floods)
	}
}

// A tenant that had a lane to itself for an hour waits in another for MaxDebt of
// the others' service and no more.
func TestDebtOfAnotherLaneIsBounded(t *testing.T) {
	q := lanes(t, 2, Config{MaxRequests: 4000, MaxDebt: 1000})
	offer(t, q[1], 0, "modest:10") // somebody whom the flood deprives
	for range 1000 {
		offer(t, q[0], 0, "flood:10")
		serveNext(t, q[0])
		q[1].Exchange()
	}
	offer(t, q[1], 0, "flood:10")
	for range 100 {
		offer(t, q[1], 0, "modest:10")
	}
	for i := range 12 { // 10 of the debt, and ties
		if ref, _ := serveNext(t, q[1]); ref == 2 {
			if i < 9 {
				t.Errorf("the flood got turn %d, though it is 10 turns in debt", i)
			}
			return
		}
	}
	t.Error("the flood starves: it waited for more than its debt of 10 turns")
}

// Where no tenant waits or runs, none is deprived, and no debt grows.
func TestAnIdleLaneKeepsNoScore(t *testing.T) {
	q := lanes(t, 2, Config{MaxRequests: 4000})
	for range 100 {
		offer(t, q[0], 0, "flood:10")
		serveNext(t, q[0])
	}
	offer(t, q[1], 0, "flood:10")
	offer(t, q[1], 0, "modest:10")
	if got := takeAll(t, q[1]); got[0] != 1 {
		t.Errorf("the tenant that came first to an idle lane does not go first: %v", got)
	}
}

// The gap bound: between a turn of one tenant and a later turn of another, while
// both wait in a lane all the time, the second is charged no more by weight than
// the first, over all lanes, except for single charges.
func TestGapOfServiceOverLanes(t *testing.T) {
	const most = 400 // of one charge
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + int(seed%3)
		q := lanes(t, n, Config{MaxRequests: 100_000, LookAhead: 1})
		weight := [4]uint64{1, 1, 2, 5}
		var used [4]float64 // by weight, over all lanes
		type pair struct{ served, waits int }
		gap := make([]map[pair]float64, n) // used[waits]-used[served] at the last turn of waits
		for i := range gap {
			gap[i] = map[pair]float64{}
		}
		add := func(lane, tenant int) {
			it := Item{Ref: uint64(tenant), Tenant: strconv.Itoa(tenant), Weight: int(weight[tenant]), Tokens: 1}
			if _, err := q[lane].Offer(it); err != nil {
				t.Fatal(err)
			}
		}
		for tenant := range used {
			for lane := range q {
				if lane == 0 || rng.IntN(2) == 0 { // some wait in one lane only
					add(lane, tenant)
					add(lane, tenant)
				}
			}
		}
		for range 3000 {
			lane := rng.IntN(n)
			for i := range 2 * len(q) { // all have all charges then
				q[i%len(q)].Exchange()
			}
			q[lane].Scan(0, false)
			ref, _, ok := q[lane].Next()
			if !ok {
				q[lane].EndScan()
				continue
			}
			f := int(ref)
			for g := range used {
				if before, known := gap[lane][pair{f, g}]; known {
					ahead := (used[f] - used[g]) - before
					if ahead > most+1 {
						t.Fatalf("seed %d, lane %d: tenant %d is served though it had %.0f more than %d, which waits", seed, lane, f, ahead, g)
					}
				}
			}
			cost := 1 + rng.Uint64N(most)
			q[lane].Done(q[lane].Take(cost))
			q[lane].EndScan()
			used[f] += float64(cost) / float64(weight[f])
			for g := range used { // what it has now is what others may have beyond it
				gap[lane][pair{g, f}] = used[g] - used[f]
			}
			add(lane, f) // it waits all the time
			check(t, q[lane])
		}
	}
}

// A tenant that comes and goes earns no credit by being away, in any lane.
func TestLiftOnReturnOverLanes(t *testing.T) {
	q := lanes(t, 2, Config{MaxRequests: 4000})
	for range 300 {
		offer(t, q[0], 0, "busy:10")
		offer(t, q[1], 0, "busy:10")
	}
	for i := range 200 {
		serveNext(t, q[i%2])
	}
	late := 0
	for range 40 {
		offer(t, q[1], 0, "late:10")
	}
	for range 40 {
		if ref, _ := serveNext(t, q[1]); ref > 300 {
			late++
		}
	}
	if late < 19 || late > 21 {
		t.Errorf("the tenant that was away got %d of 40 turns, want half", late)
	}
}

// A lane that makes no steps keeps a bounded record of the others'.
func TestAStalledLaneKeepsABoundedRecord(t *testing.T) {
	q := lanes(t, 2, Config{MaxIdleTenants: 10})
	offer(t, q[1], 0, "waits:1")
	for i := range maxInbox + 100 {
		if _, err := q[0].Offer(Item{Tenant: fmt.Sprint(i), Tokens: 1}); err != nil {
			t.Fatal(err)
		}
		q[0].Exchange()
		q[0].Scan(0, false)
		q[0].Next()
		q[0].Done(q[0].Take(10))
		q[0].EndScan()
	}
	if n := len(q[1].cfg.Lane.inbox); n != maxInbox {
		t.Errorf("%d charges wait for the lane, want the bound", n)
	}
	q[1].Exchange()
	check(t, q[1])
	if n := len(q[1].byKey); n > 11 {
		t.Errorf("%d tenants are remembered, limit 10", n)
	}
	q[1].cfg.Lane.Close()
	offer(t, q[0], 0, "more:1")
	serveNext(t, q[0])
	q[0].Exchange()
	if n := len(q[1].cfg.Lane.inbox); n != 0 {
		t.Errorf("%d charges are carried to a lane that is closed", n)
	}
}

// Queues of several goroutines exchange without races, and nothing is lost.
func TestLanesExchangeBesideEachOther(t *testing.T) {
	q := lanes(t, 4, Config{MaxDebt: 1 << 36})
	for i := range q {
		offer(t, q[i], 0, "stays:1") // in every lane somebody waits
	}
	var all sync.WaitGroup
	for i := range q {
		all.Go(func() {
			for range 1000 {
				q[i].Exchange()
				q[i].Scan(0, false)
				q[i].Next()
				id := q[i].Take(3)
				q[i].EndScan()
				_, _ = q[i].Offer(Item{Tenant: "stays"})
				q[i].Done(id)
			}
			q[i].Exchange()
		})
	}
	all.Wait()
	for i := range q {
		q[i].Exchange()
		check(t, q[i])
		if got := q[i].flows.at(q[i].byKey[flowKey{"stays", 0}]).service; got != 4*1000*3*unitScale {
			t.Errorf("lane %d counts %d, want what all four charged", i, got/unitScale)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	q := lanes(b, 3, Config{})
	var flows []FlowID
	for i := range 64 {
		for _, one := range q {
			if _, err := one.Offer(Item{Tenant: strconv.Itoa(i)}); err != nil {
				b.Fatal(err)
			}
		}
		q[0].Scan(0, false)
		q[0].Next()
		flows = append(flows, q[0].Take(10))
		q[0].EndScan()
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range flows {
			q[0].Charge(f, 10)
		}
		for _, one := range q {
			one.Exchange()
		}
	}
}
