package llm

import (
	"fmt"
	"math/bits"
	"runtime/debug"
	"time"

	"weir/engine/kernel/pool"
	"weir/internal/inference"
	"weir/scheduler"
)

// phase says what the loop was doing when a panic came.
type phase uint8

const (
	taking phase = iota // in requests and cancels
	planning
	computing
	emitting
	committing
	reporting
	finishing
	checking
	hooking
	resetting
	explaining
	constraining
	listing
	transferring
	numPhases
)

func (p phase) String() string {
	return [numPhases]string{
		"taking in a request", "planning a step", "computing a step", "emitting tokens", "committing a step",
		"reporting a step", "finishing a request", "checking the counts", "a hook",
		"resetting the prefix cache", "explaining requests", "a request's constraint", "listing the prefix cache",
		"transferring kv blocks",
	}[p]
}

// at records the phase that begins.
func (l *loop) at(p phase) {
	l.phase = p
	if f := l.e.opts.atPhase; f != nil {
		f(p)
	}
}

// panicked counts and reports a recovered panic. The deferred function that
// recovered it calls panicked. The error is for the requests that fail by it.
func (l *loop) panicked(value any) error {
	where := l.phase
	l.panics++
	l.broken[where]++
	// A hook or a request that breaks in every step must not fill the log.
	if bits.OnesCount64(l.broken[where]) == 1 {
		l.fault(fmt.Sprintf("panic in %v, number %d: %v\n%s", where, l.broken[where], value, debug.Stack()))
	}
	return fmt.Errorf("%w: panic in %v: %v", inference.ErrInternal, where, value)
}

// fault reports a bug that was caught to OnFault.
func (l *loop) fault(text string) {
	l.lastFault = text
	if f := l.e.opts.OnFault; f != nil {
		defer func() {
			if recover() != nil {
				l.panics++
			}
		}()
		f(text)
	}
}

// constraintBroke counts and reports a panic in a request's constraint. The error is
// for that request, the only one that fails by it.
func (l *loop) constraintBroke(f *pool.Fault) error {
	l.panics++
	l.broken[constraining]++
	if n := l.broken[constraining]; bits.OnesCount64(n) == 1 {
		l.fault(fmt.Sprintf("panic in %v, number %d: %v\n%s", constraining, n, f.Value, f.Stack))
	}
	return fmt.Errorf("%w: an internal error of the grammar's matcher", inference.ErrConstraint)
}

// hook calls one of the options' hooks. A panic in a hook fails no request.
func (l *loop) hook(call func()) {
	defer func() {
		if v := recover(); v != nil {
			l.phase = hooking
			_ = l.panicked(v)
		}
	}()
	call()
}

// restore brings the loop back into a sound state after a panic in iterate: the
// step's requests fail. Where scheduler and pool then pass their own checks,
// no other request fails. A panic inside the scheduler may have left a change
// half made that no check would find, and is taken for a failed check.
func (l *loop) restore(value any) {
	inside := l.phase == planning || l.phase == committing
	why := l.panicked(value)
	err := l.abandon(why)
	if err == nil {
		err = l.recount()
	}
	if err != nil || inside {
		l.rebuild(why)
		return
	}
	l.e.publish()
}

// recount checks the invariants of scheduler and block pool; nil means that they
// hold. A panic during the check is an error, too.
func (l *loop) recount() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = l.panicked(v)
		}
	}()
	l.at(checking)
	return l.e.sched.CheckInvariants()
}

// abandon ends every request of a step that did not complete, and those that
// the scheduler has ended without the loop's knowledge. The error is a panic of
// the scheduler's.
func (l *loop) abandon(why error) (broken error) {
	defer func() {
		if v := recover(); v != nil {
			broken = l.panicked(v)
		}
	}()
	now, s := time.Now().UnixNano(), l.e.sched
	jobs := make([]*job, 0, len(l.plan.Chunks))
	for i := range l.plan.Chunks {
		jobs = append(jobs, l.plan.Chunks[i].User.(*job))
	}
	s.Abandon(now)
	for _, j := range jobs {
		l.fail(j, why)
	}
	for j := range l.live {
		if _, ok := s.Progress(j.id); !ok {
			l.fail(j, why)
		}
	}
	return nil
}

// fail ends the choices of a request that have not ended, with an error.
func (l *loop) fail(j *job, why error) {
	if _, ok := l.live[j]; !ok {
		return
	}
	l.e.sched.Cancel(time.Now().UnixNano(), j.id, -1)
	l.endChoices(scheduler.End{User: j, Choice: -1, Finish: inference.FinishError, Err: why})
}

// rebuild fails every live request and starts over with a new scheduler and an
// empty pool: block ids and counts are all that is lost, the tensors stay.
func (l *loop) rebuild(why error) {
	for j := range l.live {
		l.endChoices(scheduler.End{User: j, Choice: -1, Finish: inference.FinishError, Err: why})
	}
	l.rebuilds++
	l.unproven++
	err := l.renew()
	if err == nil && l.unproven > mostUnproven {
		err = why
	}
	if err != nil {
		l.giveUp(err)
	}
	l.e.publish()
}

// mostUnproven is how many times in a row the loop builds a new scheduler that
// never completes a step.
const mostUnproven = 3

func (l *loop) renew() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = l.panicked(v)
		}
	}()
	return l.e.openScheduler()
}

// giveUp makes the engine refuse everything from now on. The process stays, so
// that its readiness and its metrics tell why.
func (l *loop) giveUp(why error) {
	l.dead = fmt.Errorf("%w: it stopped after a fault that came back at once; restart the process, and report: %s",
		inference.ErrUnavailable, why.Error())
	l.fault(l.dead.Error())
	l.e.inbox.die(l.dead)
}
