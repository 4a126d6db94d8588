package openai

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/moderation"
	"weir/api/openai/constraint"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
	"weir/api/openai/stored"
	"weir/api/openai/turnstile"
	"weir/api/replay"
	"weir/api/tenant"
	"weir/router"
	"weir/scheduler/quota"
)

const (
	statusOK       = http.StatusOK
	statusInternal = http.StatusInternalServerError
)

// Server is an api.Handler. It listens and answers before models are loaded.
type Server struct {
	config    Config
	callers   *tenant.Authenticator
	routes    []*route
	unknown   *route // that of all other paths
	running   *edge.Running
	models    atomic.Pointer[models.Set] // nil until SetModels
	loading   atomic.Pointer[models.LoadProgress]
	turns     *turnstile.Turnstile
	grammars  *constraint.Compiler
	runner    *generation.Runner
	relay     *relay.Relay
	reports   chan struct{}     // of usage, as many as may be read at once
	estimates *meter.Estimates  // of the lengths of answers, for quotas
	cache     *generation.Cache // nil: off
	keys      *edge.Keys

	responses *stored.Responses
}

// New returns a server without models.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Idempotency.Claims == nil {
		c.Idempotency.Claims = replay.NewMemory(c.Idempotency.TenantBytes)
	}
	if c.Responses.Store == nil {
		c.Responses.Store = conversation.NewMemory(c.Responses.TenantBytes)
	}
	s := &Server{config: c, callers: c.Callers, running: edge.NewRunning(), estimates: meter.NewEstimates(),
		cache: generation.NewCache(c.ResponseCache)}
	s.keys = &edge.Keys{Claims: c.Idempotency.Claims, TTL: c.Idempotency.TTL, MaxAnswerBytes: c.Idempotency.MaxAnswerBytes, Ended: c.Hooks.OnKey}
	if s.callers == nil {
		var err error
		if s.callers, err = tenant.NewAuthenticator(context.Background(), tenant.Config{StaticKeys: c.APIKeys}); err != nil {
			return nil, err
		}
	}
	s.responses = stored.New(c.Responses, s.running, c.HeartbeatEvery)
	s.routes, s.unknown = s.routeTable(), s.other()
	s.turns = turnstile.New("long prompts wait to be tokenised", s.running.Aborted(), s.busy)
	s.reports = make(chan struct{}, reportsAtOnce)
	s.runner = &generation.Runner{Hooks: &s.config.Hooks, Running: s.running, Estimates: s.estimates,
		Heartbeat: c.Heartbeat, HeartbeatEvery: c.HeartbeatEvery, ProgressEvery: c.ProgressEvery}
	s.relay = &relay.Relay{Hooks: &s.config.Hooks, Running: s.running, Estimates: s.estimates, Counter: c.Counter}
	s.grammars = constraint.NewCompiler(c.GrammarBytes, s.running.Aborted(), s.busy)
	s.loading.Store(&models.LoadProgress{})
	return s, nil
}

// Keys are the idempotency keys of this server, which other endpoints of the process share.
func (s *Server) Keys() *edge.Keys { return s.keys }

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.running.IsDraining() }

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	fault := c.route.serve(c)
	c.tellWork()
	return fault
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) {
	fault.Write(c.ctx)
	c.reshape(fault)
}

// Describe implements edge.Call.
func (c *call) Describe(fault *api.Error, r *edge.Refusal) {
	r.Moderation, r.Arm, r.Started = c.refusedBy(fault), c.arm(), c.started
	if c.found != nil {
		r.Model, r.Version = c.found.ID, c.found.Version
	}
	if c.held != nil && c.held.Label != "" {
		r.Version = c.held.Label
	}
}

// End implements edge.Call.
func (c *call) End() {
	c.letGo()
	c.endTurn()
}

// Drain refuses new requests, waits for running generations until ctx ends and
// then ends those that still run with an error event.
func (s *Server) Drain(ctx context.Context) error {
	return s.running.Drain(ctx, s.config.AbortTimeout)
}

