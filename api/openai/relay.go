package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// A relayed request is authenticated, counted and watched here and computed
// elsewhere. Its bytes pass as they are but for the model's name; of the
// answer this server reads what limits and metrics need.

// passage is a relayed request: the counterpart of a generation.
type passage struct {
	server *Server
	result edge.RequestFinish
	price  quota.Price
	bill   *bill
	cancel context.CancelCauseFunc // of the request to the upstream
	cause  func() error            // why it was cancelled: errHungUp, errStopped, a deadline; nil if it was not
	timers []*time.Timer           // to the deadlines: of the first token, where it is dated, and of the end
	dated  bool
	answer *router.Answer // nil until it has begun
	ended  bool
	texts  *relayedTexts // of a tenant with LogPrompts
}

// Codes of faults after which another model may answer.
const (
	upstreamUnavailable = "upstream_unavailable"
	noReplica           = "no_replica"
)

var errStopped = errors.New("the server stops")

// relay is the life of a relayed request up to its answer, or up to the stream
// that gives it.
func (c *call) relay(e *service, m *Model, o *object, more bool) *api.Error {
	tokens := c.relayedTokens(e, m, o)
	c.endTurn() // nothing more is tokenised here
	warn(c.ctx, o.notes)
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	start := c.relayStart(e, m, o)
	t, fault := c.relayTerms(o)
	if fault != nil {
		s.running.Leave()
		return fault
	}
	paid, fault := c.reserveRelay(e, m, o, start.N, tokens)
	if fault != nil {
		s.running.Leave()
		return fault
	}
	if fault, answered := c.takeKey(); answered {
		paid.settle(quota.Use{})
		s.running.Leave()
		return fault
	}
	c.started = true
	p := &passage{server: s, price: m.Price, bill: paid, result: edge.RequestFinish{RequestStart: start, Status: statusOK}}
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel, p.cause = cancel, func() error { return context.Cause(ctx) }
	p.watchDeadlines(t)
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(p.result.RequestStart)
	}
	go s.watch(cancel, c.watch(), ctx.Done())
	handedOver := false
	defer func() {
		if !handedOver {
			p.end()
		}
	}()
	sent := &router.Call{
		Path: e.upstream, Stream: start.Stream, Output: c.expectedOutput(e, m, o),
		Head: router.Head{RequestID: c.name(""), FirstTokenBy: t.firstTokenBy, DoneBy: t.doneBy,
			Traceparent: c.trace.Header, Tracestate: c.trace.State,
			Caller: s.callers.Speaker(c.caller.Tenant), Class: c.header(classHeader)},
		Domain: c.caller.Tenant.CacheDomain(), Session: c.session(o), Resume: c.header("X-Weir-Resume") == "1",
	}
	sent.Body, sent.Prompt = o.withoutModel()
	sent.Tokens = tokens
	if c.caller.Tenant.LogPrompts {
		p.texts = &relayedTexts{sent: sent.Body}
	}
	if !more {
		api.ReleaseBody(c.ctx)
	}
	var err error
	if p.answer, err = m.Upstream.Send(ctx, sent); err != nil {
		return p.broken(err)
	}
	if status := p.answer.Status; more && (status == http.StatusTooManyRequests || status >= statusInternal && status != http.StatusNotImplemented) {
		return p.broken(fmt.Errorf("status %d: %.200q", status, p.answer.Whole))
	}
	if more {
		api.ReleaseBody(c.ctx)
	}
	c.tellRoute(p.answer)
	p.result.Replica, p.result.RouteReason, p.result.Attempts = p.answer.Replica, p.answer.Reason, p.answer.Attempts
	switch {
	case p.answer.Status != statusOK:
		return p.refused(c)
	case p.answer.Events != nil:
		handedOver = true
		c.stream(&relayStream{p: p})
		return nil
	}
	p.inTime()
	p.read(p.answer.Whole)
	p.texts.read(p.answer.Whole)
	if !e.writes {
		p.result.Reasons = append(p.result.Reasons, inference.FinishStop)
	}
	c.ctx.SetContentType(p.answer.Header.Get("Content-Type"))
	c.ctx.SetBody(p.answer.Whole)
	return nil
}

// tellRoute says in the answer's header which server it is from, and why.
func (c *call) tellRoute(a *router.Answer) {
	h := &c.ctx.Response.Header
	h.Set("X-Weir-Replica", a.Replica)
	h.Set("X-Weir-Route-Reason", a.Reason)
	if a.Attempts > 1 {
		h.Set("X-Weir-Attempts", strconv.Itoa(a.Attempts))
	}
}

