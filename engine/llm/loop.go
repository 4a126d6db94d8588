package llm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
)

// loop is the state of the step loop: plan, rows and results, all reused.
type loop struct {
	e       *Engine
	plan    scheduler.Plan
	results []scheduler.Result
	batch   batch
	fine    batch               // rows of requests that measure, whose products, keys and values are fine
	tables  [][]kvcache.BlockID // of a chunk's sequence
	order   []int               // of the plan's chunks in the batches
	out     outputs
	live    map[*job]struct{} // submitted and not ended
	waiting map[*job]struct{} // live and never admitted yet
	work    []command         // the commands being executed; swaps memory with Engine.inbox
	checked bool              // the idle check ran since the last step
	quiet   *time.Timer       // asks for the idle check
	since   time.Time         // when the loop first had nothing to do after a step
	ended   bool              // Close was called and every request has ended

	faults faults
	dead   error // why the loop refuses every request; nil while it works
	steps  uint64
}

func (l *loop) init(e *Engine) {
	l.e = e
	l.tables = make([][]kvcache.BlockID, len(e.model.cacheShape.Tables))
	l.live, l.waiting = make(map[*job]struct{}), make(map[*job]struct{})
	l.batch.store, l.fine.store = e.states, e.states
	l.out.init(e)
	l.faults.onFault, l.faults.atPhase = e.opts.OnFault, e.opts.atPhase
	l.quiet = time.AfterFunc(time.Hour, e.cpu.Ready)
	l.quiet.Stop()
}

// idleCheck is how long the engine must be idle before it recounts its blocks.
const idleCheck = time.Second

// iterate carries out what the inbox asks for and runs a step. It reports whether
// there is more to do; where there is not, Engine.cpu.Ready asks for the next call.
// iterate recovers panics of every part of the loop. It is called on the pool's lead
// goroutine, so engines that share a pool never run at the same time.
func (l *loop) iterate() (more bool) {
	if l.ended {
		return false // a command that came too late
	}
	defer func() {
		if v := recover(); v != nil {
			l.restore(v)
			more = true
		}
	}()
	closing, abort := l.readInbox()
	if abort {
		l.cancelAll()
	}
	if l.step() {
		return true
	}
	l.publish()
	if closing && len(l.live) == 0 {
		l.end()
		return false
	}
	l.rest()
	return false
}

// end is the last that the loop does.
func (l *loop) end() {
	l.ended = true
	l.quiet.Stop()
	l.e.release()
	close(l.e.inbox.stopped)
}

// rest is called when there is nothing to do. The first rest after a step asks for
// another call after a second of quiet, which checks the invariants.
func (l *loop) rest() {
	switch {
	case l.checked:
	case l.since.IsZero():
		l.since = time.Now()
		l.quiet.Reset(idleCheck)
	case time.Since(l.since) >= idleCheck:
		l.check()
	}
}

// check compares the counts of the scheduler and the block pool with a recount.
func (l *loop) check() {
	l.checked = true
	if l.dead != nil {
		return
	}
	if err := l.recount(); err != nil {
		l.faults.recounted(err)
		l.rebuild(fmt.Errorf("%w: %w", inference.ErrInternal, err))
	}
	if err := l.e.drafts.check(len(l.live)); err != nil {
		l.faults.recounted(err)
		l.publish()
	}
}

// publish makes the state after a step visible to other goroutines.
func (l *loop) publish() {
	e, f := l.e, &l.faults
	if e.blocks != nil {
		e.blocks.take(e.pool)
	}
	s := Stats{
		Scheduler: e.sched.Stats(), Cache: e.pool.Stats(),
		Steps: l.steps, Panics: f.panics, Faults: f.recounts, Rebuilds: f.rebuilds, LastFault: f.last, DraftsStopped: e.drafts.why(),
	}
	estimates := e.sched.CostEstimates()
	e.mu.Lock()
	e.stats, e.estimates = s, estimates
	e.mu.Unlock()
}

