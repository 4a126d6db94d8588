package pool

import (
	"sync"
	"time"
)

// turns decides whose turn it is. Each member has a counter of the compute time
// that it has used, divided by its weight; when steps end, the waiting member with
// the lowest counter goes next (start-time fair queueing). So a member of short
// steps makes many of them for each long step of another, and a member of twice
// the weight gets twice the time.
//
// A member that comes back from idleness starts at the counter of the member that
// computes: idleness saves nothing up, and a member that waits has its turn after
// one step.
type turns struct {
	mu      sync.Mutex
	holder  *Member // whose turn it is; nil: nobody's
	began   int64   // when its turn began, in nanoseconds of [now]
	since   int64   // when its time was last counted
	clock   int64   // the counter of the last holder when its step began
	waiting []*Member
}

// quantum is the shortest turn of a member that has more steps to do: waking the
// next member takes tens of microseconds, which should stay a few per cent of the
// turn where steps are short.
const quantum = int64(time.Millisecond)

// process is when the clock of turns began.
var process = time.Now()

func now() int64 { return int64(time.Since(process)) }

// take asks for a turn of l and says whether it has begun; otherwise a message
// on l.turn will tell.
func (t *turns) take(l *Member, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.used = max(l.used, t.clock)
	if t.holder != nil {
		t.waiting = append(t.waiting, l)
		return false
	}
	t.hold(l, now)
	return true
}

// keep ends a step of the holder and says whether its turn goes on.
func (t *turns) keep(now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge(now)
	next := t.first()
	if next < 0 || t.waiting[next].used > t.holder.used || now-t.began < quantum {
		t.clock = t.holder.used
		return true
	}
	t.hand(next, now)
	return false
}

// give ends the holder's turn.
func (t *turns) give(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge(now)
	if next := t.first(); next >= 0 {
		t.hand(next, now)
	} else {
		t.holder = nil
	}
}

// charge adds the holder's time since the last count to its counter.
func (t *turns) charge(now int64) {
	t.holder.used += (now - t.since) / t.holder.weight
	t.since = now
}

// first is the index of the waiting member that has used least, of several the one
// that has waited longest; -1 of none.
func (t *turns) first() int {
	best := -1
	for i, l := range t.waiting {
		if best < 0 || l.used < t.waiting[best].used {
			best = i
		}
	}
	return best
}

// hand makes waiting member i the holder and wakes it.
func (t *turns) hand(i int, now int64) {
	l := t.waiting[i]
	t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
	t.hold(l, now)
	l.turn <- struct{}{}
}

func (t *turns) hold(l *Member, now int64) {
	t.holder, t.began, t.since, t.clock = l, now, now, l.used
}
