package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

// backgroundTimeout bounds each statement that no caller waits for.
const backgroundTimeout = 30 * time.Second

// tasks is what a DB does without being called, for itself and for the subjects of its tables.
type tasks struct {
	mu       sync.Mutex
	renewals []task
	sweeps   []task
	closings []task

	background context.Context //nolint:containedctx // ends with Close
	stop       context.CancelFunc
	running    sync.WaitGroup
	closing    sync.Once
	closed     error       // what Close returns
	failed     func(error) // hears of failures
}

type task func(context.Context) error

func (t *tasks) begin(ctx context.Context) {
	t.background, t.stop = context.WithCancel(context.WithoutCancel(ctx))
}

func (t *tasks) add(list *[]task, f task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, f)
}

// end runs all that OnClose was told of.
func (t *tasks) end(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, f := range t.closings {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// runAll runs tasks in the order in which they were added, up to the first failure.
func (t *tasks) runAll(ctx context.Context, list *[]task) error {
	t.mu.Lock()
	all := *list
	t.mu.Unlock()
	for _, f := range all {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// OnRenew has f run after each renewal of the lease.
func (t *tasks) OnRenew(f func(context.Context) error) { t.add(&t.renewals, f) }

// OnSweep has f run every minute, to delete rows whose time is over.
func (t *tasks) OnSweep(f func(context.Context) error) { t.add(&t.sweeps, f) }

// OnClose has f run in Close, while the lease is held and the database is open.
func (t *tasks) OnClose(f func(context.Context) error) { t.add(&t.closings, f) }

// Go runs f until the DB is closed, which ends its context and waits for it.
func (t *tasks) Go(f func(context.Context)) { t.running.Go(func() { f(t.background) }) }

// InBackground runs a task that no caller waits for, and reports its failure unless
// the store is being closed.
func (t *tasks) InBackground(ctx context.Context, task func(context.Context) error) (ok bool) {
	limited, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	err := task(limited)
	if err != nil && ctx.Err() == nil {
		t.Failed(err)
	}
	return err == nil
}

// Failed tells of a failure that no caller hears.
func (t *tasks) Failed(err error) { t.failed(err) }

// Stop ends what runs in the background. Nothing renews the lease from then on, as after the death of the process; Close does the rest.
func (t *tasks) Stop() {
	t.stop()
	t.running.Wait()
}
