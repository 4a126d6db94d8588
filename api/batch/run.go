package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// run is one leased batch on its way through this process.
type run struct {
	w    *worker
	wake chan struct{} // somebody may have asked to cancel it

	// ctx ends with the reason why the lines that run shall end, too.
	ctx context.Context //nolint:containedctx // of a life that no call bounds
	end context.CancelCauseFunc

	mu      sync.Mutex
	batch   Batch // the run's goroutine changes all of it but the counts, which the collector changes
	changed bool  // since it was saved

	journal *journal
}

// Why a run ends before its last line.
var (
	errStopping  = errors.New("the process stops")
	errCancelled = errors.New("the batch was cancelled")
	errExpired   = errors.New("the batch's time is over")
)

func newRun(w *worker, b Batch) *run {
	r := &run{w: w, batch: b, wake: make(chan struct{}, 1)}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	return r
}

// now is a copy of the batch with the counts of this moment.
func (r *run) now() Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batch
}

// guard is do without panics.
func (r *run) guard() (err error) {
	defer r.end(nil)
	defer func() {
		if v := recover(); v != nil {
			r.w.panicked(v)
			err = fmt.Errorf("a bug: %v", v)
		}
		if r.journal != nil {
			err = errors.Join(err, r.journal.close())
		}
		if errors.Is(err, ErrLost) {
			r.forget()
		}
	}()
	return r.do()
}

// do takes the batch from where it stands to its end.
func (r *run) do() error {
	unwatch := r.watch()
	defer unwatch()
	if r.batch.Status == StatusValidating {
		if over, err := r.validate(unwatch); over || err != nil {
			return err
		}
	}
	if err := r.open(); err != nil {
		return err
	}
	if r.batch.Status == StatusInProgress {
		outcome, err := r.lines()
		if err != nil {
			return err
		}
		unwatch()
		if err := r.finalize(outcome); err != nil {
			return err
		}
	}
	unwatch()
	return r.finish()
}

// set changes the batch.
func (r *run) set(change func(*Batch)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.batch)
	r.changed = true
}

// save writes the batch. Where somebody asked to cancel it, the run ends.
func (r *run) save() error {
	r.mu.Lock()
	b := r.batch
	r.changed = false
	r.mu.Unlock()
	ctx, cancel := storeContext()
	defer cancel()
	cancelling, err := r.w.store.SaveBatch(ctx, &b)
	if err == nil {
		r.cancelling(cancelling)
	}
	return err
}

func (r *run) cancelling(at time.Time) {
	if at.IsZero() {
		return
	}
	r.mu.Lock()
	r.batch.Cancelling = at
	r.mu.Unlock()
	r.end(errCancelled)
}

// watch saves progress and looks for what ends the run, until it is called off.
func (r *run) watch() (off func()) {
	r.cancelling(r.batch.Cancelling)
	ctx, cancel := context.WithCancel(r.w.ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(saveEvery)
		defer tick.Stop()
		expiry := time.NewTimer(time.Until(r.batch.Expires))
		defer expiry.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-expiry.C:
				r.end(errExpired)
			case <-tick.C:
				r.check()
			case <-r.wake:
				r.check()
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		wait.Wait()
	})
}

// check saves what changed, or asks how the batch stands.
func (r *run) check() {
	r.mu.Lock()
	changed, b := r.changed, r.batch
	r.mu.Unlock()
	var err error
	if changed {
		err = r.save()
	} else {
		ctx, cancel := storeContext()
		defer cancel()
		var stored Batch
		if stored, err = r.w.store.FindBatch(ctx, b.Tenant, b.ID); err == nil {
			r.cancelling(stored.Cancelling)
		}
	}
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrUnknown): // forgotten, with the tenant
		r.end(ErrLost)
	case err != nil: // the lines are in the journal; the store is asked again
		r.w.config.Failed(fmt.Errorf("save the batch %s: %w", b.ID, err))
	}
}

// validate reads the input. over: the batch has ended.
func (r *run) validate(unwatch func()) (over bool, err error) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.w.ctx, func() { cancel(errStopping) })()
	v, err := r.w.validate(ctx, &r.batch)
	switch {
	case errors.Is(err, errCancelled), errors.Is(err, errExpired): // before there was a line: there are no files
		unwatch()
		status := StatusCancelled
		if errors.Is(err, errExpired) {
			status = StatusExpired
		}
		return true, r.over(status, nil)
	case errors.Is(err, fs.ErrNotExist):
		v.errors = []LineError{{Code: fileGone, Param: "input_file_id", Message: "the bytes of the input file are gone"}}
	case err != nil:
		return false, err
	}
	if len(v.errors) > 0 {
		unwatch()
		r.set(func(b *Batch) { b.Errors = v.errors })
		return true, r.over(StatusFailed, nil)
	}
	if names := r.w.config.Models; names != nil && v.model == "" {
		if all := names(); len(all) > 0 {
			v.model = all[0]
		}
	}
	r.set(func(b *Batch) {
		b.Status, b.Started, b.Total, b.Model = StatusInProgress, time.Now(), v.lines, v.model
	})
	return false, r.save()
}

