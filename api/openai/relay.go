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
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/api/openai/stored"
	"weir/router"
	"weir/scheduler/quota"
)

// relaying is a call that servers behind its model answer.
type relaying struct {
	*call
	*relay.Request
	terms  priority.Terms
	tokens []int32 // of its prompt; nil: the model's tokenizer is not here, or the prompt cannot be read
}

// answer is the life of a relayed request up to its answer, or up to the stream
// that gives it.
func (r *relaying) answer() *api.Error {
	if fault := r.moderator.check(r.Model, r.Asked); fault != nil {
		return fault
	}
	r.tokens = r.tokensHere()
	r.releasePermit() // nothing more is tokenised here
	warn(r.ctx, r.Asked.Notes)
	s := r.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	p, fault := r.beginExchange()
	if fault != nil {
		s.running.Leave()
		return fault
	}
	ctx, cancel := r.untilStopped()
	p.Cancel, p.Cause = cancel, func() error { return context.Cause(ctx) }
	p.WatchDeadlines(r.terms)
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(p.Result.RequestStart)
	}
	if r.InBackground() {
		p.Run = s.responses.Runs.Add(stored.KeyOf(r.Job))
		go watchFor(ctx, cancel, edge.ErrCancelled, p.Run.Cancel)
	} else {
		r.untilHangUp(ctx, cancel)
	}
	handedOver := false
	defer func() {
		if !handedOver {
			p.End()
		}
	}()
	sent := r.routerCall()
	sent.Tokens = r.tokens
	p.Account = s.relay.NewAccount(r.Request, sent)
	sent.Tried = func(a *router.Attempt) { p.Result.Tried = append(p.Result.Tried, a) }
	p.Copied = r.lease.copied()
	if p.Keeps = r.caller.Tenant.LogPrompts; p.Keeps || p.Copied != nil || p.Result.Arm.Name != "" {
		p.Texts = &relay.Texts{Sent: sent.Body}
	}
	kept := r.More || r.lease.canFailOver()
	if !kept {
		api.ReleaseBody(r.ctx)
	}
	if p.Run != nil {
		handedOver = true
		return r.inBackground(ctx, p, sent)
	}
	if fault = p.Ask(ctx, r.Request, sent); fault != nil {
		r.lease.failOver(fault)
		return fault
	}
	if p.Answer.Status != statusOK && r.lease.failOver(relay.RefusalOf(p.Answer)) {
		return p.RefusedBy()
	}
	if kept {
		api.ReleaseBody(r.ctx)
	}
	r.tellRoute(p.Answer)
	switch {
	case p.Answer.Status != statusOK:
		return p.Refused(r.ctx, r.Job)
	case p.Answer.Events != nil && r.Job != nil:
		handedOver = true
		r.stream(relay.NewTranslatedStream(p, r.Job, len(r.tokens)))
		return nil
	case p.Answer.Events != nil:
		handedOver = true
		r.stream(relay.NewStream(p, r.direct()))
		r.ctx.Response.ImmediateHeaderFlush = false // what begins the answer is there, and goes with the header
		return nil
	}
	whole, fault := p.Whole(r.Request)
	if fault != nil {
		return fault
	}
	if p.Account.Own {
		r.warnToo("usage was counted by this server: the one behind the model told none that can be")
	}
	r.ctx.SetContentType(p.Answer.Header.Get("Content-Type"))
	r.ctx.Response.SetBodyRaw(whole)
	return nil
}

// direct is the way to the client for a stream whose bytes nothing else needs: an answer that is recorded for its idempotency key is read.
func (r *relaying) direct() api.Direct {
	if r.key.execution != nil {
		return api.Direct{}
	}
	return api.DirectOf(r.ctx)
}

// beginExchange reserves what a request is expected to use.
func (r *relaying) beginExchange() (*relay.Exchange, *api.Error) {
	start := r.requestStart()
	if fault := r.readTerms(); fault != nil {
		return nil, fault
	}
	start.Class = r.terms.Class
	price := r.Model.Price.OfClass(r.terms.Class)
	paid, fault := r.reserveTokens(int64(start.N)*r.Prompts(), price)
	if fault != nil {
		return nil, fault
	}
	if fault, answered := r.key.take(); answered {
		paid.Settle(quota.Use{})
		return nil, fault
	}
	r.started = true
	return &relay.Exchange{
		Relay: r.server.relay, Price: price, Bill: paid, Route: r.route, Form: relay.FormOf(r.Path), Name: api.AppendString(nil, r.Model.ID),
		Result: edge.RequestFinish{RequestStart: start, Status: statusOK, Moderated: r.moderator.report},
	}, nil
}