// busy reports whether any model's backend is running sequences.
func (s *Server) busy() bool {
	set := s.models.Load()
	if set == nil {
		return false
	}
	for _, m := range set.List {
		if m.Upstream == nil && m.Load().Running > 0 {
			return true
		}
	}
	return false
}

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
	turn     *turnstile.Turn // to read a long body; nil for a short one
	beside   time.Duration   // of processors, that the request took beside the engine
	started  bool            // OnRequestStart was called, or would have been

	found *models.Model // that the request names; nil: none, or not read yet

	moderated *moderation.Report // what policies have found; nil: none was asked
	policyOf  string             // the model whose policy refused the request

	label string       // of the version that the request names
	held  *models.Held // the version that answers; nil: none is held

	chosen router.Arm // of the version that answers, also when it is held no more
	again  bool       // a request that generates, which another version may be asked
	failed bool       // the candidate of a rollout has failed the request
	spare  bool       // so that the stable version answers

	internal *edge.InternalRequest // nil: the request has a connection

	execution  *execution // under an idempotency key
	keyIgnored bool       // the request has a key, and the server keeps none
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
	if c.route.ownShape() {
		c.ctx.Response.Header.Set("Request-Id", name)
	}
	return name
}

// body takes the request's JSON object apart. Where it needs a turn the call has one from here on.
func (c *call) body() (*job.Body, *api.Error) {
	if err := checkContent(&c.ctx.Request.Header); err != nil {
		return nil, err
	}
	body := c.ctx.PostBody()
	if c.server.turns.Needed(len(body)) {
		if fault := c.takeTurn(); fault != nil {
			return nil, fault
		}
	}
	o, fault := job.ReadBody(body, c.server.config.Strict)
	if fault == nil {
		o.Turn = c.turn
	}
	return o, fault
}

// takeTurn waits for a turn.
func (c *call) takeTurn() (fault *api.Error) {
	c.turn, fault = c.server.turns.Take(c.gone(), c.caller.Tenant.Name)
	return fault
}

// endTurn gives the call's turn back, if it has one.
func (c *call) endTurn() {
	c.turn.End()
	c.turn = nil
}

// model resolves the model field to a model that has its tokenizer here.
func (c *call) model(o *job.Body) (*models.Model, *api.Error) {
	m, fault := c.resolve(o.Object)
	if fault == nil {
		fault = tokenizesHere(m)
	}
	if fault != nil {
		return nil, fault
	}
	return c.serving(m, o, nil, "")
}

func tokenizesHere(m *models.Model) *api.Error {
	if m.Upstream == nil {
		return nil
	}
	return api.RefuseParam("model_is_relayed", "model", "the model %s is served by another server, which has its tokenizer; "+
		"here it takes %s, %s, %s, %s, %s, %s and %s", m.ID, routeChat, routeCompletions, routeResponses, routeMessages, routeEmbeddings, routeRerank, routeScore)
}

// resolve looks the model field up in the model table.
func (c *call) resolve(o *jsonbody.Object) (*models.Model, *api.Error) {
	var fault *api.Error
	name, _ := o.Text("model", &fault)
	if fault != nil {
		return nil, fault
	}
	return c.named(name)
}

// models are those that the caller may use.
func (c *call) models() (*models.Set, *api.Error) {
	set := c.server.models.Load()
	if set == nil {
		return nil, modelLoading(*c.server.loading.Load())
	}
	return set.Of(&c.caller), nil
}

// named looks a name up in the model table; "" is the only model.
func (c *call) named(name string) (*models.Model, *api.Error) {
	set, fault := c.models()
	if fault != nil {
		return nil, fault
	}
	m, ok := set.Find(name)
	switch {
	case !ok && c.server.hasClassical(&c.caller, name):
		return nil, api.RefuseParam("wrong_model_kind", "model", "the model %s is a classical model, which predicts: ask POST /v1/models/%[1]s:predict or POST /v2/models/%[1]s/infer", name)
	case ok:
		c.found = m
		if set.ByName[name] == nil {
			_, c.label = models.SplitVersion(name)
		}
		return c.priced(m), nil
	case len(set.List) == 0:
		c.found, _ = c.server.models.Load().Find(name)
		return nil, api.RefuseParam("model_not_found", "model", "no language model or text encoder is served here, or none to this caller")
	case name == "":
		return nil, jsonbody.Missing("model", "one of: "+set.IDs())
	}
	c.found, _ = c.server.models.Load().Find(name) // one that the caller may not use is named to operators
	return nil, modelNotFound(name, set.IDs())
}

