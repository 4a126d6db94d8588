package classic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/engine/kernel/pool"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/scheduler/admission"
)

// Many callers of cheap and dear models, large requests and small ones, some of them
// poisoned or cancelled: everyone gets its own answer or its own error.
func TestEveryoneGetsTheirOwnAnswer(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 2})
	versions := []*Version{
		fakeVersion(&doubler{perRow: time.Microsecond}, Options{}),
		fakeVersion(&doubler{perRow: 60 * time.Microsecond}, Options{Version: "2"}),
		fakeVersion(&doubler{perRow: 60 * time.Microsecond, apart: true}, Options{Version: "3"}),
		fakeVersion(&doubler{perRow: 30 * time.Microsecond}, Options{Version: "4", MaxDelay: time.Millisecond}),
	}
	var wg sync.WaitGroup
	for caller := range 12 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(caller), 1))
			for i := range 60 {
				v := versions[r.IntN(len(versions))]
				rows := make([]float32, 1+r.IntN(40)*r.IntN(2))
				for k := range rows {
					rows[k] = r.Float32()
				}
				poison := float32(0)
				if r.IntN(8) == 0 {
					poison = float32(-1 - r.IntN(2))
					rows[r.IntN(len(rows))] = poison
				}
				p := ask(fmt.Sprint(caller%3), rows...)
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(8) == 0 {
					time.AfterFunc(time.Duration(r.IntN(500))*time.Microsecond, cancel)
				}
				err := l.Predict(ctx, v, p)
				switch {
				case err == nil && poison == 0:
					doubled(t, p)
				case errors.Is(err, inference.ErrCancelled) && ctx.Err() != nil:
				case poison == -1 && errors.Is(err, inference.ErrInternal):
				case poison == -2 && errors.Is(err, inference.ErrInvalid):
				default:
					t.Errorf("caller %d, request %d of %v: %v (poison %v)", caller, i, rows, err, poison)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for _, v := range versions {
		if s := v.Stats(); s.Requests == 0 || s.Failed == 0 || s.Panics == 0 {
			t.Errorf("version %s: %+v", v.desc.Version, s)
		}
	}
	if n := len(l.turns.live) + len(l.inline.waiting); n > 0 || l.inline.free != 2 {
		t.Errorf("%d tasks are left, %d cores are free", n, l.inline.free)
	}
	if err := errors.Join(l.inline.queue.Check(), l.turns.queue.Check()); err != nil {
		t.Error(err)
	}
}

// What waits while a batch is computed goes into the next batch, all of it; one of them
// panics, and the others are answered all the same.
func TestWaitingRequestsAreComputedTogether(t *testing.T) {
	for name, perRow := range map[string]time.Duration{"inline": time.Microsecond, "in turns": 60 * time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &doubler{gate: make(chan struct{})}
				v := fakeVersion(d, Options{})
				for range 30 {
					v.observe(1, perRow)
					v.observe(64, 64*perRow)
				}
				p := pool.New(1)
				l := newTestLane(t, LaneOptions{Cores: 1, Pool: p})
				errs := make([]error, 20)
				var wg sync.WaitGroup
				requests := make([]*inference.Prediction, len(errs))
				for i := range errs {
					requests[i] = ask("a", float32(i))
					if i == 7 {
						requests[i] = ask("a", -1)
					}
					wg.Go(func() { errs[i] = l.Predict(t.Context(), v, requests[i]) })
					synctest.Wait()
				}
				close(d.gate)
				wg.Wait()
				for i, err := range errs {
					if (err != nil) != (i == 7) || err != nil && !errors.Is(err, inference.ErrInternal) {
						t.Errorf("request %d: %v", i, err)
					} else if err == nil {
						doubled(t, requests[i])
					}
				}
				if n := d.largest.Load(); n != 19 {
					t.Errorf("the largest batch had %d rows, want all 19 that waited", n)
				}
				if s := v.Stats(); s.Panics != 2 || s.Requests != 19 || s.Failed != 1 {
					t.Errorf("%+v; want a panic of the batch and one of the request", s)
				}
				_ = l.Close(t.Context())
				p.Close()
			})
		})
	}
}

