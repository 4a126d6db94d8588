package openai

import (
	"context"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// A pooling endpoint says how its requests are read, and reading says how the answer
// is written. What lies between is the same for all of them.
type poolingEndpoint struct {
	service
	takes func(models.Kind) bool
	// lowers: a smaller model may answer in a brown-out. Vectors of two models
	// cannot be compared, so that no other model ever gives a vector.
	lowers bool
	read   func(*Server, *job.Body, *models.Model) (*pooling, *api.Error)
}

// pooling is a parsed request to a pooling model: the texts that it reads, and how
// the answer is made of what it gives.
type pooling struct {
	id        string // ours, unique
	name      string // what the answer is called; the client's own, where it has one
	requestID string // the body's name for it; "" is none
	model     *models.Model
	price     quota.Price // of its tokens, by the request's class
	texts     [][]inference.TokenID
	types     [][]uint8 // nil: all 0
	answer    poolingAnswer
	arrived   time.Time
	parsed    time.Time // before the texts were tokenised
}

// poolingAnswer writes the answer to a request.
type poolingAnswer interface {
	// appendAnswer may change the vectors, of which there is one for each text, all of
	// the model's dimensions and finite.
	appendAnswer(dst []byte, p *pooling, vectors [][]float32) []byte
}

func (p *pooling) tokens() int {
	n := 0
	for _, ids := range p.texts {
		n += len(ids)
	}
	return n
}

func (p *pooling) longest() int {
	n := 0
	for _, ids := range p.texts {
		n = max(n, len(ids))
	}
	return n
}

// pool is the life of a request to a pooling model up to its answer.
func (c *call) pool(e *poolingEndpoint) *api.Error {
	o, fault := c.question()
	if fault != nil {
		return fault
	}
	return c.orSpared(o, func(o *job.Body) *api.Error { return c.poolBy(e, o) })
}

// poolBy has the model that a request names, in the version that is chosen, answer it.
func (c *call) poolBy(e *poolingEndpoint, o *job.Body) *api.Error {
	m, fault := c.resolve(o.Object)
	if fault != nil {
		return fault
	}
	if e.lowers {
		m = c.brownout().model(m, o.Notes)
	}
	switch {
	case m.Upstream != nil && e.upstream == "":
		return tokenizesHere(m)
	case m.Upstream != nil:
		if m, fault = c.serving(m, o, nil, e.route); fault != nil {
			return fault
		}
		defer c.letGo()
		return c.relay(&relayed{service: &e.service, model: m, asked: o, sent: o.Object, path: e.upstream})
	case !e.takes(m.Kind()):
		return wrongKind(m)
	}
	defer c.tellLoad(m)
	t, fault := c.terms().Read(o.Object, c.caller.Tenant)
	if fault != nil {
		return fault
	}
	if m, fault = c.serving(m, o, &t, e.route); fault != nil {
		return fault
	}
	defer c.letGo()
	if fault = c.moderate(m, o); fault != nil {
		return fault
	}
	p, fault := e.read(c.server, o, m)
	c.endTurn()
	who := c.holder(m)
	if fault == nil {
		if err := who.Check(int64(p.longest()), 0); err != nil {
			fault = meter.Fault(err)
		}
	}
	if fault != nil {
		c.failsToRead(fault)
		c.tellRemaining(m)
		return fault
	}
	p.model, p.price, p.id, p.name, p.arrived = m, m.Price.OfClass(t.Class), e.prefix+c.id, e.prefix+c.name(p.requestID), c.arrived
	if !c.mayBeSpared() {
		api.ReleaseBody(c.ctx)
	}
	warn(c.ctx, o.Notes)
	if fault = c.runPooling(e, p, t, who); fault != nil && c.started {
		c.spares(fault)
	}
	return fault
}

// runPooling reserves, has the texts pooled, and answers.
func (c *call) runPooling(e *poolingEndpoint, p *pooling, t priority.Terms, who quota.Holder) *api.Error {
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	defer s.running.Leave()
	tokens := p.tokens()
	paid, fault := c.reserve(who, quota.Ask{Input: int64(tokens), Price: p.price}, 0)
	if fault != nil {
		return fault
	}
	if fault, answered := c.takeKey(); answered {
		paid.settle(quota.Use{})
		return fault
	}
	c.started = true
	r := &edge.RequestFinish{RequestStart: edge.RequestStart{
		ID: p.id, Endpoint: e.route, Model: p.model.ID, Version: p.model.Version, Arm: c.arm(), Tenant: c.caller.Tenant.Name, Key: c.caller.KeyID(), Class: t.Class,
		Prompts: len(p.texts), PromptTokens: tokens, N: 1, Retries: c.retries(), Arrived: c.arrived, Parsed: p.parsed,
		Submitted: time.Now(), Trace: c.trace,
	}}
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(r.RequestStart)
	}
	asked := c.embedding(p, t)
	fault = internalError("panic") // which is on its way to the boundary that answers it, where nothing else is noted
	defer func() { c.poolingEnded(p, r, asked, fault, paid) }()
	fault = c.answerPooling(p, asked)
	return fault
}