// endChoices sends the finish events of choices that have ended, and closes the
// stream with the last one. The stream ends with the error of the first choice
// that failed. A choice that its reader cancelled is no failure of the request.
// A choice of which an event was lost ends with ErrSlowConsumer, whatever the
// scheduler reports, because its reader lacks a part of the answer.
func (l *loop) endChoices(end scheduler.End) {
	j := end.User.(*job)
	defer func() {
		if v := recover(); v != nil {
			why := l.faults.panicked(v)
			l.forget(j)
			l.e.sched.Cancel(time.Now().UnixNano(), j.id, -1)
			j.stream.Close(why)
		}
	}()
	l.faults.at(finishing)
	switch {
	case j.lost:
		end.Finish, end.Err = inference.FinishCancelled, inference.ErrSlowConsumer
	case end.Choice >= 0 && end.Finish == inference.FinishCancelled:
		end.Err = nil
	}
	if j.err == nil {
		j.err = end.Err
	}
	for i := range j.ended {
		if (end.Choice == i || end.Choice < 0) && !j.ended[i] {
			j.ended[i] = true
			j.push(inference.Event{Kind: inference.EventFinish, Choice: i, Finish: end.Finish})
		}
	}
	if slices.Contains(j.ended, false) {
		return
	}
	l.forget(j)
	if f := l.e.opts.OnFinish; f != nil && !j.admitted.IsZero() {
		l.faults.hook(func() { f(j.phases()) })
	}
	j.stream.Close(j.err)
}

// forget drops a job that has ended.
func (l *loop) forget(j *job) {
	delete(l.live, j)
	delete(l.waiting, j)
	j.leave()
	l.e.leaveWaiting(j, false)
}

// step plans and runs one step; false means there was nothing to run.
func (l *loop) step() (ran bool) {
	if l.dead != nil {
		return false
	}
	e, start := l.e, time.Now()
	l.faults.at(planning)
	ran = e.sched.Plan(start.UnixNano(), &l.plan)
	e.stepping.Store(ran)
	for _, end := range l.plan.Failed {
		l.endChoices(end)
	}
	if !ran {
		return len(l.plan.Failed) > 0
	}
	l.cutDrafts()
	planned := time.Now()
	l.faults.at(computing)
	l.noteAdmitted(planned)
	l.compute()
	computed := time.Now()
	l.faults.at(emitting)
	l.emit(computed)
	l.faults.at(committing)
	ends := e.sched.Commit(computed.UnixNano(), l.results)
	l.faults.unproven = 0
	l.report(start, planned, computed) // before the choices end, so that a client which scrapes metrics after its answer sees it counted
	for _, end := range ends {
		l.endChoices(end)
	}
	l.dropLost()
	l.sendLate()
	return true
}

// noteAdmitted records when requests were admitted or, after a preemption,
// resumed, and counts the preemptions of the step.
func (l *loop) noteAdmitted(now time.Time) {
	for _, id := range l.plan.Preempted {
		for j := range l.live {
			if j.id == id {
				j.preempted++
			}
		}
	}
	for i := range l.plan.Chunks {
		c := &l.plan.Chunks[i]
		if j := c.User.(*job); j.admitted.IsZero() || slices.Contains(l.plan.Resumed, c.Request) {
			delete(l.waiting, j)
			if j.admitted.IsZero() {
				j.stream.SetAdmitted(now)
			}
			j.admitted = now
		}
	}
}

// compute runs the plan's copies and rows; emit makes results of them.
func (l *loop) compute() {
	e := l.e
	for _, c := range l.plan.Copies {
		e.pages(c.Fine).Table(c.Group).CopyRows(c.Src, c.Dst, c.Rows)
	}
	l.gather()
	l.out.plan = &l.plan
	whole := len(l.batch.logits)
	l.forward(&l.batch, e.kv, block{0, whole})
	if len(l.fine.tokens) > 0 {
		e.cpu.SetFine(true)
		defer e.cpu.SetFine(e.opts.Fine) // a panic is no reason to stay fine
		l.forward(&l.fine, e.fine, block{whole, len(l.out.rows)})
	}
}

// forward runs a batch, and samples from its rows of l.out.
func (l *loop) forward(b *batch, kv *attend.Pages, rows block) {
	if len(b.tokens) > 0 {
		l.e.model.forward(l.e.cpu, kv, b)
		if b == &l.batch {
			l.e.drafts.takeHidden(&l.plan, b.hidden)
		}
		b.keepLogits(l.e.model.width)
		l.out.run(b, rows)
	}
}

// gather lays the plan's rows out as a batch; those that need logits are batch.output. What measures is a batch of its own, behind the other.
func (l *loop) gather() {
	l.out.reset()
	l.e.drafts.begin()
	l.arrange()
	l.gatherInto(&l.batch, false)
	l.gatherInto(&l.fine, true)
}

