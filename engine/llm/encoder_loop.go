package llm

import (
	"fmt"
	"math/bits"
	"runtime/debug"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

const (
	// passTarget is how long a pass is meant to take: a call that comes meanwhile
	// waits for its end.
	passTarget = 30 * time.Millisecond
	// firstRows is the most of a pass before one was timed, leastRows at any time:
	// fewer do not make up for reading the weights.
	firstRows, leastRows = 256, 64
	// mostRows bounds a pass of several texts whatever the machine.
	mostRows = 2048
	// turn is how long the encoder computes before others get the compute pool.
	turn = 3 * time.Millisecond
)

// encoderLoop is what the compute pool's lead goroutine calls.
type encoderLoop struct {
	e     *Encoder
	queue *admission.Queue
	cost  *cost.Model
	texts map[uint64]*embedText // by the queue's Ref: those that wait
	refs  uint64
	work  []embedCommand // taken from the inbox; swaps memory with it
	pass  pass

	broken [2]uint64 // panics: outside a pass, in one
}

func (l *encoderLoop) init(e *Encoder) error {
	l.e, l.texts = e, make(map[uint64]*embedText)
	l.pass.init(e)
	l.cost = cost.New(e.model.price(e.info.WeightBytes, e.info.Threads))
	e.prices = l.cost.Prices(cost.Load{Rows: firstRows})
	return l.openQueue()
}

func (l *encoderLoop) openQueue() (err error) {
	s := &l.e.opts.Scheduler
	l.queue, err = admission.New(admission.Config{
		MaxRequests: s.MaxWaiting, MaxTokens: s.MaxWaitingTokens, SharePercent: s.SharePercent, Lane: s.Lane,
	})
	return err
}

// try computes one text, and refuses a model that gives no finite vector.
func (l *encoderLoop) try() error {
	p := &l.pass
	a := &inference.Embedding{Texts: [][]inference.TokenID{{int32(min(1, l.e.model.vocab-1))}}}
	if l.e.model.head.marks {
		a.Marks = [][]int{{0}}
	}
	c := newEmbedCall(l.e, a)
	p.add(&c.texts[0])
	p.begin(0)
	for !p.advance() {
	}
	p.finish()
	p.reset()
	if finite(c.vectors[0]) {
		return nil
	}
	if err := l.e.model.check(l.e.cpu, l.e.opts.stopped); err != nil {
		return err
	}
	return fmt.Errorf("%w: its weights are finite, but not what they make of a first token; "+
		"the file is damaged or its metadata are of another model", ErrModel)
}

// iterate takes in calls, begins a pass where none is under way, and computes for
// one turn. It reports whether there is more to do. A panic fails the calls of the
// pass, or outside of one all calls.
func (l *encoderLoop) iterate() (more bool) {
	defer func() {
		if v := recover(); v != nil {
			l.restore(v)
			more = true
		}
	}()
	closing, abort := l.readInbox()
	if abort {
		l.failAll(fmt.Errorf("%w: the server shut down", inference.ErrUnavailable))
	}
	if len(l.pass.texts) == 0 && !l.plan(time.Now()) {
		if closing {
			l.e.release()
			close(l.e.inbox.stopped)
		}
		return false
	}
	l.compute()
	return true
}

// compute runs the pass for one turn.
func (l *encoderLoop) compute() {
	p, start := &l.pass, time.Now()
	if f := l.e.opts.atPhase; f != nil {
		f(computing)
	}
	done := false
	for !done && time.Since(start) < turn {
		done = p.advance()
	}
	if done {
		p.finish()
	}
	p.took += time.Since(start)
	if done {
		l.deliver()
	}
}

// readInbox takes in what other goroutines asked for.
func (l *encoderLoop) readInbox() (closing, abort bool) {
	l.work, closing, abort = l.e.inbox.take(l.work)
	for _, c := range l.work {
		switch {
		case c.call.ended:
		case c.cancel:
			l.fail(c.call, inference.ErrCancelled)
		default:
			l.offer(c.call)
		}
	}
	clear(l.work)
	return closing, abort
}

// offer queues the texts of a call, all or none.
func (l *encoderLoop) offer(c *embedCall) {
	for i := range c.texts {
		t := &c.texts[i]
		for {
			ref, ok := l.queue.Shed(t.item)
			if !ok {
				break
			}
			given := l.texts[ref]
			l.dropped(ref)
			l.fail(given.call, inference.ErrShed)
		}
		l.refs++
		t.item.Ref = l.refs
		ticket, err := l.queue.Offer(t.item)
		if err != nil {
			l.fail(c, err)
			return
		}
		t.ticket, t.waiting = ticket, true
		l.texts[l.refs] = t
	}
}

// dropped forgets a text that left the queue without being computed.
func (l *encoderLoop) dropped(ref uint64) *embedText {
	t := l.texts[ref]
	delete(l.texts, ref)
	t.waiting = false
	l.e.leave(t, false)
	return t
}

// fail ends a call; its texts leave the queue, and those that are being computed are
// computed for nothing.
func (l *encoderLoop) fail(c *embedCall, why error) {
	for i := range c.texts {
		t := &c.texts[i]
		if t.waiting {
			l.queue.Remove(t.ticket)
			l.dropped(t.item.Ref)
		}
		l.e.leave(t, false)
	}
	c.end(why)
}

func (l *encoderLoop) failAll(why error) {
	for _, t := range l.texts {
		l.fail(t.call, why)
	}
	l.failPass(why)
}

// failPass gives the pass up.
func (l *encoderLoop) failPass(why error) {
	for _, t := range l.pass.texts {
		l.queue.Done(t.flow)
		l.fail(t.call, why)
	}
	l.pass.reset()
	l.publish()
}

// plan takes the next texts from the queue; false means that nothing waits.
func (l *encoderLoop) plan(now time.Time) bool {
	q := l.queue
	q.Exchange()
	for {
		ref, ok := q.Expire(now.UnixNano())
		if !ok {
			break
		}
		t := l.dropped(ref)
		l.fail(t.call, t.call.expired(now))
	}
	if q.Len() == 0 {
		return false
	}
	rows, prices := l.budget(), l.cost.Prices(cost.Load{Rows: firstRows})
	for _, class := range q.Order() {
		q.Scan(class, false)
		for {
			ref, _, ok := q.Next()
			if !ok {
				break
			}
			t := l.texts[ref]
			if !l.pass.fits(t, rows) {
				q.Skip()
				continue
			}
			delete(l.texts, ref)
			t.waiting, t.charge = false, uint64(prices.Of(textLoad(len(t.tokens))))
			t.flow = q.Take(t.charge)
			l.e.leave(t, true)
			t.call.taken.Store(int64(max(now.Sub(t.call.queued), 1)))
			l.pass.add(t)
		}
		q.EndScan()
	}
	l.pass.begin(l.perRow())
	l.publish()
	return true
}

// budget is how many rows the next pass may have.
func (l *encoderLoop) budget() int {
	per := l.perRow()
	if per <= 0 {
		return firstRows
	}
	return min(max(int(float64(passTarget)/per), leastRows), mostRows)
}

// perRow is what a row of a pass takes, in nanoseconds; 0 before one was timed.
func (l *encoderLoop) perRow() float64 {
	if !l.cost.Ready() {
		return 0
	}
	return float64(l.cost.Estimate(cost.Load{Rows: firstRows})) / firstRows
}

// deliver hands out the vectors of a finished pass and settles what tenants were
// charged for it.
func (l *encoderLoop) deliver() {
	p, e := &l.pass, l.e
	l.cost.Observe(p.load, p.took)
	total := uint64(0)
	for _, t := range p.texts {
		total += t.charge
	}
	texts, calls := p.texts, uint64(0)
	for _, t := range texts {
		share := float64(p.took) * float64(t.charge) / float64(max(total, 1))
		if real := uint64(share); real > t.charge {
			l.queue.Charge(t.flow, real-t.charge)
		} else {
			l.queue.Refund(t.flow, t.charge-real)
		}
		l.queue.Done(t.flow)
		c := t.call
		c.computed.Add(int64(share))
		if c.left--; c.left == 0 {
			calls++
		}
	}
	step := StepStats{PrefillTokens: p.load.Rows, Sequences: len(texts), StepTime: p.took, Estimate: p.estimate}
	e.mu.Lock()
	e.stats.Calls += calls
	e.stats.Texts += uint64(len(texts))
	e.stats.Tokens += uint64(p.load.Rows)
	e.stats.Passes++
	e.stats.Computed += p.took
	e.prices, e.timed = l.cost.Prices(cost.Load{Rows: firstRows}), true
	e.stats.Running = 0
	e.mu.Unlock()
	if f := e.opts.OnStep; f != nil { // before the calls end, so that a client which scrapes metrics after its answer sees it counted
		l.hook(func() { f(step) })
	}
	for _, t := range texts {
		l.settle(t)
	}
	p.reset()
}

// settle ends a text's call where it was the last one, or where its vector is none.
func (l *encoderLoop) settle(t *embedText) {
	c := t.call
	if !c.ended && !finite(c.vectors[t.index]) {
		l.fail(c, fmt.Errorf("%w: the model gave no finite vector for text %d", inference.ErrInternal, t.index))
	}
	if c.left > 0 || c.ended {
		return
	}
	if f := l.e.opts.OnFinish; f != nil {
		queue := time.Duration(c.taken.Load())
		l.hook(func() { f(Phases{Queue: queue, Prefill: -1, Inference: time.Since(c.queued) - queue}) })
	}
	c.end(nil)
}

// publish makes the state visible to other goroutines.
func (l *encoderLoop) publish() {
	l.e.mu.Lock()
	l.e.stats.Running = len(l.pass.texts)
	l.e.mu.Unlock()
}

// restore brings the loop back into a sound state after a panic.
func (l *encoderLoop) restore(value any) {
	inside := len(l.pass.texts) > 0
	why := l.panicked(value, inside)
	defer func() {
		if v := recover(); v != nil { // the queue itself is broken
			_ = l.panicked(v, false)
			l.rebuild(why)
		}
	}()
	if inside {
		l.failPass(why)
	}
	if !inside || l.queue.Check() != nil {
		l.rebuild(why)
	}
}

// rebuild fails every call and starts over with an empty queue.
func (l *encoderLoop) rebuild(why error) {
	for ref, t := range l.texts {
		delete(l.texts, ref)
		t.waiting = false
		l.e.leave(t, false)
		t.call.end(why)
	}
	for _, t := range l.pass.texts {
		t.call.end(why)
	}
	l.pass.reset()
	if err := l.openQueue(); err != nil {
		panic(err) // the same configuration was accepted before
	}
	l.publish()
}

// panicked counts and reports a recovered panic; the error is for the calls that fail
// by it.
func (l *encoderLoop) panicked(value any, inside bool) error {
	where, n := "between passes", &l.broken[0]
	if inside {
		where, n = "computing a pass", &l.broken[1]
	}
	*n++
	text := ""
	if bits.OnesCount64(*n) == 1 { // what breaks in every pass must not fill the log
		text = fmt.Sprintf("panic %s, number %d: %v\n%s", where, *n, value, debug.Stack())
	}
	l.e.mu.Lock()
	l.e.stats.Panics++
	if text != "" {
		l.e.stats.LastFault = text
	}
	l.e.mu.Unlock()
	if f := l.e.opts.OnFault; f != nil && text != "" {
		l.hook(func() { f(text) })
	}
	return fmt.Errorf("%w: panic %s: %v", inference.ErrInternal, where, value)
}

// hook calls one of the options' hooks. A panic in a hook fails nothing.
func (l *encoderLoop) hook(call func()) {
	defer func() {
		if recover() != nil {
			l.e.mu.Lock()
			l.e.stats.Panics++
			l.e.mu.Unlock()
		}
	}()
	call()
}
