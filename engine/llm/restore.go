package llm

import (
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// restore brings the loop back into a sound state after a panic in iterate: the
// step's requests fail. Where scheduler and pool then pass their own checks,
// no other request fails. A panic inside the scheduler may have left a change
// half made that no check would find, and is taken for a failed check.
func (l *loop) restore(value any) {
	inside := l.faults.phase == planning || l.faults.phase == committing
	why := l.faults.panicked(value)
	err := l.abandon(why)
	if err == nil {
		err = l.recount()
	}
	if err != nil || inside {
		l.rebuild(why)
		return
	}
	l.publish()
}

// recount checks the invariants of scheduler and block pool; nil means that they
// hold. A panic during the check is an error, too.
func (l *loop) recount() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = l.faults.panicked(v)
		}
	}()
	l.faults.at(checking)
	return l.e.sched.CheckInvariants()
}

// abandon ends every request of a step that did not complete, and those that
// the scheduler has ended without the loop's knowledge. The error is a panic of
// the scheduler's.
func (l *loop) abandon(why error) (broken error) {
	defer func() {
		if v := recover(); v != nil {
			broken = l.faults.panicked(v)
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
	unproven := l.faults.rebuilding()
	err := l.renew()
	if err == nil && unproven > mostUnproven {
		err = why
	}
	if err != nil {
		l.giveUp(err)
	}
	l.publish()
}

// mostUnproven is how many times in a row the loop builds a new scheduler that
// never completes a step.
const mostUnproven = 3

func (l *loop) renew() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = l.faults.panicked(v)
		}
	}()
	return l.e.openScheduler()
}

// giveUp makes the engine refuse everything from now on. The process stays, so
// that its readiness and its metrics tell why.
func (l *loop) giveUp(why error) {
	l.dead = fmt.Errorf("%w: it stopped after a fault that came back at once; restart the process, and report: %s",
		inference.ErrUnavailable, why.Error())
	l.faults.tell(l.dead.Error())
	l.e.inbox.die(l.dead)
}
