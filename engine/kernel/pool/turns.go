package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turns decides whose turn it is. Each member has a counter of the compute time
// that it has used, divided by its weight; when a turn ends, the waiting member with
// the lowest counter goes next (start-time fair queueing). So a member of short
// steps makes many of them for each long step of another, and a member of twice
// the weight gets twice the time.
//
// A member that comes back from idleness starts at the counter of the member that
// computes: idleness saves nothing up, and a member that waits has its turn after
// one step.
//
// The turn of a member with steps is one step on the lead goroutine. The turn of
// another member lasts from take to give. A long step is interrupted for members of
// brief ones by the same rule, and its turn goes on after them.
type turns struct {
	mu      sync.Mutex
	holder  *Member // whose turn it is; nil: no member's
	since   int64   // when the turn began, in nanoseconds of [now]
	clock   int64   // the holder's counter when its turn began; of the last holder where there is none
	waiting []*Member
	brief   atomic.Int32  // of waiting: members of brief steps; written under mu
	led     chan struct{} // capacity 1: a turn on the lead goroutine has begun, or the pool is closed
}

// process is when the clock of turns began.
var process = time.Now()

func now() int64 { return int64(time.Since(process)) }

// take asks for a turn of l, which has no steps, and says whether it has begun;
// otherwise a message on l.turn will tell.
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

// give ends a turn that take began.
func (t *turns) give(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(now)
	t.pass(now)
}

// ready asks for a step of l.
func (t *turns) ready(l *Member, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.asked = true
	if l.waiting || t.holder == l {
		return
	}
	l.used = max(l.used, t.clock)
	t.wait(l)
	if t.holder == nil {
		t.pass(now)
	}
}

// next is the member whose step is to begin on the lead goroutine; nil is none for
// now: a message on t.led will tell.
func (t *turns) next(now int64) *Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leading(now)
}

// stepped ends a step and returns the next as next does; more says that the same
// member has another step to do.
func (t *turns) stepped(more bool, now int64) *Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.holder
	t.end(now)
	if more || l.asked {
		t.wait(l)
	}
	return t.leading(now)
}

// interrupt gives the turn of the holder to a member of brief steps that waits, if
// that one has used no more. nil: the holder goes on.
func (t *turns) interrupt(now int64) *Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	long := t.holder
	t.end(now)
	return t.briefly(long, now)
}

// due reports whether interrupt would give the turn of the holder to another member.
func (t *turns) due(long *Member, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.least(true)
	return i >= 0 && t.waiting[i].used <= long.used+(now-t.since)/long.weight
}

// only reports whether no other member than l has the turn or waits for it.
func (t *turns) only(l *Member) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return (t.holder == nil || t.holder == l) && !slices.ContainsFunc(t.waiting, func(w *Member) bool { return w != l })
}

// interrupted ends a step that interrupted that of long, and returns the next as
// interrupt does.
func (t *turns) interrupted(long *Member, more bool, now int64) *Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.holder
	t.end(now)
	if more || l.asked {
		t.wait(l)
	}
	return t.briefly(long, now)
}

// briefly begins the turn of the member that may interrupt long, or continues that
// of long and returns nil. No member has the turn before.
func (t *turns) briefly(long *Member, now int64) *Member {
	i := t.least(true)
	if i < 0 || t.waiting[i].used > long.used {
		t.hold(long, now)
		return nil
	}
	l := t.called(i)
	t.hold(l, now)
	l.asked = false
	return l
}

// leading passes the turn on, if no member has it, and returns the member whose turn on
// the lead goroutine begins. The lead goroutine calls it, so that no message to it
// is needed.
func (t *turns) leading(now int64) *Member {
	if t.holder == nil {
		t.pass(now)
	}
	select {
	case <-t.led:
	default:
	}
	if t.holder == nil || t.holder.step == nil {
		return nil
	}
	t.holder.asked = false
	return t.holder
}

// wait adds a member to those that want a step.
func (t *turns) wait(l *Member) {
	l.waiting = true
	t.waiting = append(t.waiting, l)
	if l.brief {
		t.brief.Add(1)
	}
}

// called takes the i-th of the waiting members out.
func (t *turns) called(i int) *Member {
	l := t.waiting[i]
	t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
	l.waiting = false
	if l.brief {
		t.brief.Add(-1)
	}
	return l
}

// least is the waiting member that has used least, of several the one that has
// waited longest; -1 where none waits. brief: of members of brief steps alone.
func (t *turns) least(brief bool) int {
	best := -1
	for i, l := range t.waiting {
		if (l.brief || !brief) && (best < 0 || l.used < t.waiting[best].used) {
			best = i
		}
	}
	return best
}

// end charges the holder for its turn, which no member has then.
func (t *turns) end(now int64) {
	t.holder.used += (now - t.since) / t.holder.weight
	t.holder = nil
}

// pass gives the turn to the member that is next, and tells the goroutine that computes for it.
func (t *turns) pass(now int64) {
	i := t.least(false)
	if i < 0 {
		return
	}
	l := t.called(i)
	t.hold(l, now)
	if l.step == nil {
		l.turn <- struct{}{}
		return
	}
	t.tell()
}

// tell wakes the lead goroutine.
func (t *turns) tell() {
	select {
	case t.led <- struct{}{}:
	default:
	}
}

func (t *turns) hold(l *Member, now int64) {
	t.holder, t.since, t.clock = l, now, l.used
}
