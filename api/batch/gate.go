package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lineLimiter lets lines run where they cost other requests little: Concurrency of them while nothing else runs, and
// BusyConcurrency while requests of higher classes run or wait, and for a moment after these. Tenants whose lines wait
// take turns, whatever the number of their batches. One timer looks for all lines that wait.
type lineLimiter struct {
	limits *Limits
	busy   func() int

	mu       sync.Mutex
	running  int
	lastBusy time.Time
	waiting  []*waiter         // in the order of coming
	entries  uint64            // lines so far
	served   map[string]uint64 // the number of each tenant's last line
	looking  bool              // a timer will look whether others still run
}

// waiter is a line at the gate.
type waiter struct {
	tenant string
	enters chan struct{} // closed when it may run
	in     bool
}

const (
	// calm is how long no other requests must have come before lines take the whole machine: clients in a
	// conversation pause between requests.
	calm = time.Second
	// lookEvery is how often the gate looks whether others still run while lines wait.
	lookEvery = 20 * time.Millisecond
)

func newGate(l *Limits, busy func() int) *lineLimiter {
	return &lineLimiter{limits: l, busy: busy, served: map[string]uint64{}}
}

// enter waits until one more line of a tenant may run; false where ctx ends first.
func (g *lineLimiter) enter(ctx context.Context, tenant string) bool {
	if ctx.Err() != nil {
		return false
	}
	w := &waiter{tenant: tenant, enters: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.admit()
	g.mu.Unlock()
	select {
	case <-w.enters:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.in { // meanwhile
		g.running--
		g.admit()
		return false
	}
	i := slices.Index(g.waiting, w)
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return false
}

func (g *lineLimiter) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.admit()
}

// admit lets as many lines run as may, with mu held.
func (g *lineLimiter) admit() {
	if len(g.waiting) == 0 {
		if g.running == 0 {
			clear(g.served)
		}
		return
	}
	most := g.limits.Concurrency
	if g.isBusy() {
		most = min(most, g.limits.BusyConcurrency)
	}
	for g.running < most && len(g.waiting) > 0 {
		next := 0
		for i, w := range g.waiting {
			if g.served[w.tenant] < g.served[g.waiting[next].tenant] {
				next = i
			}
		}
		w := g.waiting[next]
		g.waiting = slices.Delete(g.waiting, next, next+1)
		g.entries++
		g.served[w.tenant] = g.entries
		g.running++
		w.in = true
		close(w.enters)
	}
	if len(g.waiting) > 0 && g.running < g.limits.Concurrency && !g.looking {
		g.looking = true
		time.AfterFunc(lookEvery, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.looking = false
			g.admit()
		})
	}
}

// isBusy reports whether others run or have just run, with mu held.
func (g *lineLimiter) isBusy() bool {
	now := time.Now()
	if g.busy() > 0 {
		g.lastBusy = now
	}
	return now.Sub(g.lastBusy) < calm
}

// othersRun is isBusy for work that is no line.
func (g *lineLimiter) othersRun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isBusy()
}

func (g *lineLimiter) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running
}
