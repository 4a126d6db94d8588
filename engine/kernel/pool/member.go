package pool

import "runtime/debug"

// Member is one engine's way to a pool. Its methods are called from one goroutine
// at a time, the engine's step loop: Enter before a step, Run as often as the
// step needs, Yield once nothing of the step needs the pool any more, and Leave
// when there is no next step.
type Member struct {
	pool   *Pool
	inside bool          // it is this member's turn; only the member's own goroutine knows
	turn   chan struct{} // capacity 1: another member handed its turn over

	weight int64 // shares of compute time, at least 1
	used   int64 // nanoseconds of compute time over weight; guarded by turns.mu
}

// Join returns a new member. Members that want the pool at the same time share its
// time in proportion to their weights; weight < 1 counts as 1.
func (p *Pool) Join(weight int) *Member {
	return &Member{pool: p, turn: make(chan struct{}, 1), weight: int64(max(weight, 1))}
}

// Workers is the number of the pool's workers, the caller of Run included.
func (l *Member) Workers() int { return l.pool.workers }

// Enter begins a step: it returns when it is this member's turn.
func (l *Member) Enter() {
	l.Yield()
	if !l.inside {
		if !l.pool.turns.take(l, now()) {
			<-l.turn
		}
		l.inside = true
	}
}

// Yield ends a step, if there is one. The turn goes to another member if one waits
// that has used less; it wakes while this member reports its results. Otherwise
// the turn stays for this member's next step, which must follow soon, or Leave.
func (l *Member) Yield() {
	if l.inside {
		l.inside = l.pool.turns.keep(now())
	}
}

// Leave ends the member's turn, if it has one: others may go on at once. A member
// that has left costs nothing.
func (l *Member) Leave() {
	if l.inside {
		l.inside = false
		l.pool.turns.give(now())
	}
}

// Run does all items of job and returns when they are done. Workers claim grain
// items at a time; at most grain items run on the caller alone, since waking
// others would cost more than it gives. Outside a turn, work for several workers
// waits for a turn of its own. A panic in the job surfaces here as a panic with
// a *Fault, after every worker has left the job.
func (l *Member) Run(job Job, items, grain int) {
	grain = max(grain, 1)
	switch {
	case items <= grain || l.pool.workers == 1:
		alone(job, items)
	case l.inside:
		l.pool.run(job, items, grain)
	default:
		l.Enter()
		defer l.Leave()
		l.pool.run(job, items, grain)
	}
}

// alone does all items on the caller.
func alone(job Job, items int) {
	defer func() {
		if v := recover(); v != nil {
			panic(&Fault{Value: v, Stack: debug.Stack()})
		}
	}()
	for i := range items {
		job.Do(0, i)
	}
}
