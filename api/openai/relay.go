package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/openai/stored"
	"weir/internal/inference"
	"weir/router"
	"weir/router/chunk"
	"weir/scheduler/quota"
)

// A relayed request is authenticated, counted and watched here and computed
// elsewhere. Its bytes pass as they are but for the model's name, in both directions; of the
// answer this server reads what limits and metrics need.

// passage is a relayed request: the counterpart of a generation.
type passage struct {
	server   *Server
	result   edge.RequestFinish
	price    quota.Price
	bill     *meter.Bill
	cancel   context.CancelCauseFunc // of the request to the upstream
	cause    func() error            // why it was cancelled: edge.ErrHungUp, edge.ErrStopped, a deadline; nil if it was not
	timers   []*time.Timer           // to the deadlines: of the first token, where it is dated, and of the end
	dated    bool
	account  account
	answer   *router.Answer // nil until it has begun
	closed   bool
	texts    *relayedTexts                               // of a tenant with LogPrompts, or of a rollout, which compares them
	keeps    bool                                        // the tenant agreed that texts are kept
	copied   func(texts []string, f *edge.RequestFinish) // gets the whole answer; nil: nobody wants it
	run      *stored.Run                                 // of a response that nobody waits for; nil: of no such
	route    *route                                      // that the client asked on
	form     form                                        // of the answer
	reasoned int                                         // output tokens that were thoughts
	name     []byte                                      // of the model, as JSON: what stands in answers, whatever the upstream calls it
}

// Codes of faults after which another model may answer.
const (
	upstreamUnavailable = "upstream_unavailable"
	noReplica           = "no_replica"
	noReplicaInRegion   = "no_replica_in_region"
)

var (
	errCancelled = errors.New("the response was cancelled")
)

// relayed is a request that servers behind a model answer.
type relayed struct {
	service *service // that the client asked for
	model   *models.Model
	asked   *job.Body        // the client's request
	sent    *jsonbody.Object // what the servers get of it
	path    string           // below their base URL
	more    bool             // another model may answer in place of this one

	wantsUsage bool // the client asked for the usage of its stream

	job *job.Job // writes the answer of a chat in the form that the client asked for; nil: bytes pass as they are
}

// inBackground reports whether nobody waits for the answer.
func (r *relayed) inBackground() bool {
	return r.job != nil && r.job.Background
}

// relay is the life of a relayed request up to its answer, or up to the stream
// that gives it.
func (c *call) relay(r *relayed) *api.Error {
	if fault := c.moderate(r.model, r.asked); fault != nil {
		return fault
	}
	tokens := c.relayedTokens(r)
	c.endTurn() // nothing more is tokenised here
	warn(c.ctx, r.asked.Notes)
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
	p.cancel, p.cause = cancel, func() error { return context.Cause(ctx) }
	p.watchDeadlines(t)
	if h := s.config.Hooks.OnRequestStart; h != nil {
		h(p.result.RequestStart)
	}
	if r.inBackground() {
		p.run = s.responses.Runs.Add(stored.KeyOf(r.job))
		go watchFor(ctx, cancel, errCancelled, p.run.Cancel)
	} else {
		c.untilHangUp(ctx, cancel)
	}
	handedOver := false
	defer func() {
		if !handedOver {
			p.end()
		}
	}()
	sent := c.relayCall(r, t)
	sent.Tokens = tokens
	p.account = c.newAccount(r, sent)
	sent.Tried = func(a *router.Attempt) { p.result.Tried = append(p.result.Tried, a) }
	p.copied = c.copied()
	if p.keeps = c.caller.Tenant.LogPrompts; p.keeps || p.copied != nil || p.result.Arm.Name != "" {
		p.texts = &relayedTexts{sent: sent.Body}
	}
	kept := r.more || c.mayBeSpared()
	if !kept {
		api.ReleaseBody(c.ctx)
	}
	if p.run != nil {
		handedOver = true
		return c.relayInBackground(ctx, p, r, sent)
	}
	if fault = p.ask(ctx, r, sent); fault != nil {
		c.spares(fault)
		return fault
	}
	if p.answer.Status != statusOK && c.spares(refusalOf(p.answer)) {
		return p.refusedBy()
	}
	if kept {
		api.ReleaseBody(c.ctx)
	}
	c.tellRoute(p.answer)
	switch {
	case p.answer.Status != statusOK:
		return p.refused(c, r.job)
	case p.answer.Events != nil && r.job != nil:
		handedOver = true
		c.stream(newRewordedStream(p, r.job, len(tokens)))
		return nil
	case p.answer.Events != nil:
		handedOver = true
		c.stream(&relayStream{p: p, direct: c.direct()})
		c.ctx.Response.ImmediateHeaderFlush = false // what begins the answer is there, and goes with the header
		return nil
	}
	whole, fault := p.whole(r)
	if fault != nil {
		return fault
	}
	if p.account.own {
		c.warnToo("usage was counted by this server: the one behind the model told none that can be")
	}
	c.ctx.SetContentType(p.answer.Header.Get("Content-Type"))
	c.ctx.Response.SetBodyRaw(whole)
	return nil
}

