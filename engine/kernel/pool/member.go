package pool

import "runtime"

// Member is one engine's way to a pool. A member that was given a step with Drive
// computes in steps, all of them on the pool's lead goroutine. Before, and for
// members without steps, every Run takes a turn of its own.
type Member struct {
	pool   *Pool
	inside bool          // it is this member's turn; only who computes for the member reads it
	turn   chan struct{} // capacity 1: a turn that Run waited for has begun

	weight int64              // shares of compute time, at least 1
	step   func() (more bool) // nil: the member has no steps of its own
	brief  bool               // its steps may run inside of other members' steps

	// Guarded by turns.mu.
	used    int64 // nanoseconds of compute time over weight
	waiting bool  // it is among those that want a turn
	asked   bool  // Ready was called since the last step began
}

// Join returns a new member. Members that want the pool at the same time share its
// time in proportion to their weights; weight < 1 counts as 1.
func (p *Pool) Join(weight int) *Member {
	return &Member{pool: p, turn: make(chan struct{}, 1), weight: int64(max(weight, 1))}
}

// Alone is a member of a pool of its own that has no workers but the caller of Run, so that a job
// of another pool may call it.
func Alone() *Member { return New(1).Join(1) }

// Workers is the number of the pool's workers, the caller of Run included.
func (l *Member) Workers() int { return l.pool.workers }

// Drive hands the member's steps to the pool: from the next Ready on, the lead
// goroutine calls step whenever it is this member's turn, until step reports that
// there is no more to do. step must not panic. Drive is called once, before the
// first Ready; from then on only step may call Run.
func (l *Member) Drive(step func() (more bool)) {
	l.step = step
	l.pool.leading.Do(func() { go l.pool.lead() })
}

// DriveBriefly is Drive for steps of a few milliseconds: they need not wait for the
// end of another member's long step, but run between two rounds of it too. Such
// members do not interrupt each other.
func (l *Member) DriveBriefly(step func() (more bool)) {
	l.brief = true
	l.Drive(step)
}

// Ready says that the member has something to do: a step follows, also where one is
// under way. Ready may be called from any goroutine; before Drive it does nothing.
func (l *Member) Ready() {
	if l.step != nil {
		l.pool.turns.ready(l, now())
	}
}

// Run does all items of job and returns when they are done. Workers claim grain
// items at a time; at most grain items run on the caller alone, since waking
// others would cost more than it gives. Outside of a step, work for several
// workers waits for a turn. A panic in the job surfaces here as a panic
// with a *Fault, after every worker has left the job.
func (l *Member) Run(job Job, items, grain int) {
	grain = max(grain, 1)
	if items <= grain || l.pool.workers == 1 {
		alone(job, items)
		return
	}
	if l.begin() {
		defer l.leave()
	}
	l.pool.run(job, items, grain)
}

// Sweep is Run for items that read memory which nothing else has read recently, each of them what lies behind the one before: worker w
// does those before ends[w], in their order, that no worker before it has, and then helps the others. A stream of reads is so
// interrupted by no claim of another worker, which costs up to a sixth of what memory gives. ends has a place for each worker and
// does not fall. Items must not wait for each other: where a worker comes late, others do its items after their own.
func (l *Member) Sweep(job Job, ends []int) {
	if items := ends[len(ends)-1]; items <= 1 || l.pool.workers == 1 {
		alone(job, items)
		return
	}
	if l.begin() {
		defer l.leave()
	}
	l.pool.sweep(job, ends)
}

// Wanted reports whether a step of another member is due that runs inside of this member's steps, and waits for the end of the round: a
// job that could go on for long does well to end then.
func (l *Member) Wanted() bool {
	return !l.brief && l.step != nil && l.pool.turns.brief.Load() > 0 && l.pool.turns.due(l, now())
}

// Only reports whether no other member has a turn or wants one.
func (l *Member) Only() bool { return l.pool.turns.only(l) }

// begin is called before a round, and reports whether leave has to be called behind it.
func (l *Member) begin() (entered bool) {
	if l.inside {
		l.pool.breathe(l)
		return false
	}
	l.enter()
	return true
}

// enter returns when it is the turn of this member, which has no steps.
func (l *Member) enter() {
	if !l.pool.turns.take(l, now()) {
		<-l.turn
	}
	l.inside = true
}

// leave ends the turn that enter waited for.
func (l *Member) leave() {
	l.inside = false
	l.pool.turns.give(now())
}

// alone does all items on the caller.
func alone(job Job, items int) {
	defer func() {
		if v := recover(); v != nil {
			panic(faultOf(v))
		}
	}()
	for i := range items {
		job.Do(0, i)
	}
}

// lead computes the steps of all members, one after the other: who computes next is
// decided where a step ends, and no thread has to be woken for it. The lead
// goroutine keeps its thread, as the workers do.
func (p *Pool) lead() {
	if p.spin > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	l := p.turns.next(now())
	for !p.closed.Load() {
		if l == nil {
			<-p.turns.led
			l = p.turns.next(now())
			continue
		}
		more := l.compute()
		l = p.turns.stepped(more, now())
	}
}

// compute calls the member's step.
func (l *Member) compute() (more bool) {
	l.inside = true
	more = l.step()
	l.inside = false
	return more
}

// breathe is called between two rounds of a member's step: brief members that have
// used less than this one have their steps now. It costs a load where none waits.
func (p *Pool) breathe(long *Member) {
	if long.brief || long.step == nil || p.turns.brief.Load() == 0 {
		return
	}
	for l := p.turns.interrupt(now()); l != nil; {
		l = p.turns.interrupted(long, l.compute(), now())
	}
}
