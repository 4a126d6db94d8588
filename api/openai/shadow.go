package openai

import (
	"bytes"
	"context"
	"strings"
	"time"

	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/internal/inference"
)

// A shadow is an answer that nobody sees: a copy of a request that a client was answered,
// computed by another version to be compared. It is not billed, hooks do not hear of it,
// and it runs in the lowest class.

// greedyCopy is the request of a copy that is to be answered with the likeliest tokens.
func greedyCopy(o *jsonbody.Object) *jsonbody.Object {
	own := o.Without("temperature", "n", "best_of", "logprobs", "top_logprobs")
	own.Add("temperature", []byte("0"))
	return own
}

// shadows is whom shadows are computed for: no tenant's share of the service pays for them,
// and no tenant's cached blocks are read.
var shadows = tenant.New("weir-shadow")

// Shadowed is what became of a shadow. Times are 0 where no token came, or only one.
type Shadowed struct {
	Texts  []string
	Output int // tokens
	TTFT   time.Duration
	ITL    time.Duration // mean gap between tokens

	Compute time.Duration // of the engine; 0 for an upstream's answer
}

// copied keeps what a copy of the call's request needs; nil: nobody wants one, or the body does not
// have all that the model reads.
func (c *call) copied() func(texts []string, f *edge.RequestFinish) {
	if c.held == nil || c.held.Copy == nil || bytes.Contains(c.ctx.PostBody(), []byte(`"previous_response_id"`)) {
		return nil
	}
	kept := &models.Copy{Ask: *c.held.Ask, Body: bytes.Clone(c.ctx.PostBody()), Residency: c.caller.Tenant.Residency}
	want := c.held.Copy
	return func(texts []string, f *edge.RequestFinish) {
		kept.Texts, kept.Finish = texts, *f
		want(kept)
	}
}

// Shadow computes a copy with another model. It returns when the answer is whole or ctx
// ends; the error is that of a request.
func (s *Server) Shadow(ctx context.Context, m *models.Model, c *models.Copy) (Shadowed, error) {
	e := endpointOf(c.Ask.Endpoint)
	if e == nil {
		return Shadowed{}, internalError("a copy of a request to " + c.Ask.Endpoint + " cannot be read")
	}
	o, fault := job.ReadBody(c.Body, false)
	if fault != nil {
		return Shadowed{}, fault
	}
	if c.Greedy {
		o.Object = greedyCopy(o.Object)
	}
	if s.turns.Needed(len(c.Body)) {
		turn, fault := s.turns.Take(ctx.Done(), shadows.Name)
		if fault != nil {
			return Shadowed{}, fault
		}
		o.Turn = turn
	}
	if m.Upstream != nil {
		o.Turn.End()
		return s.shadowElsewhere(ctx, e, m, o, c.Residency)
	}
	j, fault := e.read(s.config.reader(), o, m)
	o.Turn.End()
	if fault != nil {
		return Shadowed{}, fault
	}
	j.Route, j.NewEncoder = e.route, e.encode
	j.ID, j.Tenant = "shadow-"+c.Ask.ID, &shadows
	j.Arrived, j.Terms, j.KeepsTexts = time.Now(), priority.Terms{Class: inference.Batch}, true
	if !s.running.Enter() {
		return Shadowed{}, edge.ShuttingDown()
	}
	defer s.running.Leave()
	return s.computeShadow(ctx, j)
}

// endpointOf is the endpoint of a route that generates; nil: the route does not.
func endpointOf(route string) *endpoint {
	for _, e := range []*endpoint{&chatEndpoint, &completionEndpoint, &responseEndpoint, &messageEndpoint} {
		if e.route == route {
			return e
		}
	}
	return nil
}

func (s *Server) computeShadow(ctx context.Context, j *job.Job) (Shadowed, error) {
	quiet := &Server{config: s.config, running: s.running, estimates: s.estimates}
	quiet.config.Hooks = edge.Hooks{}
	g := &generation{server: quiet, job: j, gone: ctx.Done()}
	streams, err := g.submit()
	if err != nil {
		return Shadowed{}, err
	}
	for _, st := range streams {
		g.streams = append(g.streams, &stream{Stream: st})
	}
	for i := range len(j.Prompts) * j.Params.N {
		g.choices = append(g.choices, newChoice(j, g.streams[i/j.Params.N], i))
	}
	g.open = len(g.choices)
	fault := g.run()
	g.cancel()
	if fault != nil {
		return Shadowed{}, fault
	}
	got := Shadowed{Texts: g.answers(), Output: g.outputTokens(), TTFT: since(j.Arrived, g.result.FirstToken), ITL: g.meanGap()}
	for _, st := range g.streams {
		got.Compute += st.Compute()
	}
	return got, nil
}

func since(from, to time.Time) time.Duration {
	if to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// meanGap is the mean time between the tokens of a choice; 0 where there was none.
func (g *generation) meanGap() time.Duration {
	if gaps := g.outputTokens() - len(g.choices); gaps > 0 {
		return since(g.result.FirstToken, g.result.LastToken) * time.Duration(len(g.choices)) / time.Duration(gaps)
	}
	return 0
}

// answers are the texts of all choices, of a job that keeps them.
func (g *generation) answers() []string {
	var list []string
	for _, c := range g.choices {
		list = append(list, c.said())
	}
	return list
}

// judge notes what a rollout asks of an answer's text: whether there is any, and whether
// it refuses.
func (g *generation) judge() {
	g.result.Empty = g.open == 0 && g.result.Status == statusOK && len(g.choices) > 0
	for i, c := range g.choices {
		g.result.Empty = g.result.Empty && c.saysNothing()
		if g.job.Arm.Name != "" && i == 0 {
			g.result.Refuses = c.isFiltered() || refuses(g.answers()[0])
		}
	}
}

// refusals are how answers of common models begin that do not do what was asked.
var refusals = []string{"i'm sorry, but", "i am sorry, but", "i cannot ", "i can't ", "i'm unable to", "i am unable to", "i'm not able to", "i won't "}

// refusalBytes is where an answer that refuses has said so.
const refusalBytes = 120

func refuses(text string) bool {
	text = strings.ToLower(strings.ReplaceAll(text[:min(len(text), refusalBytes)], "’", "'"))
	for _, r := range refusals {
		if strings.Contains(text, r) {
			return true
		}
	}
	return false
}
