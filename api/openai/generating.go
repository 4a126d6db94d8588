package openai

import (
	"net/http"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/ollama"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/api/openai/stored"
	"weir/scheduler/quota"
)

// generating is a call whose model generates tokens.
type generating struct {
	*call
	endpoint *endpoint
	asked    *job.Body
	lowered  degradation  // by a brown-out
	chat     *stored.Chat // that is to be kept; nil: it is not
}

// generated answers requests to an endpoint, each once under its idempotency key.
func generated(e *endpoint) func(*call) *api.Error {
	return func(c *call) *api.Error { return c.key.once(&e.service, (&generating{call: c, endpoint: e}).answer) }
}

// answer is the life of a generation request up to its answer, or up to the
// stream that gives it.
func (c *generating) answer() *api.Error {
	o, fault := c.question()
	if fault != nil {
		return fault
	}
	c.asked = o
	if c.endpoint == &responseEndpoint || c.endpoint == &compactEndpoint {
		if fault = c.stored().Recall(o); fault != nil {
			return fault
		}
	}
	if c.endpoint == &chatEndpoint {
		if c.chat, fault = c.stored().WantsChat(o.Object); fault != nil {
			return fault
		}
	}
	m, fault := c.resolve(o.Object)
	if fault != nil {
		return fault
	}
	if c.chat != nil && m.Upstream == nil {
		o.Object = o.Without("store")
	}
	if c.endpoint.idle != nil {
		if answered, fault := c.endpoint.idle(c, m); answered || fault != nil {
			return fault
		}
	}
	c.lowered = brownoutOf(c.call)
	m = c.lowered.model(m, o.Notes)
	fault = c.answerWith(m, len(m.Fallback) > 0)
	for i := 0; i < len(m.Fallback) && c.fallsBack(fault); i++ {
		next, ok := c.fallback(m.Fallback[i], m)
		if !ok {
			continue
		}
		c.ctx.Response.Header.Set("X-Weir-Fallback", next.ID)
		fault = c.answerWith(next, i+1 < len(m.Fallback))
	}
	return fault
}

// fallsBack reports whether another model shall answer: the servers behind a model could not,
// and no client has seen anything of their answer.
func (c *generating) fallsBack(fault *api.Error) bool {
	return fault != nil && (fault.Code == relay.UpstreamUnavailable || fault.Code == relay.NoReplica || fault.Code == relay.NoReplicaInRegion) && !c.server.running.IsDraining()
}

// fallback is a model that answers in another one's place, where the caller may use it.
func (c *generating) fallback(name string, instead *models.Model) (*models.Model, bool) {
	set, fault := c.models()
	if fault != nil {
		return nil, false
	}
	m, ok := set.Find(name)
	if !ok || m.ID == instead.ID {
		return nil, false
	}
	return c.priced(m), m.Upstream != nil || m.Kind() == models.KindGenerate
}

// answerWith has a model answer, and where its candidate fails the stable version.
func (c *generating) answerWith(m *models.Model, more bool) *api.Error {
	return c.lease.withFailover(c.asked, func(o *job.Body) *api.Error { return c.answerBy(m, o, more) })
}

// answerBy has one model answer. more: another one may answer in its place, so that what a
// server behind it refuses for want of room is a fault, and the request is kept until then.
func (c *generating) answerBy(m *models.Model, o *job.Body, more bool) *api.Error {
	if m.Upstream != nil {
		if c.wantsPrefix() {
			return noPrefix("the model " + m.ID + " is served by another server")
		}
		if c.endpoint.upstream == "" {
			return tokenizesHere(m)
		}
		return c.relayAnswer(m, o, more)
	}
	defer c.tellLoad(m)
	if m.Kind() != models.KindGenerate {
		return wrongKind(m)
	}
	t, fault := c.termsReader().Read(o.Object, c.caller.Tenant)
	if fault != nil {
		return fault
	}
	if m, fault = c.lease.take(m, o, &t, c.endpoint.route); fault != nil {
		return fault
	}
	defer c.lease.release()
	if fault = c.moderator.check(m, o); fault != nil {
		return fault
	}
	who := c.holder(m)
	j, fault := c.read(m, o, &who)
	if fault != nil {
		c.tellRemaining(m)
		return fault
	}
	c.complete(j, t)
	if c.wantsPrefix() {
		j.KV = c.caller.KV
		return c.prefill(j)
	}
	took, fault := c.server.grammars.Constrain(j, c.watch)
	c.beside += took
	if fault != nil {
		return j.Explain(fault)
	}
	j.Beside = c.beside
	c.keepResponse(j)
	if c.chat != nil {
		c.chat.Keep(c.server.responses, j)
	}
	if !c.lease.canFailOver() {
		api.ReleaseBody(c.ctx)
	}
	warn(c.ctx, j.Params.Notes)
	if fault = c.run(j, who); fault != nil && c.started && (fault.Status >= statusInternal || fault.Status == http.StatusTooManyRequests) {
		c.lease.failOver(fault)
	}
	return fault
}

// read reads the body into a job, within what the tenant's limits of one request allow.
func (c *generating) read(m *models.Model, o *job.Body, who *quota.Holder) (*job.Job, *api.Error) {
	ended := c.works()
	j, fault := c.endpoint.read(c.server.config.reader(), o, m)
	ended()
	c.releasePermit()
	if fault == nil {
		fault = j.RefuseTokens()
	}
	if fault != nil {
		c.lease.failOverUnread(fault)
		return nil, fault
	}
	return j, c.limitAnswer(j, who)
}

// complete adds to a job what is known of its call beside the body.
func (c *generating) complete(j *job.Job, t priority.Terms) {
	e := c.endpoint
	j.Route, j.NewEncoder, j.Lines = e.route, e.encode, c.route.dialect() == ollamas
	j.ID, j.Name = e.prefix+c.id, e.prefix+c.name(j.Params.RequestID)
	j.Tenant, j.Key = c.caller.Tenant, c.caller.KeyID()
	if c.caller.Peer && len(j.Prompts) == 1 {
		j.KV = c.caller.KV
	}
	j.Arrived, j.Created, j.Trace, j.Retries, j.Counted = c.arrived, c.arrived.Unix(), c.trace, c.retries(), c.caller.Counted
	j.Arm, j.Copied, j.Moderated = c.lease.chosen, c.lease.copied(), c.moderator.report
	j.LoadBegan, j.Loaded = c.lease.loadBegan, c.lease.loaded
	j.Terms, j.KeepsTexts = t, c.caller.Tenant.LogPrompts || j.Arm.Name != ""
	j.Params.IncludeProgress = j.Params.IncludeProgress || string(c.ctx.Request.Header.Peek("X-Weir-Progress")) == "1"
	c.lowered.job(j)
	if r := ollama.RequestOf(j); r != nil {
		keepAlive(c.call, j.Model, r.KeepAlive, j.Params.Notes)
	}
}