// tellLoad tells a peer how much a model has to do here, so that it sends more or less.
func (c *call) tellLoad(m *Model) {
	if !c.caller.Peer || m.Upstream != nil {
		return
	}
	l := m.load()
	r := router.Report{Running: float64(l.Running), Waiting: float64(l.Waiting), WaitingTokens: float64(l.WaitingTokens),
		KVShare: -1, PrefillRate: -1, DecodeRate: -1}
	if l.KVBlocks > 0 {
		r.KVShare = float64(l.KVBlocksUsed) / float64(l.KVBlocks)
	}
	c.ctx.Response.Header.Set(router.LoadHeader, r.String())
}

// session is what requests of one conversation have in common, by the header x-session-id or
// the fields that OpenAI's clients have for it; "" is not known.
func (c *call) session(o *object) string {
	if id := c.ctx.Request.Header.Peek("X-Session-Id"); edge.IsPlain(id) {
		return string(id)
	}
	var ignored *api.Error
	id, _ := o.text("prompt_cache_key", &ignored)
	return id
}

// relayStart reads what hooks are told of a request whose fields are the
// upstream's to check.
func (c *call) relayStart(e *service, m *Model, o *object) edge.RequestStart {
	var ignored *api.Error
	now := time.Now()
	return edge.RequestStart{
		ID: e.prefix + c.id, Endpoint: e.route, Model: m.ID, Version: m.Version, Tenant: c.caller.Tenant.Name,
		Stream: o.flag("stream", false, &ignored), Prompts: 1, N: o.count("n", 1, maxInt32, 1, &ignored),
		Retries: c.retries(), Arrived: c.arrived,
		Parsed: now, Submitted: now, Relayed: true, Trace: c.trace,
	}
}

// promptFields are what a model reads, in its order.
var promptFields = []string{"tools", "messages", "prompt"}