// arrange orders the plan's chunks by their adapters, so that the rows of each are neighbours.
func (l *loop) arrange() {
	id := func(i int) uint64 {
		if a := l.plan.Chunks[i].User.(*job).adapter; a != nil {
			return a.id
		}
		return 0
	}
	l.order = l.order[:0]
	sorted := true
	for i := range l.plan.Chunks {
		sorted = sorted && (i == 0 || id(i-1) <= id(i))
		l.order = append(l.order, i)
	}
	if !sorted {
		slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(id(a), id(b)) })
	}
}

// gatherInto lays out the rows that are computed finely, or the others.
func (l *loop) gatherInto(b *batch, fine bool) {
	b.reset()
	for _, i := range l.order {
		c := &l.plan.Chunks[i]
		r := c.User.(*job).req
		if fine != (r.Given != nil) {
			continue
		}
		for g := range l.tables {
			l.tables[g] = c.Blocks(g)
		}
		row := b.add(c.Tokens, c.Start, l.e.blockTokens(r), l.tables...)
		b.adapted = b.adapted.add(row, len(b.tokens), c.User.(*job).adapter)
		if l.e.model.states > 0 {
			b.carryPasses(c.Passes())
		}
		if !c.Decode {
			l.progress(c.User.(*job), c.Start+c.Count)
		}
		l.wantHidden(b, i, row)
		for r := c.Count - c.LogitRows; r < c.Count; r++ {
			b.output = append(b.output, row+r)
			b.logits = append(b.logits, len(b.output)-1)
			last := c.Count - 1 - c.Drafts // the row before the drafts
			l.out.add(outputRow{chunk: i, pos: c.Start + r, sampled: r >= last, draft: max(r-last, 0)})
		}
	}
}

// wantHidden arranges that an MTP head gets the hidden states of a chunk whose rows begin with row: those of rows with logits, and of what else the plan
// says.
func (l *loop) wantHidden(b *batch, chunk, row int) {
	c := &l.plan.Chunks[chunk]
	r := c.User.(*job).req
	if !l.e.drafts.wantsHidden() || r.Given != nil || !r.Speculation.Or(l.e.opts.Speculate) {
		return
	}
	n := max(c.LogitRows, c.Hidden)
	if n > 0 {
		l.e.drafts.mtp.expectHidden(chunk, c.Start+c.Count-n, len(b.output), n)
	}
	for r := c.Count - n; r < c.Count-c.LogitRows; r++ {
		b.output = append(b.output, row+r)
	}
}

// dropLost cancels requests that lost an event because their ring was full.
func (l *loop) dropLost() {
	for i := range l.plan.Chunks {
		if j, ok := l.plan.Chunks[i].User.(*job); ok && j.lost {
			l.cancel(time.Now(), j, -1, inference.ErrSlowConsumer)
		}
	}
}

// report publishes the step's statistics and the places of waiting requests. A
// panic in report fails no request.
func (l *loop) report(start, planned, computed time.Time) {
	defer func() {
		if v := recover(); v != nil {
			_ = l.faults.panicked(v)
		}
	}()
	l.faults.at(reporting)
	l.steps++
	l.checked, l.since = false, time.Time{}
	for i := range l.plan.Chunks {
		j := l.plan.Chunks[i].User.(*job)
		l.e.leaveWaiting(j, true)
		j.stream.SetCompute(time.Duration(j.spent) + j.beside)
	}
	lives{l.e}.stepped(&l.plan, l.waiting, planned, computed)
	if len(l.plan.Admitted) > 0 {
		for j := range l.waiting {
			l.progress(j, 0)
		}
	}
	l.publish()
	if f := l.e.opts.OnStep; f != nil {
		l.faults.hook(func() {
			f(StepStats{
				PrefillTokens: l.plan.Rows - l.plan.Decodes - l.plan.Drafts, DecodeTokens: l.plan.Decodes, DraftTokens: l.plan.Drafts,
				Sequences: len(l.plan.Chunks), Preempted: len(l.plan.Preempted),
				PlanTime: planned.Sub(start), StepTime: time.Since(start), Estimate: l.plan.Estimate,
			})
		})
	}
}

// progress publishes how far a job is: its place in the waiting queue, and how
// many prompt tokens are prefilled; rows counts those of the current step, which
// the scheduler has not committed yet.
func (l *loop) progress(j *job, rows int) {
	if p, ok := l.e.sched.Progress(j.id); ok {
		p.PrefillTokens = min(max(p.PrefillTokens, rows), len(j.req.Prompt))
		p.CachedTokens = j.fresh.without(p.CachedTokens)
		j.stream.SetProgress(p)
	}
}
