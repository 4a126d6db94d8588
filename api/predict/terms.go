package predict

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
	"weir/internal/inference"
)

// The headers, and gRPC's metadata, that say how urgent a request is. They override
// Triton's parameters priority and timeout.
const (
	classHeader    = "X-Weir-Class"
	deadlineHeader = "X-Weir-Deadline-Ms"
	schemaHeader   = "X-Weir-Schema"
)

// requestTerms are what a request says of its class and its deadline.
type requestTerms struct {
	priority  int64 // Triton's: 1 is the highest, 0 the server's default
	timeoutUs int64 // Triton's; 0 is none
	class     string
	deadline  string        // milliseconds
	waits     time.Duration // the client, by what its library says; 0: unknown
}

// apply reads the terms into the prediction, within the tenant's bounds.
func (t *requestTerms) apply(j *job) *api.Error {
	who := j.Caller.Tenant
	class := who.Class
	switch {
	case t.class != "":
		k, known := tenant.ParseClass(t.class)
		if !known {
			return api.Refuse("invalid_value", fmt.Sprintf("the header x-weir-class is %s; it must be %s",
				quote(t.class), strings.Join(tenant.ClassNames(), ", ")))
		}
		class = k
	case t.priority == 1:
		class = inference.Interactive
	case t.priority == 2:
		class = inference.Default
	case t.priority > 2:
		class = inference.Batch
	}
	j.p.Class = max(class, who.HighestClass)
	most := edge.Sooner(who.TotalTimeout, time.Duration(min(t.timeoutUs, edge.MaxDeadline.Microseconds()))*time.Microsecond)
	most = edge.Sooner(most, t.waits)
	if t.deadline != "" {
		d, ok := edge.ParseMilliseconds(t.deadline)
		if !ok {
			return api.Refuse("invalid_value", fmt.Sprintf("the header x-weir-deadline-ms is %s; it must be a number of milliseconds above 0 and at most %d",
				quote(t.deadline), edge.MaxDeadline.Milliseconds()))
		}
		most = edge.Sooner(most, d)
	}
	if most > 0 {
		j.p.DoneBy = j.Arrived.Add(most)
	}
	if who.QueueTimeout > 0 {
		j.p.WaitUntil = j.Arrived.Add(who.QueueTimeout)
	}
	return nil
}

var (
	errHungUp  = errors.New("the client closed the connection")
	errStopped = errors.New("the server stops")
)

// watchedContext is the context of a request over HTTP. A watch over its connection costs a
// goroutine, so it begins only when somebody waits for the context's end: models that
// are computed in place do not.
type watchedContext struct {
	call     *call
	aborted  <-chan struct{} // the server ends what runs
	deadline time.Time       // zero: none

	begin sync.Once
	over  chan struct{} // closed by stop; nil where no watch began
	done  chan struct{}

	mu  sync.Mutex
	why error
}

// Deadline implements context.Context.
func (w *watchedContext) Deadline() (time.Time, bool) { return w.deadline, !w.deadline.IsZero() }

// Value implements context.Context.
func (w *watchedContext) Value(any) any { return nil }

// Done implements context.Context.
func (w *watchedContext) Done() <-chan struct{} {
	w.begin.Do(func() {
		w.over, w.done = make(chan struct{}), make(chan struct{})
		go w.watch(w.call.gone())
	})
	return w.done
}

func (w *watchedContext) watch(gone <-chan struct{}) {
	var due <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-gone:
		w.end(errHungUp)
	case <-w.aborted:
		w.end(errStopped)
	case <-due:
		w.end(context.DeadlineExceeded)
	case <-w.over:
	}
}

func (w *watchedContext) end(why error) {
	w.mu.Lock()
	w.why = why
	w.mu.Unlock()
	close(w.done)
}

// stop ends the watch. The context's owner calls it once, after the last use.
func (w *watchedContext) stop() {
	w.begin.Do(func() {}) // from here on none begins
	if w.over != nil {
		close(w.over)
	}
}

func (w *watchedContext) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// Err implements context.Context.
func (w *watchedContext) Err() error {
	switch why := w.cause(); {
	case why == nil:
		return nil
	case errors.Is(why, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return context.Canceled
}
