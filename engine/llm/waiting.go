package llm

import (
	"weir/internal/inference"
	"weir/scheduler/admission"
)

// waiting counts what waits: requests on their way to the step loop, in its inbox
// and in the scheduler's waiting queue. Submit applies the queue's bounds to these
// counts on its caller's goroutine, so that a client whose stream is refused gets
// the refusal's status, and one tenant's calls cannot fill the inbox. A request is
// counted from Submit until its first step or its end, which is never less than
// the scheduler's own count: what has passed here is not refused there.
// Engine.mu guards all of it.
type waiting struct {
	all   admission.Waiting
	flows map[flow]admission.Waiting
}

// flow is one tenant in one class, as the scheduler's queue divides them.
type flow struct {
	tenant string
	class  inference.Class
}

func flowOf(r *inference.Request) flow { return flow{r.Tenant, r.Class} }

func countOf(r *inference.Request) admission.Waiting {
	return admission.Waiting{Requests: 1, Choices: r.N, Tokens: len(r.Prompt)}
}

// enter counts the requests of one call, or reports which bound they exceed
// together.
func (w *waiting) enter(b admission.Bounds, rs []*inference.Request) error {
	calls := make(map[flow]admission.Waiting, 1)
	for _, r := range rs {
		more := calls[flowOf(r)]
		more.Add(countOf(r))
		calls[flowOf(r)] = more
	}
	before := w.all
	for f, more := range calls {
		if err := b.Room(w.all, w.flows[f], more); err != nil {
			w.all = before
			return err
		}
		w.all.Add(more)
	}
	if w.flows == nil {
		w.flows = make(map[flow]admission.Waiting)
	}
	for f, more := range calls {
		own := w.flows[f]
		own.Add(more)
		w.flows[f] = own
	}
	return nil
}

// leave takes one request out of the counts.
func (w *waiting) leave(r *inference.Request) {
	f, less := flowOf(r), countOf(r)
	w.all.Sub(less)
	own := w.flows[f]
	own.Sub(less)
	if own.Requests == 0 {
		delete(w.flows, f)
		return
	}
	w.flows[f] = own
}

// reserve counts the requests of a call, or refuses all of them.
func (e *Engine) reserve(rs []*inference.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusesAll(); err != nil {
		return err
	}
	return e.waiting.enter(e.sched.Bounds(), rs)
}

// unreserve takes back what reserve counted.
func (e *Engine) unreserve(rs []*inference.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rs {
		e.waiting.leave(r)
	}
}

// leaveWaiting notes that a job waits no more, once.
func (e *Engine) leaveWaiting(j *job) {
	if !j.waits {
		return
	}
	j.waits = false
	e.mu.Lock()
	e.waiting.leave(j.req)
	e.mu.Unlock()
}
