package openai

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/api/openai/stored"
	"weir/router"
	"weir/scheduler/quota"
)

// relay is the life of a relayed request up to its answer, or up to the stream
// that gives it.
func (c *call) relay(r *relay.Request) *api.Error {
	if fault := c.moderate(r.Model, r.Asked); fault != nil {
		return fault
	}
	tokens := c.relayedTokens(r)
	c.endTurn() // nothing more is tokenised here
	warn(c.ctx, r.Asked.Notes)
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	p, t, fault := c.beginPassage(r, tokens)
	if fault != nil {
		s.running.Leave()
		return fault
	}
	ctx, cancel := c.untilStopped()
	p.Cancel, p.Cause = cancel, func() error { return context.Cause(ctx) }
	p.WatchDeadlines(t)
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(p.Result.RequestStart)
	}
	if r.InBackground() {
		p.Run = s.responses.Runs.Add(stored.KeyOf(r.Job))
		go watchFor(ctx, cancel, edge.ErrCancelled, p.Run.Cancel)
	} else {
		c.untilHangUp(ctx, cancel)
	}
	handedOver := false
	defer func() {
		if !handedOver {
			p.End()
		}
	}()
	sent := c.relayCall(r, t)
	sent.Tokens = tokens
	p.Account = s.relay.NewAccount(r, sent)
	sent.Tried = func(a *router.Attempt) { p.Result.Tried = append(p.Result.Tried, a) }
	p.Copied = c.copied()
	if p.Keeps = c.caller.Tenant.LogPrompts; p.Keeps || p.Copied != nil || p.Result.Arm.Name != "" {
		p.Texts = &relay.Texts{Sent: sent.Body}
	}
	kept := r.More || c.mayBeSpared()
	if !kept {
		api.ReleaseBody(c.ctx)
	}
	if p.Run != nil {
		handedOver = true
		return c.relayInBackground(ctx, p, r, sent)
	}
	if fault = p.Ask(ctx, r, sent); fault != nil {
		c.spares(fault)
		return fault
	}
	if p.Answer.Status != statusOK && c.spares(relay.RefusalOf(p.Answer)) {
		return p.RefusedBy()
	}
	if kept {
		api.ReleaseBody(c.ctx)
	}
	c.tellRoute(p.Answer)
	switch {
	case p.Answer.Status != statusOK:
		return p.Refused(c.ctx, r.Job)
	case p.Answer.Events != nil && r.Job != nil:
		handedOver = true
		c.stream(relay.NewTranslatedStream(p, r.Job, len(tokens)))
		return nil
	case p.Answer.Events != nil:
		handedOver = true
		c.stream(relay.NewStream(p, c.direct()))
		c.ctx.Response.ImmediateHeaderFlush = false // what begins the answer is there, and goes with the header
		return nil
	}
	whole, fault := p.Whole(r)
	if fault != nil {
		return fault
	}
	if p.Account.Own {
		c.warnToo("usage was counted by this server: the one behind the model told none that can be")
	}
	c.ctx.SetContentType(p.Answer.Header.Get("Content-Type"))
	c.ctx.Response.SetBodyRaw(whole)
	return nil
}

// direct is the way to the client for a stream whose bytes nothing else needs: an answer that is recorded for its idempotency key is read.
func (c *call) direct() api.Direct {
	if c.execution != nil {
		return api.Direct{}
	}
	return api.DirectOf(c.ctx)
}

// beginPassage reserves what a request is expected to use.
func (c *call) beginPassage(r *relay.Request, tokens []int32) (*relay.Passage, priority.Terms, *api.Error) {
	start := c.relayStart(r)
	t, fault := c.relayTerms(r)
	if fault != nil {
		return nil, t, fault
	}
	start.Class = t.Class
	price := r.Model.Price.OfClass(t.Class)
	paid, fault := c.reserveRelay(r, int64(start.N)*r.Prompts(), price, tokens)
	if fault != nil {
		return nil, t, fault
	}
	if fault, answered := c.takeKey(); answered {
		paid.Settle(quota.Use{})
		return nil, t, fault
	}
	c.started = true
	return &relay.Passage{
		Relay: c.server.relay, Price: price, Bill: paid, Route: c.route, Form: relay.FormOf(r.Path), Name: api.AppendString(nil, r.Model.ID),
		Result: edge.RequestFinish{RequestStart: start, Status: statusOK, Moderated: c.moderated},
	}, t, nil
}

