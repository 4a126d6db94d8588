package openai

import (
	"context"
	"errors"
	"math"
	"net/http"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/relay"
	"weir/api/openai/responses"
	"weir/router"
)

// Responses and Messages pass to the servers behind a model as they came where all of these
// have that API and nothing of the answer is kept here. Otherwise the servers are asked for a
// chat that says the same, and what they answer is written in the form that the client
// asked for: the same readers and encoders do it as for a model of this process.

// relayAnswer has the servers behind a model answer a request that generates. more: another
// model may answer in its place.
func (c *generating) relayAnswer(m *models.Model, o *job.Body, more bool) *api.Error {
	e := c.endpoint
	m, fault := c.lease.take(m, o, nil, e.route)
	if fault != nil {
		return fault
	}
	defer c.lease.release()
	r := relaying{call: c.call, Request: &relay.Request{Route: e.route, Prefix: e.prefix, Writes: e.writes, Model: m, Asked: o, Sent: o.Object, Path: e.upstream, More: more}}
	switch {
	case e.reword == nil:
	case !offers(m, e) || e == &responseEndpoint && o.KeepsState():
		if fault := r.reword(e); fault != nil {
			return fault
		}
	case e == &responseEndpoint:
		r.Sent = unstored(o.Object)
	}
	return r.answer()
}

// offers reports whether all servers behind a model have an endpoint's own API.
func offers(m *models.Model, e *endpoint) bool {
	switch e {
	case &messageEndpoint:
		return m.Upstream.Offers(router.Messages)
	case &responseEndpoint:
		return m.Upstream.Offers(router.Responses)
	}
	return false
}

// unstored is a request of Responses whose answer the server behind the model shall not keep:
// clients could not come back to it, since their next request may go to another server.
func unstored(o *jsonbody.Object) *jsonbody.Object {
	sent := o.Without("store", "background", "previous_response_id", "conversation")
	sent.Add("store", []byte("false"))
	return sent
}

// reword makes a relayed request one of a chat, and the job that writes its answer.
func (r *relaying) reword(e *endpoint) *api.Error {
	asked := r.Asked.Under(r.Asked.Notes) // a fallback may read it, too
	w, fault := e.reword(asked)
	if fault != nil {
		return fault
	}
	if response, _ := w.Own.(*responses.Request); response != nil && response.Truncates {
		response.Truncates = false
		asked.Ignored("truncation", jsonbody.Unsupported("truncation", "leave it out: the tokens of the servers behind the model "+r.Model.ID+" are not counted here"), &fault)
	}
	w.Finish(asked.Object)
	own := w.Chat.Unread()
	p := &params.Params{
		N: own.Count("n", 1, math.MaxInt32, 1, &fault), Stream: own.Flag("stream", false, &fault), MaxTokens: params.AsManyAsFit,
		Logprobs: own.Flag("logprobs", false, &fault),
	}
	p.Sampling.Temperature = own.Number("temperature", anyNumber, 1, &fault)
	p.Sampling.TopP = own.Number("top_p", anyNumber, 1, &fault)
	goesOn := own.Flag("continue_final_message", false, &fault)
	switch {
	case fault != nil:
		return w.Explain(fault)
	case p.Logprobs:
		return w.Explain(jsonbody.Unsupported("logprobs", "the servers behind the model "+r.Model.ID+" are asked for a chat, whose tokens are not known here"))
	case goesOn && !r.Model.Upstream.Offers(router.Continuing):
		return jsonbody.Unsupported("messages", "end with a message of the user: the servers behind the model "+r.Model.ID+" do not go on with one of the assistant")
	}
	if fault = w.CheckCount(p.N); fault != nil {
		return fault
	}
	if fault = r.readTerms(); fault != nil {
		return fault
	}
	j := &job.Job{
		ID: e.prefix + r.id, Name: e.prefix + r.name(""), Route: e.route, NewEncoder: e.encode, Model: r.Model, Params: p, ClientNames: w,
		Tenant: r.caller.Tenant, Key: r.caller.KeyID(), Terms: r.terms, Created: r.arrived.Unix(), Arrived: r.arrived, Own: w.Own, Background: w.Background,
	}
	p.ContinuousUsage = e == &messageEndpoint
	r.keepResponse(j)
	r.Sent, r.Path, r.Job = w.ForServers(p), relay.PathChat, j
	return nil
}

// anyNumber leaves it to the servers what they take.
var anyNumber = jsonbody.Interval{Low: math.Inf(-1), High: math.Inf(1)}

// countTokens has the servers behind a model count the tokens of a request of Messages.
func (r *relaying) countTokens() *api.Error {
	m := r.Model
	if !m.Upstream.Offers(router.Messages) {
		return api.RefuseParam("model_is_relayed", "model", "the model %s is served by other servers, and not all of them count tokens for this API; "+
			"set tokenizer for the model, or apis: [messages] for replicas that do", m.ID)
	}
	if !r.server.running.Enter() {
		return edge.ShuttingDown()
	}
	defer r.server.running.Leave()
	if fault := r.readTerms(); fault != nil {
		return fault
	}
	ctx, cancel := r.context()
	defer cancel(nil)
	a, err := m.Upstream.Send(ctx, r.routerCall())
	defer a.Release()
	switch {
	case errors.Is(err, router.ErrNoMemory):
		return relay.NoMemory()
	case errors.Is(err, router.ErrOversized):
		return relay.Oversized()
	case errors.Is(err, router.ErrResidency):
		return relay.Displaced()
	case err != nil:
		if fault := r.server.config.Hooks.Interrupted(m.ID, context.Cause(ctx)); fault != nil {
			return fault
		}
		return api.Refuse(relay.UpstreamUnavailable, "the servers behind this model did not answer; retry")
	case a.Status != http.StatusOK:
		return relay.RefusalOf(a)
	}
	r.tellRoute(a)
	r.ctx.SetContentType(a.Header.Get("Content-Type"))
	r.ctx.Response.SetBodyRaw(a.Whole)
	return nil
}