// direct is the way to the client for a stream whose bytes nobody else needs: an answer that is recorded for its idempotency key is read.
func (c *call) direct() api.Direct {
	if c.execution != nil {
		return api.Direct{}
	}
	return api.DirectOf(c.ctx)
}

// beginPassage reserves what a request is expected to use.
func (c *call) beginPassage(r *relayed, tokens []int32) (*passage, priority.Terms, *api.Error) {
	start := c.relayStart(r)
	t, fault := c.relayTerms(r)
	if fault != nil {
		return nil, t, fault
	}
	start.Class = t.Class
	price := r.model.Price.OfClass(t.Class)
	paid, fault := c.reserveRelay(r, int64(start.N)*r.prompts(), price, tokens)
	if fault != nil {
		return nil, t, fault
	}
	if fault, answered := c.takeKey(); answered {
		paid.Settle(quota.Use{})
		return nil, t, fault
	}
	c.started = true
	return &passage{
		server: c.server, price: price, bill: paid, route: c.route, form: formOf(r.path), name: api.AppendString(nil, r.model.ID),
		result: edge.RequestFinish{RequestStart: start, Status: statusOK, Moderated: c.moderated},
	}, t, nil
}

// relayCall is what an upstream is asked.
func (c *call) relayCall(r *relayed, t priority.Terms) *router.Call {
	var ignored *api.Error
	sent := &router.Call{
		Path: r.path, Stream: r.sent.Flag("stream", false, &ignored), Output: c.expectedOutput(r),
		Head: router.Head{RequestID: c.name(""), FirstTokenBy: t.FirstTokenBy, DoneBy: t.DoneBy,
			Traceparent: c.trace.Header, Tracestate: c.trace.State,
			Caller: c.server.callers.SignerFor(c.caller.Tenant), Class: c.relayedClass(t)},
		Residency: c.caller.Tenant.Residency, Domain: c.caller.Tenant.CacheDomain(), Session: c.session(r.asked.Object), Resume: c.header("X-Weir-Resume") == "1",
	}
	if r.path == messageEndpoint.upstream {
		sent.Head.Version, sent.Head.Beta = c.plainNames("Anthropic-Version"), c.plainNames("Anthropic-Beta")
	}
	sent.Salt, _ = r.sent.Text("cache_salt", &ignored)
	sent.MostBytes = c.mostAnswer(r)
	r.askUsage(sent)
	sent.Body, sent.Prompt = withoutModel(r.sent)
	return sent
}

// oneAnswerBytes is what one answer has at most, by far: a million tokens of eight bytes.
const oneAnswerBytes = 8 << 20

// largerFields of a request ask for answers of which that is not known: log-probabilities, what a tool of the server has found, sounds.
var largerFields = []string{"logprobs", "include", "modalities"}