// relayCall is what an upstream is asked.
func (c *call) relayCall(r *relay.Request, t priority.Terms) *router.Call {
	var ignored *api.Error
	sent := &router.Call{
		Path: r.Path, Stream: r.Sent.Flag("stream", false, &ignored), Output: c.expectedOutput(r),
		Head: router.Head{RequestID: c.name(""), FirstTokenBy: t.FirstTokenBy, DoneBy: t.DoneBy,
			Traceparent: c.trace.Header, Tracestate: c.trace.State,
			Caller: c.server.callers.SignerFor(c.caller.Tenant), Class: c.relayedClass(t)},
		Residency: c.caller.Tenant.Residency, Domain: c.caller.Tenant.CacheDomain(), Session: c.session(r.Asked.Object), Resume: c.header("X-Weir-Resume") == "1",
	}
	if r.Path == relay.PathMessages {
		sent.Head.Version, sent.Head.Beta = c.plainNames("Anthropic-Version"), c.plainNames("Anthropic-Beta")
	}
	sent.Salt, _ = r.Sent.Text("cache_salt", &ignored)
	sent.MostBytes = c.mostAnswer(r)
	r.AskUsage(sent)
	sent.Body, sent.Prompt = relay.WithoutModel(r.Sent)
	return sent
}

// oneAnswerBytes is what one answer has at most, by far: a million tokens of eight bytes.
const oneAnswerBytes = 8 << 20

// largerFields of a request ask for answers of which that is not known: log-probabilities, what a tool of the server has found, sounds.
var largerFields = []string{"logprobs", "include", "modalities"}

// mostAnswer is how many bytes a whole answer has at most; 0: that is not known. Some answers repeat parts of their request.
func (c *call) mostAnswer(r *relay.Request) int {
	if !r.Writes {
		return 0
	}
	for _, f := range r.Sent.Fields {
		if slices.ContainsFunc(largerFields, func(part string) bool { return strings.Contains(f.Name, part) }) {
			return 0
		}
	}
	var ignored *api.Error
	answers := int64(r.Sent.Count("n", 1, math.MaxInt32, 1, &ignored)) * r.Prompts()
	if ignored != nil {
		return 0
	}
	return int(answers * int64(oneAnswerBytes+2*len(c.ctx.PostBody())))
}

// maxNamesBytes bounds fields of the header that go to Anthropic's own API: a version, the names of beta features.
const maxNamesBytes = 1 << 10

// plainNames is a field of the header that holds names, "" where it holds something else.
func (c *call) plainNames(field string) string {
	names := strings.ReplaceAll(c.header(field), " ", "")
	if len(names) > maxNamesBytes || strings.ContainsFunc(names, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return names
}

// tellRoute says in the answer's header which server it is from, and why.
func (c *call) tellRoute(a *router.Answer) {
	h := &c.ctx.Response.Header
	h.Set("X-Weir-Replica", a.Replica)
	h.Set("X-Weir-Route-Reason", a.Reason)
	if a.Attempts > 1 {
		h.Set("X-Weir-Attempts", strconv.Itoa(a.Attempts))
	}
	if said := a.Header.Get(warningsHeader); said != "" { // another weir's
		c.warnToo(said)
	}
}

// warnToo adds to the warnings in the answer's header.
func (c *call) warnToo(said string) {
	h := &c.ctx.Response.Header
	if own := h.Peek(warningsHeader); len(own) > 0 {
		said = string(own) + ", " + said
	}
	h.Set(warningsHeader, headerText(said[:min(len(said), 2*jsonbody.MaxNotesBytes)]))
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

// session is what requests of one conversation have in common, by the header x-session-id or
// the fields that OpenAI's clients have for it; "" is not known.
func (c *call) session(o *jsonbody.Object) string {
	if id := c.ctx.Request.Header.Peek("X-Session-Id"); edge.IsPlain(id) {
		return string(id)
	}
	var ignored *api.Error
	id, _ := o.Text("prompt_cache_key", &ignored)
	return id
}

// relayStart reads what hooks are told of a request whose fields are the
// upstream's to check.
func (c *call) relayStart(r *relay.Request) edge.RequestStart {
	var ignored *api.Error
	now := time.Now()
	return edge.RequestStart{
		ID: r.Prefix + c.id, Endpoint: r.Route, Model: r.Model.ID, Version: r.Model.Version, Tenant: c.caller.Tenant.Name, Key: c.caller.KeyID(), Arm: c.arm(),
		Stream: r.Sent.Flag("stream", false, &ignored), Prompts: 1, N: r.Sent.Count("n", 1, math.MaxInt32, 1, &ignored),
		Retries: c.retries(), Arrived: c.arrived,
		Parsed: now, Submitted: now, Relayed: true, Trace: c.trace,
	}
}
