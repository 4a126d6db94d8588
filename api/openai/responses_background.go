package openai

import (
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

// backgroundRuns are the responses that this process computes without their clients.
type backgroundRuns struct {
	lookEvery time.Duration // lookForCancelEvery; tests change it before the first run

	mu   sync.Mutex
	runs map[backgroundKey]*backgroundRun
	past pastEvents
}

type backgroundKey struct{ tenant, id string }

// backgroundRun is one of them.
type backgroundRun struct {
	once   sync.Once
	cancel chan struct{} // closed when nobody wants the response any more
	ended  chan struct{} // closed once its end is stored
	events *eventLog     // nil: its request asked for no stream
}

func (r *backgroundRun) stop() { r.once.Do(func() { close(r.cancel) }) }

func (b *backgroundRuns) add(k backgroundKey) *backgroundRun {
	r := &backgroundRun{cancel: make(chan struct{}), ended: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs == nil {
		b.runs = map[backgroundKey]*backgroundRun{}
	}
	b.runs[k] = r
	return r
}

func (b *backgroundRuns) find(k backgroundKey) *backgroundRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[k]
}

// end lets go of a run, and of those who wait for its end.
func (b *backgroundRuns) end(k backgroundKey, r *backgroundRun) {
	b.mu.Lock()
	delete(b.runs, k)
	if r.events != nil {
		r.events.close()
		b.past.keep(k, r.events)
	}
	b.mu.Unlock()
	close(r.ended)
}

// lookForCancelEvery is how often a run looks whether another process was asked to cancel it.
const lookForCancelEvery = 2 * time.Second

// runInBackground answers with the response as it is now, or with its events as they come, and
// leaves the generation to a goroutine of its own, which ends it.
func (c *call) runInBackground(g *generation.Generation, run *backgroundRun) *api.Error {
	s := c.server
	object, kept := responses.Begin(g.Job)
	if !kept {
		return responsesUnavailable()
	}
	var body *generation.EventStream
	if g.Job.Params.Stream {
		body = generation.NewEventStream(g, func() {})
		c.beginEvents(run, body.Encoder)
	} else {
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(object)
	}
	held := c.held
	c.held = nil
	go func() {
		defer s.running.Leave()
		defer func() {
			if held != nil {
				held.Release()
			}
			s.background.end(backgroundKeyOf(g.Job), run)
		}()
		s.compute(g, run, body)
	}()
	if body != nil {
		c.stream(c.follow(run.events, 0))
	}
	return nil
}

// compute waits for the end of a response in the background, and stores it. body is its events;
// nil: none are wanted.
func (s *Server) compute(g *generation.Generation, run *backgroundRun, body *generation.EventStream) {
	defer g.End()
	over := make(chan struct{})
	defer close(over)
	go s.lookForCancel(backgroundKeyOf(g.Job), run, over)
	if body != nil {
		_ = run.events.copy(body) // the encoder has kept the end, whatever broke the stream
		return
	}
	fault := g.Run()
	if fault == nil {
		g.Answer() // its encoder keeps it
		return
	}
	responses.KeepFault(g.Job, fault)
}

// lookForCancel ends a run that the store says is cancelled or deleted.
func (s *Server) lookForCancel(k backgroundKey, run *backgroundRun, over <-chan struct{}) {
	ticker := time.NewTicker(s.background.lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		ctx, cancel := historyContext()
		r, err := s.config.Responses.Store.FindResponse(ctx, k.tenant, k.id)
		cancel()
		if err == nil && r.Status == conversation.Cancelled {
			run.stop()
			return
		}
	}
}

func backgroundKeyOf(j *job.Job) backgroundKey { return backgroundKey{j.Tenant.Name, j.ID} }

// cancelResponse cancels a response in the background, here or in another process. One that
// has ended stays as it is.
func (c *call) cancelResponse() *api.Error {
	r, fault := c.findResponse()
	if fault != nil {
		return fault
	}
	if run := c.server.background.find(backgroundKey{r.Tenant, r.ID}); run != nil {
		run.stop()
		select {
		case <-run.ended:
		case <-time.After(historyTimeout):
			return responsesUnavailable()
		}
		if r, fault = c.findResponse(); fault != nil {
			return fault
		}
	}
	if !inBackground(r.Object) {
		return api.RefuseParam("invalid_value", "response_id", "the response %s was not asked for with background: true, so there is nothing to cancel", r.ID)
	}
	if !r.Finished() && !r.Lost {
		r.Object = withStatus(r.Object, conversation.Cancelled, jsonbody.Null)
		r.Status = conversation.Cancelled
		ctx, cancel := historyContext()
		defer cancel()
		if err := c.server.config.Responses.Store.KeepResponse(ctx, r, c.server.config.Responses.TTL); err != nil {
			return responsesUnavailable()
		}
	}
	c.ctx.SetContentType("application/json")
	c.ctx.SetBody(objectOf(r))
	return nil
}

func inBackground(object []byte) bool {
	o, fault := jsonbody.ParseObject("", object, jsonbody.MaxFields)
	if fault != nil {
		return false
	}
	return o.Flag("background", false, &fault)
}
