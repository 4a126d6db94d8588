package llm

import (
	"context"
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// question is a call that another goroutine has the step loop make between two
// steps, where scheduler and block pool may be read and changed.
type question struct {
	phase phase
	call  func()
	done  chan error // capacity 1; a panic in call is an error that wraps inference.ErrInternal
}

// ask has the step loop make a call and waits for its end. The error wraps
// inference.ErrUnavailable on an engine that takes no requests, and is ctx's where
// ctx ended first; the call is then still made.
func (e *Engine) ask(ctx context.Context, p phase, call func()) error {
	q := &question{p, call, make(chan error, 1)}
	if err := e.inbox.submit(0, command{question: q}); err != nil {
		return err
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *loop) answer(q *question) {
	l.faults.at(q.phase)
	q.call()
	q.done <- nil
}

// ResetPrefixCache evicts the blocks of the prefix cache that no running request
// uses and returns how many it freed; running requests keep theirs, and waiting
// ones find nothing in the cache. The step loop does it between two steps. The
// error wraps inference.ErrUnavailable on an engine that takes no requests, and
// is ctx's where ctx ended first; the reset then still happens.
func (e *Engine) ResetPrefixCache(ctx context.Context) (freedBlocks int, err error) {
	freed := 0
	if err := e.ask(ctx, resetting, func() { freed = e.loop.reset() }); err != nil {
		return 0, err
	}
	return freed, nil
}

// reset empties the prefix cache. Its statistics are published before the answer,
// so that a caller who scrapes the metrics next finds the blocks freed.
func (l *loop) reset() (freedBlocks int) {
	freedBlocks = l.e.pool.Reset()
	l.publish()
	return freedBlocks
}

// readInbox carries out what other goroutines asked for since the last step.
func (l *loop) readInbox() (closing, abort bool) {
	l.work, closing, abort = l.e.inbox.take(l.work)
	for i := range l.work {
		l.execute(&l.work[i])
	}
	clear(l.work)
	return closing, abort
}

// execute carries out one command. A panic in it fails the command's request, or
// is the answer to a question.
func (l *loop) execute(c *command) {
	defer func() {
		if v := recover(); v != nil {
			why := l.faults.panicked(v)
			if c.question != nil {
				c.question.done <- why
			} else {
				l.live[c.job] = struct{}{} // fail ends live jobs only; the panic may have come before submit added this one
				l.fail(c.job, why)
			}
			if l.recount() != nil {
				l.rebuild(why)
			}
		}
	}()
	switch {
	case c.question != nil:
		l.answer(c.question)
		return
	case c.late != nil:
		l.back(c.late)
		return
	}
	now := time.Now()
	if c.submit {
		l.submit(now, c.job)
		return
	}
	l.cancel(now, c.job, c.choice, inference.ErrCancelled)
	if f := l.e.opts.OnCancel; f != nil {
		l.faults.hook(func() { f(time.Since(c.at)) })
	}
}

func (l *loop) submit(now time.Time, j *job) {
	l.faults.at(taking)
	err := l.dead
	if err == nil {
		j.id, err = l.e.sched.Submit(now.UnixNano(), j.request(l.e.opts.Speculate))
	}
	if err != nil {
		l.e.leaveWaiting(j, false)
		j.stream.Close(err)
		return
	}
	l.live[j], l.waiting[j] = struct{}{}, struct{}{}
	lives{l.e}.submitted(j)
	l.progress(j, 0)
}

// cancel ends one choice of a job, or all of them (-1), and releases their
// blocks. It does nothing for a choice that has ended.
func (l *loop) cancel(now time.Time, j *job, choice int, why error) {
	if _, ok := l.live[j]; !ok || !l.e.sched.Cancel(now.UnixNano(), j.id, choice) {
		return
	}
	l.endChoices(scheduler.End{User: j, Choice: choice, Finish: inference.FinishCancelled, Err: why})
}

func (l *loop) cancelAll() {
	for j := range l.live {
		l.cancel(time.Now(), j, -1, fmt.Errorf("%w: the server shut down", inference.ErrUnavailable))
	}
}