// withoutModel is the object without its model, and without this server's own fields, and
// where in it what the model reads stands. The other values are byte for byte what they were.
func (o *object) withoutModel() (dst []byte, prompt []router.Part) {
	type span struct{ from, to int }
	var spans [3]span
	dst = []byte{'{'}
	for _, f := range o.fields {
		if f.name == "model" || slices.Contains(ownFields, f.name) {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(api.AppendString(dst, f.name), ':')
		from := len(dst)
		dst = append(dst, f.raw...)
		if i := slices.Index(promptFields, f.name); i >= 0 {
			spans[i] = span{from, len(dst)}
		}
	}
	dst = append(dst, '}')
	for i, s := range spans {
		if s.to > 0 {
			prompt = append(prompt, router.Part{Kind: promptFields[i], Text: dst[s.from:s.to]})
		}
	}
	return dst, prompt
}

// watch cancels a request when nobody waits for it any more, until it is over.
func (s *Server) watch(cancel context.CancelCauseFunc, gone, over <-chan struct{}) {
	select {
	case <-gone:
		cancel(errHungUp)
	case <-s.running.Aborted():
		cancel(errStopped)
	case <-over:
	}
}

// interrupted is the fault of a request to a model that watch has cancelled, nil where
// the cause is another.
func (s *Server) interrupted(model string, cause error) *api.Error {
	switch {
	case errors.Is(cause, errHungUp):
		if h := s.config.Hooks.OnDisconnect; h != nil {
			h(model)
		}
		return edge.ClientGone()
	case errors.Is(cause, errStopped):
		return edge.ShuttingDown()
	}
	return nil
}

// broken notes why there is no answer, or no more of it.
func (p *passage) broken(err error) *api.Error {
	cause := p.cause()
	fault := p.server.interrupted(p.result.Model, cause)
	switch {
	case fault != nil:
	case errors.Is(cause, inference.ErrDeadline):
		fault = edge.Fault(cause)
	case errors.Is(err, router.ErrNoReplica):
		fault = api.Refuse(noReplica, "none of the servers behind this model takes requests now; retry")
		p.result.Cause = err
	default:
		fault = api.Refuse(upstreamUnavailable, "the server behind this model did not answer, or not to the end; retry")
		p.result.Cause = err
	}
	p.result.Status, p.result.Code = fault.Status, fault.Code
	return fault
}

// relayedAnswer is what is read of an answer or of a chunk.
type relayedAnswer struct {
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Total   int `json:"total_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Choices []struct {
		Reason *string `json:"finish_reason"`
	}
}

// read takes usage and finish reasons out of an answer or a chunk. What is not
// JSON passes unread.
func (p *passage) read(text []byte) {
	var a relayedAnswer
	if json.Unmarshal(text, &a) != nil {
		return
	}
	if u := a.Usage; u != nil {
		p.result.PromptTokens, p.result.OutputTokens, p.result.CachedTokens = u.Prompt, u.Output, u.Details.Cached
		if u.Prompt+u.Output == 0 { // rerankers count one number
			p.result.PromptTokens = u.Total
		}
	}
	for _, c := range a.Choices {
		switch {
		case c.Reason == nil:
		case *c.Reason == inference.FinishLength.String():
			p.result.Reasons = append(p.result.Reasons, inference.FinishLength)
		default:
			p.result.Reasons = append(p.result.Reasons, inference.FinishStop)
		}
	}
}

// end is called exactly once by whoever wrote the last byte or gave up;
// further calls do nothing.
func (p *passage) end() {
	if p.ended {
		return
	}
	p.ended = true
	p.cancel(nil)
	for _, t := range p.timers {
		t.Stop()
	}
	if p.answer != nil && p.answer.Events != nil {
		_ = p.answer.Events.Close() // all that was wanted of it was read
	}
	p.result.Finished = time.Now()
	p.result.Cost = p.price.Cost(int64(p.result.PromptTokens), int64(p.result.CachedTokens), int64(p.result.OutputTokens))
	p.settle()
	if len(p.result.Reasons) == 0 && !p.result.FirstToken.IsZero() {
		reason := inference.FinishCancelled
		if p.result.Status >= statusInternal {
			reason = inference.FinishError
		}
		p.result.Reasons = append(p.result.Reasons, reason)
	}
	if h := p.server.config.Hooks.OnRequestFinish; h != nil {
		p.result.Texts = p.texts.texts()
		h(p.result)
	}
	p.server.running.Leave()
}

// relayStream is the body of a relayed stream: it reads as the upstream sends.
type relayStream struct {
	p    *passage
	line []byte // of the answer, not complete yet
	rest []byte // the error event that ends a broken stream
	done bool   // the client has the end of the answer
	last bool   // and the empty line behind it
	over bool   // nothing but rest is to come

	failed *api.Error // what rest says
}

// maxLineBytes bounds what is kept of a line; a longer one passes unread.
const maxLineBytes = 1 << 20

// Read passes on what has come. A stream that breaks ends with an error
// event: a client must never take a broken answer for a short one.
func (r *relayStream) Read(buf []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			if h := r.p.server.config.Hooks.OnPanic; h != nil {
				h("stream", v, debug.Stack())
			}
			r.over, n, err = true, 0, io.ErrUnexpectedEOF
		}
	}()
	if !r.over {
		n, err = r.p.answer.Events.Read(buf)
		r.look(buf[:n])
		if err != nil {
			err = r.stop(err)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	n = copy(buf, r.rest)
	if r.rest = r.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// stop notes how the upstream's stream ended, and with what the client's does.
func (r *relayStream) stop(err error) error {
	r.over = true
	if errors.Is(err, io.EOF) {
		return nil
	}
	fault := r.p.broken(err)
	if fault.Status == edge.StatusHungUp {
		return errHungUp
	}
	r.failed = fault
	r.rest = append(fault.AppendJSON([]byte("\n\ndata: ")), "\n\n"...)
	return nil
}

// look reads the lines of a piece of the stream.
func (r *relayStream) look(piece []byte) {
	for len(piece) > 0 {
		line, rest, complete := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		if len(r.line) > 0 || !complete {
			if len(r.line)+len(line) <= maxLineBytes {
				r.line = append(r.line, line...)
			}
			line = r.line
		}
		if complete {
			r.event(line)
			r.line = r.line[:0]
		}
	}
}

// event reads one line. Most chunks need no parsing.
func (r *relayStream) event(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		r.last = r.last || r.done && len(bytes.TrimSpace(line)) == 0
		return
	}
	res := &r.p.result
	res.LastToken = time.Now()
	if res.FirstToken.IsZero() {
		res.FirstToken = res.LastToken
		r.p.inTime()
		if h := r.p.server.config.Hooks.OnFirstToken; h != nil {
			h(&res.RequestStart, res.FirstToken.Sub(res.Arrived))
		}
	}
	r.done = r.done || bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]"))
	r.p.texts.read(data)
	if bytes.Contains(data, []byte(`"usage":{`)) || bytes.Contains(data, []byte(`"finish_reason":"`)) {
		r.p.read(data)
	}
}

func (r *relayStream) failure() *api.Error { return r.failed }

// isComplete implements answerStream.
func (r *relayStream) isComplete() bool { return r.last }

// Close is called by the HTTP server after the last byte, or when the
// connection broke.
func (r *relayStream) Close() error {
	if !r.over && !r.done {
		r.p.cancel(errHungUp)     // nobody took the answer to its end
		_ = r.p.broken(errHungUp) // nobody is left to be told
	}
	r.p.end()
	return nil
}
