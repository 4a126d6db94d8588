package llm

import "context"

// freeing is the step loop's answer to a reset of the prefix cache.
type freeing struct {
	blocks int
	err    error // wraps inference.ErrInternal
}

// ResetPrefixCache evicts the blocks of the prefix cache that no running request
// uses and returns how many it freed; running requests keep theirs, and waiting
// ones find nothing in the cache. The step loop does it between two steps. The
// error wraps inference.ErrUnavailable on an engine that takes no requests, and
// is ctx's where ctx ended first; the reset then still happens.
func (e *Engine) ResetPrefixCache(ctx context.Context) (freedBlocks int, err error) {
	answer := make(chan freeing, 1)
	if err := e.postReset(answer); err != nil {
		return 0, err
	}
	select {
	case f := <-answer:
		return f.blocks, f.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (e *Engine) postReset(answer chan<- freeing) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusesAll(); err != nil {
		return err
	}
	e.inbox = append(e.inbox, command{reset: answer})
	e.cpu.Ready()
	return nil
}

// reset empties the prefix cache. Its statistics are published before the answer,
// so that a caller who scrapes the metrics next finds the blocks freed.
func (l *loop) reset(answer chan<- freeing) {
	l.at(resetting)
	blocks := l.e.pool.Reset()
	l.e.publish()
	answer <- freeing{blocks: blocks}
}