// routerCall is what an upstream is asked.
func (r *relaying) routerCall() *router.Call {
	var ignored *api.Error
	name := r.name("")
	sent := &router.Call{
		Path: r.Path, Stream: r.Sent.Flag("stream", false, &ignored), Output: r.expectedOutput(),
		Head: router.Head{RequestID: name, Counted: r.server.callers.Counted(name), FirstTokenBy: r.terms.FirstTokenBy, DoneBy: r.terms.DoneBy,
			Traceparent: r.trace.Header, Tracestate: r.trace.State,
			Caller: r.server.callers.SignerFor(r.caller.Tenant), Class: r.class()},
		Residency: r.caller.Tenant.Residency, Domain: r.caller.Tenant.CacheDomain(), Session: r.session(r.Asked.Object), Resume: r.header("X-Weir-Resume") == "1",
	}
	if r.Path == relay.PathMessages {
		sent.Head.Version, sent.Head.Beta = r.plainNames("Anthropic-Version"), r.plainNames("Anthropic-Beta")
	}
	sent.Salt, _ = r.Sent.Text("cache_salt", &ignored)
	sent.MostBytes = r.mostAnswer()
	r.AskUsage(sent)
	sent.Body, sent.Prompt = relay.WithoutModel(r.Sent)
	return sent
}

// oneAnswerBytes is what one answer has at most, by far: a million tokens of eight bytes.
const oneAnswerBytes = 8 << 20

// largerFields of a request ask for answers of which that is not known: log-probabilities, what a tool of the server has found, sounds.
var largerFields = []string{"logprobs", "include", "modalities"}

// mostAnswer is how many bytes a whole answer has at most; 0: that is not known. Some answers repeat parts of their request.
func (r *relaying) mostAnswer() int {
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
	return int(answers * int64(oneAnswerBytes+2*len(r.ctx.PostBody())))
}

// maxNamesBytes bounds fields of the header that go to Anthropic's own API: a version, the names of beta features.
const maxNamesBytes = 1 << 10

// plainNames is a field of the header that holds names, "" where it holds something else.
func (r *relaying) plainNames(field string) string {
	names := strings.ReplaceAll(r.header(field), " ", "")
	if len(names) > maxNamesBytes || strings.ContainsFunc(names, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return names
}

// tellRoute says in the answer's header which server it is from, and why.
func (r *relaying) tellRoute(a *router.Answer) {
	h := &r.ctx.Response.Header
	h.Set("X-Weir-Replica", a.Replica)
	h.Set("X-Weir-Route-Reason", a.Reason)
	if a.Attempts > 1 {
		h.Set("X-Weir-Attempts", strconv.Itoa(a.Attempts))
	}
	if said := a.Header.Get(warningsHeader); said != "" { // another weir's
		r.warnToo(said)
	}
}

// session is what requests of one conversation have in common, by the header x-session-id or
// the fields that OpenAI's clients have for it; "" is not known.
func (r *relaying) session(o *jsonbody.Object) string {
	if id := r.ctx.Request.Header.Peek("X-Session-Id"); edge.IsPlain(id) {
		return string(id)
	}
	var ignored *api.Error
	id, _ := o.Text("prompt_cache_key", &ignored)
	return id
}

// requestStart reads what hooks are told of a request whose fields are the
// upstream's to check.
func (r *relaying) requestStart() edge.RequestStart {
	var ignored *api.Error
	now := time.Now()
	return edge.RequestStart{
		ID: r.Prefix + r.id, Endpoint: r.Route, Model: r.Model.ID, Version: r.Model.Version, Tenant: r.caller.Tenant.Name, Key: r.caller.KeyID(), Arm: r.lease.chosen,
		Stream: r.Sent.Flag("stream", false, &ignored), Prompts: 1, N: r.Sent.Count("n", 1, math.MaxInt32, 1, &ignored),
		Retries: r.retries(), Counted: r.caller.Counted, Arrived: r.arrived,
		Parsed: now, Submitted: now, Relayed: true, Trace: r.trace,
	}
}