// open reads what is done already.
func (r *run) open() error {
	var done, failed int
	var usage Usage
	var err error
	r.journal, err = openJournal(r.w.folder.journal(r.batch.ID), r.w.folder.lines(&r.batch), func(rec record) {
		if rec.succeeded {
			done++
			usage.add(usageOf(rec.text))
		} else {
			failed++
		}
	})
	if err == nil {
		r.set(func(b *Batch) { b.Completed, b.Failed, b.Usage = done, failed, usage })
	}
	return err
}

// lines runs what is not done, and returns what the batch has come to.
func (r *run) lines() (outcome Status, err error) {
	file, err := r.w.folder.open(r.batch.Tenant, r.batch.Input)
	if err != nil {
		return "", err
	}
	defer file.Close()
	starting, cancel := context.WithCancel(r.ctx)
	defer cancel()
	defer context.AfterFunc(r.w.ctx, cancel)()

	most := r.w.config.Limits.Concurrency
	results := make(chan record, most)
	var collector sync.WaitGroup
	collector.Go(func() { r.collect(results) })
	err = r.startLines(starting, newLineReader(file, r.w.config.Limits.LineBytes), results)
	close(results)
	collector.Wait()
	b := r.now()
	switch cause := context.Cause(r.ctx); {
	case err != nil:
		return "", err
	case b.Completed+b.Failed == b.Total:
		return StatusCompleted, nil
	case errors.Is(cause, errCancelled):
		return StatusCancelled, nil
	case errors.Is(cause, errExpired):
		return StatusExpired, nil
	case cause != nil:
		return "", cause
	}
	return "", errStopping
}

// startLines starts the lines that are not done, a few at a time, and waits for all that were started.
func (r *run) startLines(ctx context.Context, in *lineReader, results chan<- record) error {
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, r.w.config.Limits.Concurrency)
	done := &journal{done: slices.Clone(r.journal.done)} // the collector changes the journal's own
	for index := 0; ; index++ {
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if done.isDone(index) {
			continue
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if r.ctx.Err() != nil { // a line that the end of the run freed; ctx hears of it a moment later
			return nil
		}
		l, wrong := parseLine(bytes.Clone(text), r.batch.Endpoint)
		if wrong != nil && wrong.Code == lineInvalidJSON {
			results <- unreadable(index, in.number, text, wrong)
			<-places
			continue
		}
		if wrong != nil {
			return fmt.Errorf("the input changed after its validation: %w", wrong)
		}
		l.index, l.number = index, in.number
		running.Go(func() {
			defer func() { <-places }()
			if rec, ok := r.answer(ctx, &l); ok {
				results <- rec
			}
		})
	}
}

// How a line that was refused tries again.
const (
	leastWait   = 50 * time.Millisecond
	longestWait = time.Minute      // a budget may be raised before its day is over
	tenantWait  = 30 * time.Second // for a tenant that may not call now
	maxFaults   = 3                // answers that a bug or an upstream spoiled
)

// answer runs a line until it has an answer; false: it has none, since the run or the process ends.
func (r *run) answer(ctx context.Context, l *line) (record, bool) {
	for faults := 0; r.w.gate.enter(ctx, r.batch.Tenant); {
		rep := reply{wait: tenantWait}
		caller, known := r.w.config.Callers.Returned(r.batch.Tenant, r.batch.Key, time.Now())
		if known {
			rep = r.w.ask(l, r.batch.Endpoint, caller, r.ctx.Done())
		}
		r.w.gate.leave()
		switch {
		case rep.succeeded():
			return rep.record(l), true
		case r.ctx.Err() != nil: // it was cancelled
			return record{}, false
		case known && !rep.passes(&faults):
			return rep.record(l), true
		}
		r.w.counts.refused.Add(1)
		if !pause(ctx, min(max(rep.wait, leastWait), longestWait)) {
			return record{}, false
		}
	}
	return record{}, false
}

// passes reports whether trying again may succeed: after a refusal for want of capacity or quota always, after a
// fault a few times.
func (r *reply) passes(faults *int) bool {
	switch {
	case r.wait == 0 || r.status < 429:
		return false
	case r.status == 429 || r.status == 503:
		return true
	}
	*faults++
	return *faults < maxFaults
}

// pause waits; false where ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// collect writes answers into the journal. Those that come while one sync runs share the next.
func (r *run) collect(results <-chan record) {
	for first := range results {
		records := []record{first}
		for more := true; more && len(records) < cap(results); {
			select {
			case rec, open := <-results:
				if more = open; open {
					records = append(records, rec)
				}
			default:
				more = false
			}
		}
		if err := r.journal.append(records); err != nil {
			r.end(err)
			for range results { // there may be no waiter left
			}
			return
		}
		r.set(func(b *Batch) { r.w.count(b, records) })
	}
}

func (w *worker) count(b *Batch, records []record) {
	for _, rec := range records {
		if !rec.succeeded {
			b.Failed++
			w.counts.failed.Add(1)
			continue
		}
		b.Completed++
		b.Usage.add(usageOf(rec.text))
		w.counts.completed.Add(1)
	}
}

// forget deletes what a batch that is not known any more has left.
func (r *run) forget() {
	ctx, cancel := storeContext()
	defer cancel()
	if known, err := r.w.store.HasBatch(ctx, r.batch.ID); err == nil && !known {
		if err := removeIfThere(r.w.folder.journal(r.batch.ID)); err != nil {
			r.w.config.Failed(fmt.Errorf("delete a journal: %w", err)) // the sweep does it
		}
	}
}
