package batch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

func newQueue(t *testing.T, cfg Config) *Queue {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func offer(t *testing.T, q *Queue, now int64, w Work) Ticket {
	t.Helper()
	ticket, err := q.Offer(now, w)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func users(batch []TakenRequest) []any {
	var us []any
	for i := range batch {
		us = append(us, batch[i].User)
	}
	return us
}

func settle(q *Queue, batch []TakenRequest) {
	for i := range batch {
		q.Settle(&batch[i], batch[i].Cost)
	}
}

// Whatever happens, every request leaves exactly once: in a batch, removed or dropped;
// batches are of one kind and within its limit; where nothing is delayed a batch
// takes what waits; and the counts add up.
func TestEveryRequestLeavesOnce(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		q := newQueue(t, Config{Requests: 40, LookAhead: 64})
		type request struct {
			work   Work
			ticket Ticket
		}
		waiting := make(map[int]request)
		leave := func(what string, user any) Work {
			w, ok := waiting[user.(int)]
			if !ok {
				t.Fatalf("seed %d: request %v %s, but it does not wait", seed, user, what)
			}
			delete(waiting, user.(int))
			return w.work
		}
		limits := []int{1, 8, 32}
		now, last := int64(1), 0
		for range 1500 {
			now += int64(r.IntN(1000))
			switch r.IntN(4) {
			case 0, 1:
				kind := r.IntN(3)
				last++
				w := Work{
					User: last, Tenant: fmt.Sprint("t", r.IntN(4)), Weight: 1 + r.IntN(3), Class: inference.Class(r.IntN(3)),
					OverQuota: r.IntN(9) == 0, Kind: fmt.Sprint("k", kind), Rows: 1 + r.IntN(12), MaxRows: limits[kind], Cost: uint64(r.IntN(5000)),
				}
				if r.IntN(3) == 0 {
					w.DoneBy = now + int64(r.IntN(20000))
				}
				if r.IntN(3) == 0 {
					w.WaitUntil = now + int64(r.IntN(20000))
				}
				ticket, err := q.Offer(now, w)
				if err == nil {
					waiting[last] = request{w, ticket}
				} else if limit := (*inference.LimitError)(nil); !errors.As(err, &limit) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case 2:
				for user, w := range waiting {
					if !q.Remove(now, w.ticket) {
						t.Fatalf("seed %d: request %d cannot be removed", seed, user)
					}
					delete(waiting, user)
					if q.Remove(now, w.ticket) {
						t.Fatalf("seed %d: request %d was removed twice", seed, user)
					}
					break
				}
			case 3:
				for user, why, ok := q.Dropped(now); ok; user, why, ok = q.Dropped(now) {
					w := leave("was dropped", user)
					switch {
					case errors.Is(why, inference.ErrDeadline) && w.DoneBy != 0 && w.DoneBy <= now:
					case errors.Is(why, inference.ErrQueueTimeout) && w.WaitUntil != 0 && w.WaitUntil <= now:
					case errors.Is(why, inference.ErrShed):
					default:
						t.Fatalf("seed %d: %+v was dropped at %d: %v", seed, w, now, why)
					}
				}
				batch := q.Next(now, nil)
				if len(batch) == 0 && len(waiting) > 0 {
					t.Fatalf("seed %d: nothing is computed while %d wait", seed, len(waiting))
				}
				rows := 0
				for i := range batch {
					w := leave("was taken", batch[i].User)
					if rows += w.Rows; w.Kind != batch[0].Kind || rows > w.MaxRows && len(batch) > 1 {
						t.Fatalf("seed %d: a batch of %d rows has %+v, its first is of %q", seed, rows, w, batch[0].Kind)
					}
				}
				settle(q, batch)
				for user, w := range waiting {
					if len(batch) > 0 && w.work.Kind == batch[0].Kind && rows+w.work.Rows <= w.work.MaxRows {
						t.Fatalf("seed %d: request %d of %d rows would fit beside %d", seed, user, w.work.Rows, rows)
					}
				}
			}
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// Tenants that always have work get rows in proportion to their weights, whatever the
// sizes of their requests.
func TestTenantsShareByWeight(t *testing.T) {
	q := newQueue(t, Config{})
	weights, sizes := []int{1, 3}, []int{1, 7}
	got, number, now := make([]int, 2), 0, int64(0)
	for range 3000 {
		for i := range weights {
			for range 8 {
				number++
				w := Work{User: i, Tenant: fmt.Sprint(i), Weight: weights[i], Kind: "k", Rows: sizes[i], MaxRows: 8, Cost: uint64(sizes[i]) * 1000}
				if _, err := q.Offer(now, w); err != nil {
					break
				}
			}
		}
		now += 8000
		batch := q.Next(now, nil)
		for i := range batch {
			got[batch[i].User.(int)] += batch[i].Rows
		}
		settle(q, batch)
	}
	if ratio := float64(got[1]) / float64(got[0]); ratio < 2.7 || ratio > 3.3 {
		t.Errorf("rows by tenant: %v, ratio %.2f, want 3", got, ratio)
	}
}

// What other lanes charged a tenant counts here, and the other way round.
func TestTenantsPayForOtherLanes(t *testing.T) {
	var service admission.Service
	a, b := newQueue(t, Config{Lane: service.Lane()}), newQueue(t, Config{Lane: service.Lane()})
	w := func(tenant string, cost uint64) Work {
		return Work{User: tenant, Tenant: tenant, Kind: "k", Rows: 1, MaxRows: 1, Cost: cost}
	}
	for range 3 {
		offer(t, b, 0, w("greedy", 1000))
		offer(t, b, 0, w("modest", 1000))
	}
	taken, err := a.Begin(0, w("greedy", 5000))
	if err != nil {
		t.Fatal(err)
	}
	a.Settle(&taken, 50000)
	a.Next(0, nil) // an exchange
	var order []any
	for range 4 {
		batch := b.Next(0, nil)
		order = append(order, users(batch)...)
		settle(b, batch)
	}
	if fmt.Sprint(order) != "[modest modest modest greedy]" {
		t.Errorf("served in the order %v; the tenant that used another lane goes last", order)
	}
}

func TestDelayGathersRowsButNotBeyondItsEnd(t *testing.T) {
	q := newQueue(t, Config{})
	w := Work{User: 1, Tenant: "a", Kind: "k", Rows: 1, MaxRows: 3, Delay: 100}
	offer(t, q, 1000, w)
	if got := q.Next(1050, nil); len(got) != 0 || q.Wake() != 1100 {
		t.Fatalf("before the delay is over: %v, wake at %d, want none and 1100", users(got), q.Wake())
	}
	w.User = 2
	offer(t, q, 1060, w)
	if got := q.Next(1100, nil); fmt.Sprint(users(got)) != "[1 2]" {
		t.Errorf("after the delay: %v", users(got))
	} else {
		settle(q, got)
	}
	for i := range 4 {
		w.User = i
		offer(t, q, 2000, w)
	}
	got := q.Next(2000, nil)
	if fmt.Sprint(users(got)) != "[0 1 2]" {
		t.Errorf("a full batch: %v", users(got))
	}
	settle(q, got)
	if got := q.Next(2001, nil); fmt.Sprint(users(got)) != "[3]" {
		t.Errorf("what did not fit into a batch has waited: %v", users(got))
	}
	if q.Wake() != math.MaxInt64 {
		t.Errorf("an empty queue wakes at %d", q.Wake())
	}
}

// What has no delay is computed at once, also by a caller who looked at the clock before it
// came.
func TestNothingWaitsForTheClock(t *testing.T) {
	q := newQueue(t, Config{})
	offer(t, q, 2000, Work{User: 1, Tenant: "a", Kind: "k", Rows: 1, MaxRows: 9})
	if got := q.Next(1999, nil); len(got) != 1 {
		t.Errorf("%v", users(got))
	}
}

// A delay neither makes a request miss its deadline nor holds up another kind.
func TestDelayHurtsNoOne(t *testing.T) {
	q := newQueue(t, Config{})
	offer(t, q, 0, Work{User: "slow", Tenant: "a", Kind: "k", Rows: 1, MaxRows: 9, Delay: 1000, DoneBy: 500, Cost: 100})
	offer(t, q, 0, Work{User: "eager", Tenant: "a", Kind: "e", Rows: 1, MaxRows: 9})
	got := q.Next(0, nil)
	if fmt.Sprint(users(got)) != "[eager]" || q.Wake() != 300 {
		t.Errorf("%v first, wake at %d; want eager and 300", users(got), q.Wake())
	}
	settle(q, got)
	if got := q.Next(300, nil); fmt.Sprint(users(got)) != "[slow]" {
		t.Errorf("%v second", users(got))
	}
}

func TestRefusals(t *testing.T) {
	q := newQueue(t, Config{Requests: 20, Rows: 100})
	w := Work{User: 1, Tenant: "a", Class: inference.Batch, Kind: "k", Rows: 1, MaxRows: 4, Cost: uint64(time.Millisecond)}
	for range 16 {
		offer(t, q, 1, w)
	}
	if _, err := q.Offer(1, w); !errors.Is(err, inference.ErrTenantQueueFull) {
		t.Errorf("a tenant's 17th request: %v", err)
	}
	big := w
	big.Tenant, big.Rows = "b", 100
	if _, err := q.Offer(1, big); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("more rows than may wait: %v", err)
	}
	high := big
	high.Class, high.User = inference.Interactive, "high"
	if _, err := q.Offer(1, high); err != nil {
		t.Fatalf("a higher class: %v", err)
	}
	shed := 0
	for _, why, ok := q.Dropped(1); ok; _, why, ok = q.Dropped(1) {
		if shed++; !errors.Is(why, inference.ErrShed) {
			t.Errorf("dropped: %v", why)
		}
	}
	if shed != 16 {
		t.Errorf("%d requests gave way, want all 16", shed)
	}
	late := w
	late.Class, late.Cost, late.DoneBy = inference.Interactive, uint64(time.Second), int64(time.Millisecond)
	if _, err := newQueue(t, Config{}).Begin(1, late); !errors.Is(err, inference.ErrDeadlineUnreachable) {
		t.Errorf("a second's work within a millisecond: %v", err)
	}
	if err := q.Check(); err != nil {
		t.Error(err)
	}
}

func TestBeginAllocatesNothing(t *testing.T) {
	q := newQueue(t, Config{})
	w := Work{User: q, Tenant: "a", Kind: "k", Rows: 1, MaxRows: 4, Cost: 5000}
	n := testing.AllocsPerRun(1000, func() {
		taken, err := q.Begin(1, w)
		if err != nil {
			t.Fatal(err)
		}
		q.Settle(&taken, 4000)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBegin(b *testing.B) {
	var service admission.Service
	q, err := New(Config{Lane: service.Lane()})
	if err != nil {
		b.Fatal(err)
	}
	other, _ := New(Config{Lane: service.Lane()})
	w := Work{User: q, Tenant: "a", Kind: "k", Rows: 1, MaxRows: 4, Cost: 5000}
	for i := 0; b.Loop(); i++ {
		taken, _ := q.Begin(int64(i), w)
		q.Settle(&taken, 4000)
	}
	other.Next(0, nil)
}
