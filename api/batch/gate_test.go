package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Many lines that wait cost no more looks than one, and the end of a line wakes one of them.
func TestManyLinesAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		limits := DefaultLimits()
		g := newGate(&limits, func() int { looks.Add(1); return 1 })
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				if g.enter(ctx, fmt.Sprint(i%3)) {
					time.Sleep(10 * time.Second)
					g.leave()
				}
			})
		}
		synctest.Wait()
		looks.Store(0)
		time.Sleep(5 * time.Second)
		if n := looks.Load(); n == 0 || n > int64(5*time.Second/lookEvery)+1 {
			t.Errorf("%d looks in five seconds", n)
		}
		if n := g.count(); n != 1 {
			t.Errorf("%d lines beside others", n)
		}
		cancel()
		all.Wait()
		if g.count() != 0 || len(g.waiting) != 0 {
			t.Errorf("%d run and %d wait at the end", g.count(), len(g.waiting))
		}
	})
}

// A tenant with hundreds of lines at the gate and one with two take turns.
func TestTenantsTakeTurnsAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		limits.Concurrency = 1
		g := newGate(&limits, func() int { return 0 })
		if !g.enter(t.Context(), "many") {
			t.Fatal("an empty gate")
		}
		var order []string
		var all sync.WaitGroup
		for i := range 302 {
			name := "many"
			if i >= 300 {
				name = "few"
			}
			all.Go(func() {
				if g.enter(t.Context(), name) {
					order = append(order, name)
					g.leave()
				}
			})
			synctest.Wait()
		}
		g.leave()
		all.Wait()
		if len(order) != 302 || !slices.Equal(order[:4], []string{"few", "many", "few", "many"}) {
			t.Errorf("%d lines, the first %v", len(order), order[:min(8, len(order))])
		}
	})
}

// A tenant's batches do not take all the room that there is for batches.
func TestBatchesOfATenantLeaveRoom(t *testing.T) {
	w := &worker{runs: map[string]*run{}}
	add := func(name string, n int) {
		for range n {
			w.runs[fmt.Sprint(len(w.runs))] = &run{batch: Batch{Tenant: name}}
		}
	}
	add("acme", tenantRuns-1)
	if full, room := w.room(); len(full) != 0 || !room {
		t.Errorf("%v %v", full, room)
	}
	add("acme", 1)
	add("zeta", 3)
	if full, room := w.room(); !slices.Equal(full, []string{"acme"}) || !room {
		t.Errorf("%v %v", full, room)
	}
	add("zeta", maxRuns-len(w.runs))
	if _, room := w.room(); room {
		t.Errorf("room beside %d batches", len(w.runs))
	}
}
