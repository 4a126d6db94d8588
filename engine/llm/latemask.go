package llm

import (
	"time"

	"weir/engine/kernel/pool"
	"weir/internal/semaphore"
	"weir/internal/work"
)

// What a constraint takes is its client's to choose, and the step is everybody's. So the
// constraints of a step have a small share of it. A row whose mask is not there then is
// late: it sits out, its sequence gets no rows until its mask is worked out beside the
// steps, with permits for few processors, and then its row is computed and sampled again. A late
// row shows by nothing but the time that it took.

const (
	constraintShare = 10 // constraints have this part of a step
	leastConstraint = 500 * time.Microsecond
	mostConstraint  = 4 * time.Millisecond
)

// allow gives the constraints of a step their time.
func (o *outputs) allow(estimate time.Duration) {
	o.until = time.Now().Add(min(max(estimate/constraintShare, leastConstraint), mostConstraint))
	for i := range o.work {
		o.work[i].Meter.Reset()
	}
}

// inTime ends a constraint's work when the time of the step's constraints is over.
func (o *outputs) inTime() error {
	if time.Now().After(o.until) {
		return work.ErrLate
	}
	return nil
}

// lateRow is a row that is late: the choices whose masks are worked out beside the steps.
// Their samplers belong to a goroutine of their own meanwhile.
type lateRow struct {
	job     *job
	choices []int
	took    time.Duration
	fault   *pool.Fault
}

// isAway reports whether the sampler of a choice is in use beside the steps.
func (j *job) isAway(choice int) bool { return j.away != nil && j.away[choice] }

// sendLate has the masks of the step's late rows worked out.
func (l *loop) sendLate() {
	for i := range l.out.rows {
		r := &l.out.rows[i]
		if !r.late || r.draft > 0 {
			continue
		}
		c := &l.plan.Chunks[r.chunk]
		j := c.User.(*job)
		if _, live := l.live[j]; !live {
			continue
		}
		if j.away == nil {
			j.away = make([]bool, j.req.N)
		}
		row := &lateRow{job: j}
		first, end := c.Choice, c.Choice+1
		if c.Samples > 1 {
			first, end = 0, c.Samples
		}
		for k := first; k < end; k++ {
			if !j.ended[k] && !j.away[k] {
				row.choices = append(row.choices, k)
				j.away[k] = true
			}
		}
		go row.prepare(l.e)
	}
}

// prepare works out the masks of a late row. It ends soon after its request.
func (row *lateRow) prepare(e *Engine) {
	defer e.inbox.post(command{job: row.job, late: row})
	p, err := e.permits.Acquire(row.job.gone, row.job.req.Tenant)
	if err != nil {
		return // the request has ended
	}
	defer p.Release()
	meter := work.Meter{Ask: p.Yield, Aside: p.Aside}
	for _, k := range row.choices {
		var err error
		if row.fault = guard(func() { err = row.job.samplers[k].Prepare(e.model.vocab, &meter) }); row.fault != nil || err != nil {
			break
		}
	}
	row.took = p.Used()
}

// back takes in a late row whose masks are there: its choices go on.
func (l *loop) back(row *lateRow) {
	j := row.job
	for _, k := range row.choices {
		j.away[k] = false
	}
	if _, live := l.live[j]; !live {
		return
	}
	if j.beside += row.took; j.broke == nil {
		j.broke = row.fault
	}
	j.stream.SetConstraint(j.beside)
	for k := range j.away {
		if !j.away[k] {
			l.e.sched.Continue(j.id, k)
		}
	}
}

// leave says that no client waits for the job any more.
func (j *job) leave() {
	if j.gone != nil && !j.left {
		j.left = true
		close(j.gone)
	}
}

// constraintPermits are the permits for late masks of an engine with some
// compute threads: one for every four, so that most are left to the steps.
func constraintPermits(threads int, busy func() bool) *semaphore.Semaphore {
	return semaphore.New(semaphore.Config{Permits: max(1, threads/4), Busy: busy, Rest: 3})
}