// A small request does not wait for the end of a large one.
func TestSmallRequestsPassLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(1)
		l := newTestLane(t, LaneOptions{Cores: 1, Pool: p})
		v := fakeVersion(&doubler{perRow: 100 * time.Microsecond, sleeps: true}, Options{})
		large := ask("a", make([]float32, 4000)...)
		ended := make(chan error, 1)
		go func() { ended <- l.Predict(t.Context(), v, large) }()
		time.Sleep(20 * time.Millisecond)
		begin := time.Now()
		for range 5 {
			if err := l.Predict(t.Context(), v, ask("b", 1)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-ended:
			t.Errorf("the large request ended first, after %v: %v", time.Since(begin), err)
		default:
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		doubled(t, large)
		_ = l.Close(t.Context())
		p.Close()
	})
}

func TestDeadlinesAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{gate: make(chan struct{})}
		v := fakeVersion(d, Options{MaxRows: 8})
		for range 200 {
			v.observe(1, time.Millisecond)
		}
		p := pool.New(1)
		l := newTestLane(t, LaneOptions{Cores: 1, Pool: p, MaxWaiting: 20, MaxWait: time.Minute})
		late := ask("a", 1)
		late.DoneBy = time.Now().Add(time.Microsecond)
		if err := l.Predict(t.Context(), v, late); !errors.Is(err, inference.ErrDeadlineUnreachable) {
			t.Errorf("a millisecond's work in a microsecond: %v", err)
		}
		if err := l.Predict(t.Context(), v, ask("a", make([]float32, 9)...)); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("more rows than a request may have: %v", err)
		}
		if err := l.Predict(t.Context(), v, ask("a")); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("no rows: %v", err)
		}
		wrong := ask("a", 1)
		wrong.Wanted = []string{"z"}
		if err := l.Predict(t.Context(), v, wrong); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("an unknown output: %v", err)
		}

		go func() { _ = l.Predict(t.Context(), v, ask("a", 1)) }() // stands at the gate
		synctest.Wait()
		patient := ask("a", 2)
		patient.DoneBy = time.Now().Add(50 * time.Millisecond)
		begin := time.Now()
		if err := l.Predict(t.Context(), v, patient); !errors.Is(err, inference.ErrDeadline) || time.Since(begin) != 50*time.Millisecond {
			t.Errorf("a deadline passed in line: %v after %v", err, time.Since(begin))
		}
		var wg sync.WaitGroup
		refused := 0
		var mu sync.Mutex
		for range 20 {
			wg.Go(func() {
				if err := l.Predict(t.Context(), v, ask("a", 3)); err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
					if !errors.Is(err, inference.ErrTenantQueueFull) {
						t.Errorf("the line is full: %v", err)
					}
				}
			})
			synctest.Wait()
		}
		if states := l.Requests(); len(states) != 17 {
			t.Errorf("%d requests are shown, want one that is computed and 16 that wait", len(states))
		}
		close(d.gate)
		wg.Wait()
		if refused != 4 {
			t.Errorf("%d requests were refused, want 4", refused)
		}
		_ = l.Close(t.Context())
		if err := l.Predict(t.Context(), v, ask("a", 1)); !errors.Is(err, inference.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
		p.Close()
	})
}

