package openai

import (
	"context"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// poolingEndpoint says how its requests are read, and reading says how the answer
// is written. What lies between is the same for all of them.
type poolingEndpoint struct {
	service
	takes func(models.Kind) bool
	// lowers: a smaller model may answer in a brown-out. Vectors of two models
	// cannot be compared, so that no other model ever gives a vector.
	lowers bool
	read   func(pooling.Rules, *job.Body, *models.Model) (*pooling.Request, *api.Error)
}

// pool is a call of a model that reads texts and answers with vectors or scores.
type pool struct {
	*call
	endpoint *poolingEndpoint
}

// answer is the life of a request to a pooling model up to its answer.
func (c *pool) answer() *api.Error {
	o, fault := c.question()
	if fault != nil {
		return fault
	}
	return c.lease.withFailover(o, func(o *job.Body) *api.Error { return c.answerBy(o) })
}

// answerBy has the model that a request names, in the version that is chosen, answer it.
func (c *pool) answerBy(o *job.Body) *api.Error {
	e := c.endpoint
	m, fault := c.resolve(o.Object)
	if fault != nil {
		return fault
	}
	if e.lowers {
		m = brownoutOf(c.call).model(m, o.Notes)
	}
	switch {
	case m.Upstream != nil && e.upstream == "":
		return tokenizesHere(m)
	case m.Upstream != nil:
		if m, fault = c.lease.take(m, o, nil, e.route); fault != nil {
			return fault
		}
		defer c.lease.release()
		r := relaying{call: c.call, Request: &relay.Request{Route: e.route, Prefix: e.prefix, Writes: e.writes, Model: m, Asked: o, Sent: o.Object, Path: e.upstream}}
		return r.answer()
	case !e.takes(m.Kind()):
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
	p, fault := e.read(c.server.config.pooling(), o, m)
	c.releasePermit()
	who := c.holder(m)
	if fault == nil {
		if err := who.Check(int64(p.Longest()), 0); err != nil {
			fault = meter.Fault(err)
		}
	}
	if fault != nil {
		c.lease.failOverUnread(fault)
		c.tellRemaining(m)
		return fault
	}
	p.Model, p.Price, p.ID, p.Name, p.Arrived = m, m.Price.OfClass(t.Class), e.prefix+c.id, e.prefix+c.name(p.RequestID), c.arrived
	if !c.lease.canFailOver() {
		api.ReleaseBody(c.ctx)
	}
	warn(c.ctx, o.Notes)
	if fault = c.run(p, t, who); fault != nil && c.started {
		c.lease.failOver(fault)
	}
	return fault
}

// run reserves, has the texts pooled, and answers.
func (c *pool) run(p *pooling.Request, t priority.Terms, who quota.Holder) *api.Error {
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
	r := c.begin(edge.RequestStart{ID: p.ID, Endpoint: c.endpoint.route, Model: p.Model.ID, Version: p.Model.Version, Class: t.Class, Prompts: len(p.Texts), PromptTokens: tokens, Parsed: p.Parsed})
	asked := c.embedding(p, t)
	fault = internalError("panic") // which is on its way to the boundary that answers it, where nothing else is noted
	defer func() { c.ended(p, r, asked, fault, paid) }()
	fault = c.write(p, asked)
	return fault
}

func (c *pool) write(p *pooling.Request, asked *inference.Embedding) *api.Error {
	if len(p.Texts) > 0 {
		if fault := embed(c.call, p.Model, asked); fault != nil {
			return fault
		}
		if fault := pooling.Check(p.Model.Pooler, asked); fault != nil {
			return fault
		}
	}
	c.ctx.SetContentType("application/json")
	c.ctx.Response.SetBodyRaw(p.Answer.AppendAnswer(nil, p, asked.Vectors))
	return nil
}

// embedding is the request as the embedder sees it.
func (c *pool) embedding(p *pooling.Request, t priority.Terms) *inference.Embedding {
	e := textsOf(c.call, p.ID, t)
	e.Texts, e.Types = p.Texts, p.Types
	return e
}

// embed has the texts pooled; a hang-up or a shutdown ends that.
func embed(c *call, m *models.Model, asked *inference.Embedding) *api.Error {
	ctx, cancel := c.context()
	defer cancel(nil)
	err := m.Pooler.Embedder.Embed(ctx, asked)
	if err == nil {
		return nil
	}
	if fault := c.server.config.Hooks.Interrupted(m.ID, context.Cause(ctx)); fault != nil {
		return fault
	}
	return edge.Fault(err)
}

// ended settles the bill of a request that has ended, and tells the hooks. What was
// computed for is charged, whether or not somebody waited for it to the end.
func (c *pool) ended(p *pooling.Request, r *edge.RequestFinish, asked *inference.Embedding, fault *api.Error, paid *meter.Bill) {
	r.Finished, r.Compute = time.Now(), asked.Computed+c.beside
	if fault != nil {
		r.Status, r.Code = fault.Status, fault.Code
	} else {
		r.Status = statusOK
		for range p.Texts {
			r.Reasons = append(r.Reasons, inference.FinishStop)
		}
	}
	use := quota.Use{}
	if (fault == nil || asked.Computed > 0) && r.Charged() {
		r.Admitted = r.Submitted.Add(asked.Waited)
		use = quota.Use{Ran: true, Input: int64(r.PromptTokens)}
		r.Cost = p.Price.Cost(use.Input, 0, 0)
	}
	paid.Settle(use)
	if h := c.server.config.Hooks.OnRequestFinish; h != nil {
		if c.caller.Tenant.LogPrompts {
			r.Texts = &edge.Texts{Prompts: p.PromptTexts, PromptBytes: 4 * r.PromptTokens}
		}
		h(*r)
	}
}