// mostAnswer is how many bytes a whole answer has at most; 0: that is not known. Some answers repeat parts of their request.
func (c *call) mostAnswer(r *relayed) int {
	if !r.service.writes {
		return 0
	}
	for _, f := range r.sent.Fields {
		if slices.ContainsFunc(largerFields, func(part string) bool { return strings.Contains(f.Name, part) }) {
			return 0
		}
	}
	var ignored *api.Error
	answers := int64(r.sent.Count("n", 1, math.MaxInt32, 1, &ignored)) * r.prompts()
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

// ask sends the request and waits until its answer has begun.
func (p *passage) ask(ctx context.Context, r *relayed, sent *router.Call) (fault *api.Error) {
	var err error
	if p.answer, err = r.model.Upstream.Send(ctx, sent); err != nil {
		return p.broken(err)
	}
	p.result.Replica, p.result.RouteReason, p.result.Attempts = p.answer.Replica, p.answer.Reason, p.answer.Attempts
	status := p.answer.Status
	if r.more && (status == http.StatusTooManyRequests || status >= statusInternal && status != http.StatusNotImplemented) {
		return p.broken(fmt.Errorf("status %d: %.200q", status, p.answer.Whole))
	}
	return nil
}

// whole reads an answer that is no stream, and gives what the client gets of it.
func (p *passage) whole(r *relayed) ([]byte, *api.Error) {
	p.inTime()
	read := p.account.events.Read
	if r.service.writes {
		read = p.account.chunk
	}
	said := read(p.answer.Whole)
	p.read(p.answer.Whole, said)
	p.texts.read(p.form, p.answer.Whole)
	if said != nil && r.job == nil && (said.HasUsage() || r.service.writes && (!said.Usage.IsEmpty() || p.answers(said))) {
		if at, own := p.correction(p.answer.Whole, said, true); own != nil {
			p.answer.Whole = slices.Replace(p.answer.Whole, at.From, at.To, own...)
		}
	}
	if !r.service.writes {
		p.result.Reasons = append(p.result.Reasons, inference.FinishStop)
	}
	if r.job != nil {
		return p.rewordWhole(r.job)
	}
	return underName(p.answer.Whole, p.name), nil
}

// answers reports whether a whole answer says something. What has no answer of its own, such as embeddings, keeps that it tells no usage.
func (p *passage) answers(said *chunk.Chunk) bool {
	return said.Said() && (p.form != chatForm || said.Choices > 0)
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
func (c *call) relayStart(r *relayed) edge.RequestStart {
	var ignored *api.Error
	now := time.Now()
	return edge.RequestStart{
		ID: r.service.prefix + c.id, Endpoint: r.service.route, Model: r.model.ID, Version: r.model.Version, Tenant: c.caller.Tenant.Name, Key: c.caller.KeyID(), Arm: c.arm(),
		Stream: r.sent.Flag("stream", false, &ignored), Prompts: 1, N: r.sent.Count("n", 1, math.MaxInt32, 1, &ignored),
		Retries: c.retries(), Arrived: c.arrived,
		Parsed: now, Submitted: now, Relayed: true, Trace: c.trace,
	}
}

// promptFields are what a model reads, in its order, in the words of each API.
var promptFields = []string{"tools", "system", "instructions", "messages", "input", "prompt"}

// withoutModel is the object without its model, and without this server's own fields, and
// where in it what the model reads stands. The other values are byte for byte what they were.
func withoutModel(o *jsonbody.Object) (dst []byte, prompt []router.Part) {
	type span struct{ from, to int }
	spans := make([]span, len(promptFields))
	dst = []byte{'{'}
	for _, f := range o.Fields {
		if f.Name == "model" || slices.Contains(priority.OwnFields, f.Name) {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(api.AppendString(dst, f.Name), ':')
		from := len(dst)
		dst = append(dst, f.Raw...)
		if i := slices.Index(promptFields, f.Name); i >= 0 {
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

// interrupted is the fault of a request to a model that watch has cancelled, nil where
// the cause is another.
func (s *Server) interrupted(model string, cause error) *api.Error {
	switch {
	case errors.Is(cause, edge.ErrHungUp):
		if h := s.config.Hooks.OnDisconnect; h != nil {
			h(model)
		}
		return edge.ClientGone()
	case errors.Is(cause, errCancelled):
		return edge.Cancelled()
	case errors.Is(cause, edge.ErrStopped):
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
	case errors.Is(err, router.ErrResidency):
		fault = displaced()
		p.result.Cause = err
	case errors.Is(err, router.ErrNoReplica):
		fault = api.Refuse(noReplica, "none of the servers behind this model takes requests now; retry")
		p.result.Cause = err
	case errors.Is(err, router.ErrNoMemory):
		fault = noMemory()
		p.result.Cause = err
	case errors.Is(err, router.ErrOversized):
		fault = oversized()
		p.result.Cause = err
	default:
		fault = upstreamFault(err)
		p.result.Cause = err
	}
	fault.Status = p.route.statusOf(fault.Status)
	p.result.Status, p.result.Code = fault.Status, fault.Code
	return fault
}

// noMemory refuses a request whose answer there is no memory for.
func noMemory() *api.Error {
	return api.NoMemory("request bodies and the answers of the servers behind models use")
}

// oversized refuses a request whose answer is larger than this server ever takes in one piece.
func oversized() *api.Error {
	return api.Refuse("answer_too_large", "the whole answer of the server behind this model is larger than this server takes in one piece, and is so each time; "+
		"ask for a stream, for fewer choices, log-probabilities or inputs at once, or raise --http-body-memory-bytes (a whole answer takes up to 64 MiB, and twice its size of three quarters of that memory)")
}

// displaced refuses a request that only servers outside its tenant's residency could take.
func displaced() *api.Error {
	return api.Refuse(noReplicaInRegion, "none of the servers behind this model that are in a region of the tenant's residency takes requests now; retry")
}

// upstreamFault tells a caller what a server did: by its kind, since what else the error says may be a secret of the
// operator, or with the words that the server has put into its stream.
func upstreamFault(err error) *api.Error {
	if said, ok := errors.AsType[router.StreamedFault](err); ok {
		status, body := said.Refusal()
		return refusalOf(&router.Answer{Status: status, Whole: body})
	}
	f, ok := errors.AsType[router.UpstreamFault](err)
	switch {
	case !ok:
		return api.Refuse(upstreamUnavailable, "the server behind this model did not answer, or not to the end; retry")
	case f.Lasting():
		return api.Refuse(upstreamUnavailable, "the server behind this model "+f.Told()+": its operator, or that of this server, has to correct that")
	}
	return api.Refuse(upstreamUnavailable, "the server behind this model "+f.Told()+" ("+f.FaultKind()+"); retry")
}

// end is called exactly once by whoever wrote the last byte or gave up;
// further calls do nothing.
func (p *passage) end() {
	if p.closed {
		return
	}
	p.closed = true
	defer p.server.running.Leave()
	for _, part := range []func(){p.letGo, p.estimate, p.charge, p.tell} {
		p.server.config.Hooks.Guarded("stream", part)
	}
}

// letGo ends what works for the request.
func (p *passage) letGo() {
	p.cancel(nil)
	for _, t := range p.timers {
		t.Stop()
	}
	if p.answer != nil && p.answer.Events != nil {
		_ = p.answer.Events.Close() // all that was wanted of it was read
	}
	p.answer.Release()
	p.result.Finished = time.Now()
}

func (p *passage) charge() {
	if p.result.Estimated && p.answer != nil && p.answer.Untold != nil {
		p.answer.Untold(p.account.guessed + p.result.OutputTokens)
	}
	if p.result.Charged() {
		p.result.Cost = p.price.Cost(int64(p.result.PromptTokens), int64(p.result.CachedTokens), int64(p.result.OutputTokens))
	}
	p.settle()
}

// tell tells those who watch requests that this one is over.
func (p *passage) tell() {
	if len(p.result.Reasons) == 0 && !p.result.FirstToken.IsZero() {
		reason := inference.FinishCancelled
		if p.result.Status >= statusInternal {
			reason = inference.FinishError
		}
		p.result.Reasons = append(p.result.Reasons, reason)
	}
	p.judge()
	if h := p.server.config.Hooks.OnRequestFinish; h != nil {
		if p.keeps {
			p.result.Texts = p.texts.texts()
		}
		h(p.result)
	}
	if p.copied != nil && p.ended() {
		p.copied(p.texts.said(), &p.result)
	}
}