// A request waits no longer than its tenant lets it, nor than the lane does, and one that is
// computed by then goes on.
func TestTheEndOfWaiting(t *testing.T) {
	for name, perRow := range map[string]time.Duration{"inline": time.Microsecond, "in turns": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &doubler{gate: make(chan struct{})}
				v := fakeVersion(d, Options{})
				for range 200 {
					v.observe(1, perRow)
				}
				p := pool.New(1)
				l := newTestLane(t, LaneOptions{Cores: 1, Pool: p, MaxWait: 3 * time.Second})
				begin := time.Now()
				requests := make([]*inference.Prediction, 4)
				took, errs := make([]time.Duration, len(requests)), make([]error, len(requests))
				var wg sync.WaitGroup
				for i, wait := range []time.Duration{time.Second, time.Second, time.Hour, 0} { // the first one stands at the gate
					requests[i] = ask("a", float32(i))
					if wait > 0 {
						requests[i].WaitUntil = begin.Add(wait)
					}
					wg.Go(func() {
						errs[i] = l.Predict(t.Context(), v, requests[i])
						took[i] = time.Since(begin)
					})
					synctest.Wait()
				}
				time.Sleep(4 * time.Second)
				d.gate <- struct{}{}
				wg.Wait()
				for i, want := range []time.Duration{4 * time.Second, time.Second, 3 * time.Second, 3 * time.Second} {
					if name == "inline" { // no one looks until a core is passed on, which is within 50 µs except for a test's gate
						want = 4 * time.Second
					}
					if errors.Is(errs[i], inference.ErrQueueTimeout) != (i > 0) || i == 0 && errs[i] != nil || took[i] != want {
						t.Errorf("request %d: %v after %v, want the end of waiting after %v", i, errs[i], took[i], want)
					}
				}
				doubled(t, requests[0])
				if err := errors.Join(l.inline.queue.Check(), l.turns.queue.Check()); err != nil || len(l.turns.live)+len(l.inline.waiting) > 0 {
					t.Errorf("%v; %d and %d tasks are left", err, len(l.turns.live), len(l.inline.waiting))
				}
				_ = l.Close(t.Context())
				p.Close()
			})
		})
	}
}

// What a tenant uses of predictions is charged in the other lanes.
func TestPredictionsAreCharged(t *testing.T) {
	var service admission.Service
	other, err := admission.New(admission.Config{Lane: service.Lane()})
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLane(t, LaneOptions{Cores: 1, Service: &service})
	v := fakeVersion(&doubler{perRow: 20 * time.Microsecond}, Options{})
	for i, tenant := range []string{"greedy", "modest"} {
		if _, err := other.Offer(admission.Item{Ref: uint64(i), Tenant: tenant, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 { // inline, and then in turns
		for _, rows := range []int{1, 100} {
			if err := l.Predict(t.Context(), v, ask("greedy", make([]float32, rows)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.inline.queue.Next(0, nil)
	l.turns.queue.Next(0, nil)
	other.Exchange()
	if debt := time.Duration(other.Debt("greedy", inference.Interactive)); debt < 90*time.Millisecond {
		t.Errorf("100 ms of predictions are a debt of %v elsewhere", debt)
	}
}

// The caller's memory is not read once Predict has returned.
func TestCancelledRequestsLetGoOfTheirMemory(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 1})
	v := fakeVersion(&doubler{perRow: 100 * time.Microsecond}, Options{})
	for range 40 {
		p := ask("a", make([]float32, 50)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
		err := l.Predict(ctx, v, p)
		cancel()
		if err != nil && !errors.Is(err, inference.ErrDeadline) {
			t.Fatal(err)
		}
		clear(tensor.Values[float32](&p.Inputs[0])) // the race detector tells
		p.Inputs[0].Shape[0] = 0
	}
}

// Callers that come as fast as they can never leave one in line with all cores free: the
// core that is passed on finds the request that took a place meanwhile.
func TestNoOneIsLeftInLine(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 2})
	v := fakeVersion(&doubler{}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for range 5000 {
				if err := l.Predict(ctx, v, ask(fmt.Sprint(caller), 1)); err != nil {
					t.Errorf("caller %d: %v", caller, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Requests that lost their core while they were computed inline, one in three, stay inline: they are not sent to the pool,
// whose turns are a language model's steps apart.
func TestInterruptedRequestsStayInline(t *testing.T) {
	v := fakeVersion(&doubler{perRow: 10 * time.Microsecond}, Options{})
	for i := range 3000 {
		took := 10 * time.Microsecond
		if i%3 == 0 {
			took = 4 * time.Millisecond
		}
		v.observeInline(1+i%4, took)
		if e := v.Estimate(1); e >= InlineLimit {
			t.Fatalf("after %d requests of 10µs, one in three interrupted, a row is estimated at %v", i+1, e)
		}
	}
	for range 2000 {
		v.observeInline(1, 100*time.Microsecond)
	}
	if e := v.Estimate(1); e < InlineLimit {
		t.Errorf("requests that take 100µs now are estimated at %v and stay inline", e)
	}
}