// hasClassical reports whether a name is that of a classical model that the caller may use.
func (s *Server) hasClassical(caller *tenant.Caller, name string) bool {
	return s.config.Classical != nil && caller.MayUse(name) &&
		slices.ContainsFunc(s.config.Classical(), func(m router.ModelState) bool { return m.Name == name })
}

func (c *call) chatCompletions() *api.Error { return c.generation(&chatEndpoint) }

func (c *call) completions() *api.Error { return c.generation(&completionEndpoint) }

func (c *call) responses() *api.Error { return c.generation(&responseEndpoint) }

func (c *call) generation(e *endpoint) *api.Error {
	return c.once(&e.service, func() *api.Error { return c.generate(e) })
}

// question reads the body of a request to a model.
func (c *call) question() (*job.Body, *api.Error) {
	o, fault := c.body()
	if fault == nil && c.keyIgnored {
		o.Notes.Add("ignored the header %s", edge.KeyHeader)
	}
	return o, fault
}

// generate is the life of a generation request up to its answer, or up to the
// stream that gives it.
func (c *call) generate(e *endpoint) *api.Error {
	o, fault := c.question()
	if fault != nil {
		return fault
	}
	if e == &responseEndpoint {
		if fault = c.stored().Recall(o); fault != nil {
			return fault
		}
	}
	m, fault := c.resolve(o.Object)
	if fault != nil {
		return fault
	}
	lowered := c.brownout()
	m = lowered.model(m, o.Notes)
	fault = c.answerWith(e, m, o, lowered, len(m.Fallback) > 0)
	for i := 0; i < len(m.Fallback) && c.fallsBack(fault); i++ {
		next, ok := c.fallback(m.Fallback[i], m)
		if !ok {
			continue
		}
		c.ctx.Response.Header.Set("X-Weir-Fallback", next.ID)
		fault = c.answerWith(e, next, o, lowered, i+1 < len(m.Fallback))
	}
	return fault
}

// fallsBack reports whether another model shall answer: the servers behind a model could not,
// and no client has seen anything of their answer.
func (c *call) fallsBack(fault *api.Error) bool {
	return fault != nil && (fault.Code == relay.UpstreamUnavailable || fault.Code == relay.NoReplica || fault.Code == relay.NoReplicaInRegion) && !c.server.running.IsDraining()
}

