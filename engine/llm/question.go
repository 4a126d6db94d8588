package llm

import "context"

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
