package openai

import (
	"time"

	"weir/api/edge"
	"weir/api/moderation"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/toolset"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// job is a parsed generation request: what to run and how to answer. It is not
// changed after it was parsed.
type job struct {
	id             string // ours, unique
	name           string // what the answer is called; the client's own, where it has one
	model          *models.Model
	params         *params.Params
	endpoint       *endpoint
	reworded       *rewording       // of a request that was read as a chat; nil for others
	response       *responseRequest // of a request of /v1/responses; nil for others
	echo           bool             // the prompt is part of the text
	reading        *reading         // how answers are taken apart; nil: they are text
	prompts        []prompt
	constraint     inference.Constraint // what answers must obey; nil: nothing
	beside         time.Duration        // processor time that reading the prompt and compiling the constraint took
	constraintKey  string               // equal where the constraints are; "" without one
	maxTokens      int                  // per choice, as far as its prompt leaves room
	promptLogprobs int                  // alternatives per prompt token; -1 is none
	tenant         *tenant.Tenant
	key            string               // id of the caller's API key; "" where another proof counted
	kv             inference.KVTransfer // what a router says of the prompt's KV blocks
	terms          terms
	retries        int
	created        int64 // Unix seconds
	arrived        time.Time
	parsed         time.Time // before the prompt was tokenised
	trace          edge.Trace
	moderated      *moderation.Report                          // what the model's policy finds; nil: there is none
	keepsTexts     bool                                        // its tenant agreed, or a rollout compares them
	arm            router.Arm                                  // of the rollout that chose the version
	copied         func(texts []string, f *edge.RequestFinish) // gets the whole answer; nil: nobody wants it
}

// noTools are those of a request without tools; never changed.
var noTools toolset.Set

// tools are those of the request.
func (j *job) tools() *toolset.Set {
	if j.reading == nil {
		return &noTools
	}
	return &j.reading.tools
}

// price is what the job's tokens cost.
func (j *job) price() quota.Price { return j.model.Price.OfClass(j.terms.class) }

func (j *job) promptTokens() int {
	n := 0
	for _, p := range j.prompts {
		n += len(p.ids)
	}
	return n
}

// requests are the prompts as the backend sees them.
func (j *job) requests() []*inference.Request {
	list := make([]*inference.Request, len(j.prompts))
	for i := range list {
		list[i] = j.request(i)
	}
	return list
}

func (j *job) request(i int) *inference.Request {
	p, room := j.params, j.room(i)
	id := j.id
	if len(j.prompts) > 1 {
		id = jsonbody.At(id, i)
	}
	return &inference.Request{
		ID:             id,
		Tenant:         j.tenant.Name,
		Weight:         j.tenant.Weight,
		CacheDomain:    j.tenant.CacheDomain(),
		Class:          j.terms.class,
		FirstTokenBy:   j.terms.firstTokenBy,
		DoneBy:         j.terms.doneBy,
		WaitUntil:      j.terms.waitUntil,
		Retries:        j.retries,
		Prompt:         j.prompts[i].ids,
		MaxTokens:      room,
		MinTokens:      min(p.MinTokens, room),
		N:              p.N,
		StopTokens:     p.StopTokens,
		IgnoreEOS:      p.IgnoreEOS,
		PromptLogprobs: j.promptLogprobs,
		Sampling:       p.Sampling,
		Speculation:    p.Speculation,
		Constraint:     j.bounded(),
		KV:             j.kv,
		Arrived:        j.arrived,
	}
}

// inBackground reports whether the answer is computed without its client.
func (j *job) inBackground() bool { return j.response != nil && j.response.background }

func (j *job) start() edge.RequestStart {
	return edge.RequestStart{
		ID: j.id, Endpoint: j.endpoint.route, Model: j.model.ID, Version: j.model.Version, Arm: j.arm,
		Tenant: j.tenant.Name, Key: j.key, Class: j.terms.class, Stream: j.params.Stream,
		Prompts: len(j.prompts), PromptTokens: j.promptTokens(), N: j.params.N, MaxTokens: j.maxTokens,
		Prefix: j.kv.DoRemoteDecode, Retries: j.retries, Arrived: j.arrived, Parsed: j.parsed, Submitted: time.Now(), Trace: j.trace,
	}
}
