package openai

import (
	"context"
	"errors"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/decision"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// decisionEndpoint says how its requests are read, and reading says how the answer is written.
type decisionEndpoint struct {
	service
	read func(*job.Body, *models.Model) (*decision.Request, *api.Error)
}

// decisionsEndpoint is OpenAI's Decisions API.
var decisionsEndpoint = decisionEndpoint{service{route: routeDecisions, upstream: "/decisions", prefix: "decision-"}, decision.Read}

// systemOneEndpoint is the System One format: TypeSafe's, and llama.cpp's, Ollama's and vLLM's.
var systemOneEndpoint = decisionEndpoint{service{route: routeSystemOne, upstream: "/systemone", prefix: "decision-"}, decision.ReadSystemOne}

// decided answers requests for decisions, each once under its idempotency key.
func decided(e *decisionEndpoint) func(*call) *api.Error {
	return func(c *call) *api.Error { return c.key.once(&e.service, (&deciding{call: c, endpoint: e}).answer) }
}

// deciding is a call that asks how probable answers are.
type deciding struct {
	*call
	endpoint *decisionEndpoint

	found    []int         // of the prompts of questions, tokens that were cached
	computed time.Duration // of the compute pool
	admitted time.Time     // the first question
}

func (c *deciding) answer() *api.Error {
	o, fault := c.question()
	if fault != nil {
		return fault
	}
	return c.lease.withFailover(o, func(o *job.Body) *api.Error { return c.answerBy(o) })
}

// answerBy has the model that a request names, in the version that is chosen, answer it.
func (c *deciding) answerBy(o *job.Body) *api.Error {
	e := c.endpoint
	m, fault := c.resolve(o.Object)
	if fault != nil {
		return fault
	}
	m = brownoutOf(c.call).model(m, o.Notes)
	switch {
	case m.Upstream != nil:
		if m, fault = c.lease.take(m, o, nil, e.route); fault != nil {
			return fault
		}
		defer c.lease.release()
		r := relaying{call: c.call, Request: &relay.Request{Route: e.route, Prefix: e.prefix, Model: m, Asked: o, Sent: o.Object, Path: e.upstream}}
		return r.answer()
	case m.Kind() == models.KindEmbedding:
		return wrongKind(m)
	}
	defer c.tellLoad(m)
	t, fault := c.termsReader().Read(o.Object, c.caller.Tenant)
	if fault != nil {
		return fault
	}
	if m, fault = c.lease.take(m, o, &t, e.route); fault != nil {
		return fault
	}
	defer c.lease.release()
	if fault = c.moderator.check(m, o); fault != nil {
		return fault
	}
	who := c.holder(m)
	p, fault := c.read(o, m, who)
	if fault != nil {
		c.lease.failOverUnread(fault)
		c.tellRemaining(m)
		return fault
	}
	p.ID, p.Price = e.prefix+c.id, m.Price.OfClass(t.Class)
	c.name(p.RequestID)
	if !c.lease.canFailOver() {
		api.ReleaseBody(c.ctx)
	}
	warn(c.ctx, o.Notes)
	if fault = c.run(p, t, who); fault != nil && c.started {
		c.lease.failOver(fault)
	}
	return fault
}

// read reads the body within what the tenant's limits of one request allow.
func (c *deciding) read(o *job.Body, m *models.Model, who quota.Holder) (*decision.Request, *api.Error) {
	ended := c.works()
	p, fault := c.endpoint.read(o, m)
	if fault == nil {
		fault = c.pair(p, o, m)
	}
	ended()
	c.releasePermit()
	if fault != nil {
		return nil, fault
	}
	if err := who.Check(int64(p.Longest()), 0); err != nil {
		return nil, meter.Fault(err)
	}
	return p, nil
}

// run reserves, has the questions computed, and answers.
func (c *deciding) run(p *decision.Request, t priority.Terms, who quota.Holder) (fault *api.Error) {
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	defer s.running.Leave()
	tokens := p.Tokens()
	paid, fault, over := c.pay(who, quota.Ask{Input: int64(tokens), Price: p.Price})
	if over {
		return fault
	}
	r := c.begin(edge.RequestStart{ID: p.ID, Endpoint: c.endpoint.route, Model: p.Model.ID, Version: p.Model.Version, Class: t.Class, Prompts: p.Len(), PromptTokens: tokens, Parsed: p.Parsed})
	fault = internalError("panic") // which is on its way to the boundary that answers it, where nothing else is noted
	defer func() { c.ended(p, r, fault, paid) }()
	fault = c.decide(p, t)
	return fault
}

// decide asks the questions and writes the answer.
func (c *deciding) decide(p *decision.Request, t priority.Terms) *api.Error {
	logs, fault := c.measure(p, t)
	if fault != nil {
		return fault
	}
	body, fault := p.AppendAnswer(nil, logs, decision.Usage{Input: p.Tokens(), Cached: p.Cached(c.found)})
	if fault == nil {
		c.ctx.SetContentType("application/json")
		c.ctx.Response.SetBodyRaw(body)
	}
	return fault
}

// measure gives the log-probabilities of the options, by question: of a language model wave by wave.
func (c *deciding) measure(p *decision.Request, t priority.Terms) (logs [][]float64, fault *api.Error) {
	if p.Head() {
		return c.byHead(p, t)
	}
	ctx, cancel := c.context()
	defer cancel(nil)
	for from := 0; from < p.Len(); {
		to := p.Wave(from)
		more, err := c.wave(ctx, p, t, from, to)
		if err != nil {
			if fault := c.server.config.Hooks.Interrupted(p.Model.ID, context.Cause(ctx)); fault != nil {
				return nil, fault
			}
			return nil, edge.Fault(err)
		}
		logs, from = append(logs, more...), to
		t.WaitUntil = time.Time{} // it waits no more: it has begun
	}
	return logs, nil
}

// wave has questions [from,to) computed, all at one time as far as there is room, and gives the log-probabilities of their options. They
// begin with the same tokens: the first computes these, and the others wait for it and share its blocks.
func (c *deciding) wave(ctx context.Context, p *decision.Request, t priority.Terms, from, to int) (logs [][]float64, err error) {
	requests := make([]*inference.Request, to-from)
	for i := range requests {
		requests[i] = c.request(p, t, from+i)
	}
	streams, err := p.Model.Backend.SubmitAll(requests)
	if err != nil {
		return nil, err
	}
	for i, st := range streams {
		var one []float64
		if err == nil {
			one, err = measured(ctx, st, requests[i].Given)
			logs = append(logs, one)
		}
		if err != nil {
			st.Cancel(-1)
		}
		c.found = append(c.found, st.Progress().CachedTokens)
		c.computed += st.Compute()
		if at := st.Admitted(); !at.IsZero() && (c.admitted.IsZero() || at.Before(c.admitted)) {
			c.admitted = at
		}
	}
	return logs, err
}

// request is a question as the backend sees it.
func (c *deciding) request(p *decision.Request, t priority.Terms, i int) *inference.Request {
	r := &inference.Request{
		ID: jsonbody.At(p.ID, i), Tenant: c.caller.Tenant.Name, Weight: c.caller.Tenant.Weight, Class: t.Class,
		CacheDomain: c.caller.Tenant.CacheDomain(), DoneBy: t.DoneBy, WaitUntil: t.WaitUntil, Retries: c.retries(), Arrived: c.arrived,
		Prompt: p.Prompt(i), Given: p.Given(i), Marks: p.Marks(i), PromptLogprobs: -1, Sampling: inference.DefaultSampling(),
	}
	if first := t.FirstTokenBy; r.DoneBy.IsZero() || !first.IsZero() && first.Before(r.DoneBy) { // the answer has one part
		r.DoneBy = first
	}
	r.N = len(r.Given)
	for _, ids := range r.Given {
		r.MaxTokens = max(r.MaxTokens, len(ids))
	}
	return r
}

// errUnmeasured: a backend ended a stream without all tokens that it was given, which is a bug of the backend.
var errUnmeasured = errors.New("the stream ended before all options were measured")

// measured waits for a question's end, and sums up the log-probabilities of each option's tokens.
func measured(ctx context.Context, st *inference.Stream, given [][]inference.TokenID) ([]float64, error) {
	logs, came := make([]float64, len(given)), make([]int, len(given))
	var events [64]inference.Event
	for {
		n, done, err := st.Poll(events[:])
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken && e.Choice >= 0 && e.Choice < len(given) {
				logs[e.Choice] += float64(e.Logprob)
				came[e.Choice]++
			}
		}
		if done {
			for i := range given {
				if err == nil && came[i] != len(given[i]) {
					err = errUnmeasured
				}
			}
			return logs, err
		}
		if n > 0 {
			continue
		}
		select {
		case <-st.Wake():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ended settles the bill of a request that has ended, and tells the hooks. What was computed is charged, whether or not the client waited
// for it to the end.
func (c *deciding) ended(p *decision.Request, r *edge.RequestFinish, fault *api.Error, paid *meter.Bill) {
	r.Finished, r.Compute, r.Admitted = time.Now(), c.computed+c.beside, c.admitted
	if fault != nil {
		r.Status, r.Code = fault.Status, fault.Code
	} else {
		r.Status = statusOK
		for range p.Len() {
			r.Reasons = append(r.Reasons, inference.FinishStop)
		}
	}
	use := quota.Use{}
	if (fault == nil || c.computed > 0) && r.Charged() {
		r.CachedTokens = min(p.Cached(c.found), r.PromptTokens)
		use = quota.Use{Ran: true, Input: int64(r.PromptTokens), Cached: int64(r.CachedTokens)}
		r.Cost = p.Price.Cost(use.Input, use.Cached, 0)
	}
	paid.Settle(use)
	if h := c.server.config.Hooks.OnRequestFinish; h != nil {
		if c.caller.Tenant.LogPrompts {
			r.Texts = &edge.Texts{Prompts: p.Texts, PromptBytes: 4 * r.PromptTokens}
		}
		h(*r)
	}
}