// fallback is a model that answers in another one's place, where the caller may use it.
func (c *call) fallback(name string, instead *models.Model) (*models.Model, bool) {
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

// answerBy has one model answer. more: another one may answer in its place, so that what a
// server behind it refuses for want of room is a fault, and the request is kept until then.
func (c *call) answerBy(e *endpoint, m *models.Model, o *job.Body, lowered degradation, more bool) *api.Error {
	if m.Upstream != nil {
		if c.wantsPrefix() {
			return noPrefix("the model " + m.ID + " is served by another server")
		}
		return c.relayAnswer(e, m, o, more)
	}
	defer c.tellLoad(m)
	if m.Kind() != models.KindGenerate {
		return wrongKind(m)
	}
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
	ended := c.works()
	j, fault := e.read(c.server.config.reader(), o, m)
	ended()
	c.endTurn()
	who := c.holder(m)
	if fault == nil {
		fault = j.RefuseTokens()
	}
	if fault != nil {
		c.failsToRead(fault)
	}
	if fault == nil {
		fault = c.limitAnswer(j, &who)
	}
	if fault != nil {
		c.tellRemaining(m)
		return fault
	}
	j.Route, j.NewEncoder = e.route, e.encode
	j.ID, j.Name = e.prefix+c.id, e.prefix+c.name(j.Params.RequestID)
	j.Tenant, j.Key = c.caller.Tenant, c.caller.KeyID()
	if c.caller.Peer && len(j.Prompts) == 1 {
		j.KV = c.caller.KV
	}
	j.Arrived, j.Created, j.Trace = c.arrived, c.arrived.Unix(), c.trace
	j.Arm, j.Copied, j.Moderated = c.arm(), c.copied(), c.moderated
	j.Terms, j.KeepsTexts = t, c.caller.Tenant.LogPrompts || j.Arm.Name != ""
	lowered.job(j)
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
	if !c.mayBeSpared() {
		api.ReleaseBody(c.ctx)
	}
	j.Retries = c.retries()
	j.Params.IncludeProgress = j.Params.IncludeProgress || string(c.ctx.Request.Header.Peek("X-Weir-Progress")) == "1"
	warn(c.ctx, j.Params.Notes)
	if fault = c.run(j, who); fault != nil && c.started && (fault.Status >= statusInternal || fault.Status == http.StatusTooManyRequests) {
		c.spares(fault)
	}
	return fault
}

// run reserves, submits the job and answers. For a stream the generation goes over
// to the response's body, which ends it.
func (c *call) run(j *job.Job, who quota.Holder) *api.Error {
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	handedOver := false
	defer func() {
		if !handedOver {
			s.running.Leave()
		}
	}()
	recalled := c.recall(j)
	ask, most := s.ask(j)
	if recalled.IsHit() {
		ask.Output, ask.Most, most = 0, 0, 0
	}
	paid, fault := c.reserve(who, ask, most)
	if fault != nil {
		return fault
	}
	submitted := false
	defer func() {
		if !submitted {
			paid.Settle(quota.Use{})
		}
	}()
	if fault, answered := c.takeKey(); answered {
		return fault
	}
	c.started = true
	gone := c.watch()
	var run *stored.Run
	if j.Background {
		run = s.responses.Runs.Add(stored.KeyOf(j))
		gone = run.Cancel
		defer func() {
			if !handedOver {
				s.responses.Runs.End(stored.KeyOf(j), run)
			}
		}()
	}
	g, fault := s.runner.Start(j, paid, recalled, gone)
	if fault != nil {
		return fault
	}
	submitted = true
	returned := false
	defer func() {
		if handedOver {
			return
		}
		if !returned { // a panic is on its way to the boundary that answers it
			g.Fail(internalError("panic"))
		}
		g.End()
	}()
	if j.Params.Stream && run == nil {
		body := generation.NewEventStream(g, s.running.Leave)
		if fault = body.Await(); fault == nil {
			handedOver = true
			c.stream(body)
		}
		returned = true
		return fault
	}
	if run != nil {
		fault = c.runInBackground(g, run)
		handedOver, returned = fault == nil, true
		return fault
	}
	fault = g.Run()
	if fault == nil {
		if g.Result.Limit != "" {
			j.Params.Notes.Add("the answer ended at %s %s", g.Bill.Whose(), g.Result.Limit)
			warn(c.ctx, j.Params.Notes)
		}
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(g.Answer())
		c.warnUnkept(j)
	}
	returned = true
	return fault
}

// stream answers with server-sent events, which body gives and Close ends.
func (c *call) stream(body answerStream) {
	body = c.holding(body)
	if c.execution != nil {
		c.events(c.execution.record(body))
		return
	}
	c.events(body)
}

const eventStreamType = "text/event-stream; charset=utf-8"

// events answers with the body's bytes as they come.
func (c *call) events(body io.ReadCloser) {
	h := &c.ctx.Response.Header
	h.SetContentType(eventStreamType)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.ctx.Response.ImmediateHeaderFlush = true // the header must not wait for the first token
	c.ctx.SetBodyStream(body, -1)
}

// retries is how often the client says that it has tried before.
func (c *call) retries() int { return int(c.headerNumber("X-Stainless-Retry-Count")) }

// terms reads the terms of the call.
func (c *call) terms() priority.Reader {
	return priority.Reader{Header: &c.ctx.Request.Header, Arrived: c.arrived, ClientTimeouts: c.server.config.ClientTimeouts}
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

var _ edge.Protocol = (*Server)(nil)
