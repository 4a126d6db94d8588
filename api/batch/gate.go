package batch

import (
	"context"
	"sync"
	"time"
)

// gate lets lines run where they cost other requests little: Concurrency of them while nothing else runs, and
// BusyConcurrency while requests of higher classes run or wait, and for a moment after these.
type gate struct {
	limits *Limits
	busy   func() int

	mu       sync.Mutex
	running  int
	lastBusy time.Time
	changed  chan struct{} // closed and replaced when a line ends
}

const (
	// calm is how long nobody else must have asked before lines take the whole machine: clients in a
	// conversation pause between requests.
	calm = time.Second
	// lookEvery is how often waiting lines look whether others still run.
	lookEvery = 20 * time.Millisecond
)

func newGate(l *Limits, busy func() int) *gate {
	return &gate{limits: l, busy: busy, changed: make(chan struct{})}
}

// enter waits until one more line may run; false where ctx ends first.
func (g *gate) enter(ctx context.Context) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		changed, ok := g.try(time.Now())
		if ok {
			return true
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (g *gate) try(now time.Time) (changed <-chan struct{}, ok bool) {
	busy := g.busy() > 0
	g.mu.Lock()
	defer g.mu.Unlock()
	if busy {
		g.lastBusy = now
	}
	most := g.limits.Concurrency
	if busy || now.Sub(g.lastBusy) < calm {
		most = min(most, g.limits.BusyConcurrency)
	}
	if g.running >= most {
		return g.changed, false
	}
	g.running++
	return nil, true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running
}
