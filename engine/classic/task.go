package classic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/scheduler/batch"
)

// task is a request in the lane.
type task struct {
	v      *Version
	id     string
	tenant string
	class  inference.Class
	in     []tensor.Tensor // in the model's form
	own    bool            // in is no memory of the caller's
	rows   int
	kind   string
	since  time.Time
	stop   func() error // ends the run of a model that is computed apart; nil: nothing does

	ticket batch.Ticket
	taken  batch.TakenRequest // once it is computed
	wake   chan signal        // capacity 2
	led    []*task            // the batch that it computes, where it was told to lead

	// Guarded by the line that it waits in.
	begun    bool // it has left the queue
	gathered bool // the lane reads none of the caller's memory any more
	gone     bool // the caller does not wait for the answer

	// The answer, written before the task is told that it is done.
	out      []tensor.Tensor
	err      error
	waited   time.Duration
	computed time.Duration
	batch    int
}

// signal is what a waiting task is told.
type signal uint8

const (
	lead   signal = iota // compute task.led
	copied               // task.gathered is set, and the caller had asked
	done
)

// work is the task as the queue sees it. share is the part of the pool's time that
// one core's time counts as.
func (t *task) work(p *inference.Prediction, l *Lane, estimate time.Duration) batch.Work {
	w := batch.Work{
		User: t, Tenant: p.Tenant, Weight: p.Weight, Class: p.Class, OverQuota: p.OverQuota,
		WaitUntil: t.since.Add(l.opts.MaxWait).UnixNano(),
		Kind:      t.kind, Rows: t.rows, MaxRows: 1, Delay: t.v.opts.MaxDelay, Cost: l.charge(estimate),
	}
	if !p.DoneBy.IsZero() {
		w.DoneBy = p.DoneBy.UnixNano()
	}
	if !p.WaitUntil.IsZero() {
		w.WaitUntil = min(w.WaitUntil, p.WaitUntil.UnixNano())
	}
	return w
}

// until ends the run of a task with its context, and at its deadline.
func (t *task) until(ctx context.Context, doneBy time.Time) func() error {
	return func() error {
		switch {
		case ctx.Err() != nil:
			return ended(ctx)
		case !doneBy.IsZero() && !time.Now().Before(doneBy):
			return fmt.Errorf("%w: while the model ran", inference.ErrDeadline)
		}
		return nil
	}
}

// answer gives the caller what happened to the task.
func (t *task) answer(p *inference.Prediction) error {
	if t.err != nil {
		return t.err
	}
	p.Outputs, p.Waited, p.Computed, p.Batch = t.out, t.waited, t.computed, t.batch
	if len(p.Wanted) == 0 {
		return nil
	}
	p.Outputs = make([]tensor.Tensor, 0, len(p.Wanted))
	for _, name := range p.Wanted {
		i := slices.IndexFunc(t.out, func(o tensor.Tensor) bool { return o.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: model %q gave no output %q", inference.ErrInternal, t.v.desc.Name, name)
		}
		p.Outputs = append(p.Outputs, t.out[i])
	}
	return nil
}

// ended is the error of a request whose context has ended.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: while the prediction waited", inference.ErrDeadline)
	}
	return inference.ErrCancelled
}
