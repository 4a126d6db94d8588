package llm

import (
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

// What waits is counted by Engine.precheck: requests on their way to the step loop,
// in its inbox and in the scheduler's waiting queue. Submit asks the precheck on its
// caller's goroutine, so that a client whose stream is refused gets the refusal's
// status, and one tenant's calls cannot fill the inbox. A request is counted from
// Submit until its first step or its end, which is never less than the
// scheduler's own count: what has passed here is not refused there. Engine.mu
// guards the precheck.

// reserve counts the requests of a call, or refuses all of them.
func (e *Engine) reserve(rs []*inference.Request) ([]admission.Item, error) {
	if err := e.inbox.refuses(); err != nil {
		return nil, err
	}
	items := make([]admission.Item, len(rs))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, r := range rs {
		q := schedulerRequest(r, e.opts.Speculate)
		items[i] = e.estimates.Item(&q)
	}
	return items, e.precheck.Enter(time.Now().UnixNano(), items)
}

// unreserve takes back what reserve counted.
func (e *Engine) unreserve(items []admission.Item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range items {
		e.precheck.Leave(time.Now().UnixNano(), &items[i], false)
	}
}

// leaveWaiting notes that a job waits no more, once: it was served, or it ended.
func (e *Engine) leaveWaiting(j *job, served bool) {
	if !j.waits {
		return
	}
	j.waits = false
	e.mu.Lock()
	e.precheck.Leave(time.Now().UnixNano(), &j.item, served)
	e.mu.Unlock()
}