func (c *call) answerPooling(p *pooling, asked *inference.Embedding) *api.Error {
	if fault := c.embed(p.model, asked); fault != nil {
		return fault
	}
	if fault := checkVectors(p.model.Pooler, asked); fault != nil {
		return fault
	}
	c.ctx.SetContentType("application/json")
	c.ctx.Response.SetBodyRaw(p.answer.appendAnswer(nil, p, asked.Vectors))
	return nil
}

// embedding is the request as the embedder sees it. Its answer has one part, so that
// the deadline of the first token is one of the answer.
func (c *call) embedding(p *pooling, t priority.Terms) *inference.Embedding {
	by := t.DoneBy
	if first := t.FirstTokenBy; by.IsZero() || !first.IsZero() && first.Before(by) {
		by = first
	}
	return &inference.Embedding{
		ID: p.id, Tenant: c.caller.Tenant.Name, Weight: c.caller.Tenant.Weight, Class: t.Class,
		DoneBy: by, WaitUntil: t.WaitUntil, Arrived: c.arrived, Retries: c.retries(),
		Texts: p.texts, Types: p.types,
	}
}

// embed has the texts pooled; a hang-up or a shutdown ends that.
func (c *call) embed(m *models.Model, asked *inference.Embedding) *api.Error {
	ctx, cancel := c.context()
	defer cancel(nil)
	err := m.Pooler.Embedder.Embed(ctx, asked)
	if err == nil {
		return nil
	}
	if fault := c.server.interrupted(m.ID, context.Cause(ctx)); fault != nil {
		return fault
	}
	return edge.Fault(err)
}

// poolingEnded settles the bill of a request that has ended, and tells the hooks. What was
// computed for is charged, whether or not somebody waited for it to the end.
func (c *call) poolingEnded(p *pooling, r *edge.RequestFinish, asked *inference.Embedding, fault *api.Error, paid *bill) {
	r.Finished, r.Compute = time.Now(), asked.Computed+c.beside
	if fault != nil {
		r.Status, r.Code = fault.Status, fault.Code
	} else {
		r.Status = statusOK
		for range p.texts {
			r.Reasons = append(r.Reasons, inference.FinishStop)
		}
	}
	use := quota.Use{}
	if (fault == nil || asked.Computed > 0) && r.Charged() {
		r.Admitted = r.Submitted.Add(asked.Waited)
		use = quota.Use{Ran: true, Input: int64(r.PromptTokens)}
		r.Cost = p.price.Cost(use.Input, 0, 0)
	}
	paid.settle(use)
	if h := c.server.config.Hooks.OnRequestFinish; h != nil {
		if c.caller.Tenant.LogPrompts {
			r.Texts = &edge.Texts{Prompts: p.promptTexts, PromptBytes: tokenBytes * r.PromptTokens}
		}
		h(*r)
	}
}

func (p *pooling) promptTexts() []string { return p.model.Texts(p.texts) }
