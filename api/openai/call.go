package openai

import (
	"cmp"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/router"
)

const eventStreamType = "text/event-stream; charset=utf-8"

// call is one request on its way through a handler.
type call struct {
	server   *Server
	exchange *edge.Exchange
	ctx      *fasthttp.RequestCtx
	route    *route
	rest     string // of the path, behind the route's prefix
	id       string // ours, unique
	caller   tenant.Caller
	arrived  time.Time
	trace    edge.Trace
	permit   *limiter.Permit // to read a long body; nil for a short one
	beside   time.Duration   // of processors, that the request took beside the engine
	started  bool            // OnRequestStart was called, or would have been

	found *models.Model // that the request names; nil: none, or not read yet

	moderator moderator
	lease     lease // of the version that answers

	internal *edge.InternalRequest // nil: the request has a connection

	key requestKey
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	fault := c.route.serve(c)
	c.tellWork()
	return fault
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) {
	fault.Write(c.ctx)
	reshape(c, fault)
}

// Describe implements edge.Call.
func (c *call) Describe(fault *api.Error, r *edge.Refusal) {
	r.Moderation, r.Arm, r.Started = c.moderator.refusedBy(fault), c.lease.chosen, c.started
	if c.found != nil {
		r.Model, r.Version = c.found.ID, c.found.Version
	}
	if c.lease.held != nil && c.lease.held.Label != "" {
		r.Version = c.lease.held.Label
	}
}

// End implements edge.Call.
func (c *call) End() {
	c.lease.release()
	c.releasePermit()
}

// name is what the client calls the request: its header x-request-id, or else
// own, the body's request_id, or else our id. It is sent back, but is not
// trusted to be unique.
func (c *call) name(own string) string {
	name := cmp.Or(own, c.id)
	if header := c.ctx.Request.Header.Peek("X-Request-Id"); edge.IsPlain(header) {
		name = string(header)
	}
	c.ctx.Response.Header.Set("X-Request-Id", name)
	if c.route.dialect() == anthropics {
		c.ctx.Response.Header.Set("Request-Id", name)
	}
	return name
}

// body takes the request's JSON object apart. Where it needs a permit the call has one from here on.
func (c *call) body() (*job.Body, *api.Error) {
	if err := takesContent(c); err != nil {
		return nil, err
	}
	body := c.ctx.PostBody()
	if c.server.limiter.Needed(len(body)) {
		if fault := c.acquirePermit(); fault != nil {
			return nil, fault
		}
	}
	o, fault := job.ReadBody(body, c.server.config.Strict)
	if fault == nil {
		o.Permit = c.permit
	}
	return o, fault
}

// question reads the body of a request to a model.
func (c *call) question() (*job.Body, *api.Error) {
	o, fault := c.body()
	if fault == nil && c.key.ignored {
		o.Notes.Add("ignored the header %s", edge.KeyHeader)
	}
	return o, fault
}

// acquirePermit waits for a permit.
func (c *call) acquirePermit() (fault *api.Error) {
	c.permit, fault = c.server.limiter.Acquire(c.gone(), c.caller.Tenant.Name)
	return fault
}

// releasePermit gives the call's permit back, if it has one.
func (c *call) releasePermit() {
	c.permit.Release()
	c.permit = nil
}

// header is the value of a request's header, without blanks around it.
func (c *call) header(name string) string {
	return strings.TrimSpace(string(c.ctx.Request.Header.Peek(name)))
}

func (c *call) headerNumber(name string) int64 {
	n, err := strconv.ParseUint(string(c.ctx.Request.Header.Peek(name)), 10, 31)
	if err != nil {
		return 0
	}
	return int64(n)
}

// retries is how often the client says that it has tried before.
func (c *call) retries() int { return int(c.headerNumber("X-Stainless-Retry-Count")) }

// termsReader reads the terms of the call.
func (c *call) termsReader() priority.Reader {
	return priority.Reader{Header: &c.ctx.Request.Header, Arrived: c.arrived, ClientTimeouts: c.server.config.ClientTimeouts}
}

// stream answers with server-sent events, which body gives and Close ends.
func (c *call) stream(body answerStream) {
	body = c.lease.holding(body)
	if c.key.execution != nil {
		c.events(c.key.execution.record(body))
		return
	}
	c.events(body)
}

// events answers with the body's bytes as they come.
func (c *call) events(body io.ReadCloser) {
	h := &c.ctx.Response.Header
	h.SetContentType(c.route.streamType())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.ctx.Response.ImmediateHeaderFlush = true // the header must not wait for the first token
	c.ctx.SetBodyStream(body, -1)
}

// tellLoad tells a peer how much a model has to do here, so that it sends more or less.
func (c *call) tellLoad(m *models.Model) {
	if !c.caller.Peer || m.Upstream != nil {
		return
	}
	l := m.Load()
	r := router.Report{Running: float64(l.Running), Waiting: float64(l.Waiting), WaitingTokens: float64(l.WaitingTokens),
		KVShare: -1, PrefillRate: -1, DecodeRate: -1, FetchRate: -1}
	if l.KVBlocks > 0 {
		r.KVShare = float64(l.KVBlocksUsed) / float64(l.KVBlocks)
	}
	if l.FetchRate > 0 {
		r.FetchRate = math.Round(l.FetchRate)
	}
	c.ctx.Response.Header.Set(router.LoadHeader, r.String())
}

// warnToo adds to the warnings in the answer's header.
func (c *call) warnToo(said string) {
	h := &c.ctx.Response.Header
	if own := h.Peek(warningsHeader); len(own) > 0 {
		said = string(own) + ", " + said
	}
	h.Set(warningsHeader, headerText(said[:min(len(said), 2*jsonbody.MaxNotesBytes)]))
}

// begin tells the hooks of a request that generates nothing, with what the call itself knows.
func (c *call) begin(start edge.RequestStart) *edge.RequestFinish {
	start.Arm, start.Tenant, start.Key, start.Retries, start.Counted = c.lease.chosen, c.caller.Tenant.Name, c.caller.KeyID(), c.retries(), c.caller.Counted
	start.N, start.Arrived, start.Submitted, start.Trace = 1, c.arrived, time.Now(), c.trace
	if h := c.server.config.Hooks.OnRequestStart; h != nil {
		h(start)
	}
	return &edge.RequestFinish{RequestStart: start}
}
