// Package stored keeps responses: clients read them again, go on from them, and have them computed in the background.
package stored

import (
	"errors"
	"sync"
	"time"

	"weir/api"
	"weir/api/conversation"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/responses"
)

// A response with background: true is answered at once and computed without its client. It
// is in the store from its beginning on; clients look there for its end, and may cancel it
// from any process that shares the store.

// Runs are the responses that this process computes without their clients.
type Runs struct {
	LookEvery time.Duration // lookForCancelEvery; tests change it before the first run

	mu   sync.Mutex
	runs map[Key]*Run
	past pastEvents
}

// Key names a response of a tenant.
type Key struct{ tenant, id string }

// Run is one of them.
type Run struct {
	once   sync.Once
	Cancel chan struct{} // closed when the response is not wanted any more
	ended  chan struct{} // closed once its end is stored
	Events *EventLog     // nil: its request asked for no stream
}

func (r *Run) stop() { r.once.Do(func() { close(r.Cancel) }) }

// Add begins a run.
func (b *Runs) Add(k Key) *Run {
	r := &Run{Cancel: make(chan struct{}), ended: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs == nil {
		b.runs = map[Key]*Run{}
	}
	b.runs[k] = r
	return r
}

func (b *Runs) find(k Key) *Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[k]
}

// End lets go of a run, and of those who wait for its end.
func (b *Runs) End(k Key, r *Run) {
	b.mu.Lock()
	delete(b.runs, k)
	if r.Events != nil {
		r.Events.close()
		b.past.keep(k, r.Events)
	}
	b.mu.Unlock()
	close(r.ended)
}

// stop ends a run and waits until its end is stored; ran is false where there is none.
func (b *Runs) stop(k Key) (ran bool, fault *api.Error) {
	r := b.find(k)
	if r == nil {
		return false, nil
	}
	r.stop()
	select {
	case <-r.ended:
		return true, nil
	case <-time.After(historyTimeout):
		return true, Unavailable()
	}
}

// lookForCancelEvery is how often a run looks whether another process was asked to cancel it.
const lookForCancelEvery = 2 * time.Second

// Run answers with the response as it is now, or with its events as they come, and
// leaves the generation to a goroutine of its own, which ends it.
func (c *Call) Run(g *generation.Generation, run *Run, release func()) (*Follower, *api.Error) {
	s := c.Responses
	object, kept := responses.Begin(g.Job)
	if !kept {
		return nil, Unavailable()
	}
	var body *generation.EventStream
	if g.Job.Params.Stream {
		body = generation.NewEventStream(g, func() {})
		c.BeginEvents(run, body.Encoder)
	} else {
		c.Ctx.SetContentType("application/json")
		c.Ctx.SetBody(object)
	}
	go func() {
		defer s.running.Leave()
		defer func() {
			release()
			s.Runs.End(KeyOf(g.Job), run)
		}()
		s.compute(g, run, body)
	}()
	if body != nil {
		return c.Follow(run.Events, 0), nil
	}
	return nil, nil //nolint:nilnil // the answer is no stream
}

// compute waits for the end of a response in the background, and stores it. body is its events;
// nil: none are wanted.
func (s *Responses) compute(g *generation.Generation, run *Run, body *generation.EventStream) {
	defer g.End()
	over := make(chan struct{})
	defer close(over)
	go s.LookForCancel(KeyOf(g.Job), run, over)
	if body != nil {
		_ = run.Events.Copy(body) // the encoder has kept the end, whatever broke the stream
		return
	}
	fault := g.Run()
	if fault == nil {
		g.Answer() // its encoder keeps it
		return
	}
	responses.KeepFault(g.Job, fault)
}

// LookForCancel ends a run that the store says is cancelled or deleted.
func (s *Responses) LookForCancel(k Key, run *Run, over <-chan struct{}) {
	ticker := time.NewTicker(s.Runs.LookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		ctx, cancel := historyContext()
		r, err := s.config.Store.FindResponse(ctx, k.tenant, k.id)
		cancel()
		if err == nil && r.Status == conversation.Cancelled || errors.Is(err, conversation.ErrUnknown) {
			run.stop()
			return
		}
	}
}

// KeyOf is that of a job.
func KeyOf(j *job.Job) Key { return Key{j.Tenant.Name, j.ID} }

// ServeCancel cancels a response in the background, here or in another process. One that
// has ended stays as it is.
func (c *Call) ServeCancel() *api.Error {
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	ran, fault := c.Responses.Runs.stop(Key{r.Tenant, r.ID})
	if fault == nil && ran {
		r, fault = c.findResponse()
	}
	if fault != nil {
		return fault
	}
	if !inBackground(r.Object) {
		return api.RefuseParam("invalid_value", "response_id", "the response %s was not asked for with background: true, so there is nothing to cancel", r.ID)
	}
	if !r.Finished() && !r.Lost {
		r.Object = WithStatus(r.Object, conversation.Cancelled, jsonbody.Null)
		r.Status = conversation.Cancelled
		ctx, cancel := historyContext()
		defer cancel()
		r.Begun = true
		switch err := c.Responses.config.Store.KeepResponse(ctx, r, c.Responses.config.TTL); {
		case errors.Is(err, conversation.ErrUnknown): // deleted meanwhile
			return c.noResponse()
		case errors.Is(err, conversation.ErrFinished): // meanwhile
			if r, fault = c.findResponse(); fault != nil {
				return fault
			}
		case err != nil:
			return Unavailable()
		}
	}
	c.Ctx.SetContentType("application/json")
	c.Ctx.SetBody(objectOf(r))
	return nil
}

func inBackground(object []byte) bool {
	o, fault := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if fault != nil {
		return false
	}
	return o.Flag("background", false, &fault)
}
