// Package job holds a generation request that was read: its prompts, parameters and limits, and how its answers are taken apart.
//
//	o, fault := job.ReadBody(body, true) // checked and taken apart once
//	…
//	fault = j.LimitOutput("prompt", 16) // what the context leaves, or a refusal
package job

import (
	"time"

	"weir/api"
	"weir/api/openai/answer"

	"weir/api/edge"
	"weir/api/moderation"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/priority"
	"weir/api/openai/reasoning"
	"weir/api/openai/toolset"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// Job is a parsed generation request: what to run and how to answer. It is not
// changed after it was parsed.
type Job struct {
	ID             string // ours, unique
	Name           string // what the answer is called; the client's own, where it has one
	Model          *models.Model
	Params         *params.Params
	Route          string                    // of its endpoint, as hooks know it
	NewEncoder     func(*Job) answer.Encoder // in the form of its API
	Lines          bool                      // its stream is JSON lines, in which no comments may stand
	ClientNames    Explainer                 // of a request that was read as a chat: the names that it has itself; nil for others
	Own            any                       // what its API alone knows of it
	Background     bool                      // the answer is computed without its client
	Echo           bool                      // the prompt is part of the text
	Reading        *Reading                  // how answers are taken apart; nil: they are text
	Prompts        []Prompt
	Constraint     inference.Constraint // what answers must obey; nil: nothing
	Beside         time.Duration        // processor time that reading the prompt and compiling the constraint took
	ConstraintKey  string               // equal where the constraints are; "" without one
	MaxTokens      int                  // per choice, as far as its prompt leaves room
	PromptLogprobs int                  // alternatives per prompt token; -1 is none
	Tenant         *tenant.Tenant
	Key            string               // id of the caller's API key; "" where another proof counted
	KV             inference.KVTransfer // what a router says of the prompt's KV blocks
	Terms          priority.Terms
	Retries        int
	Counted        bool  // by another weir on the same store
	Created        int64 // Unix seconds
	Arrived        time.Time
	LoadBegan      time.Time // it waited for its model to be in memory; the zero time: it did not
	Loaded         time.Time
	Parsed         time.Time // before the prompt was tokenised
	Trace          edge.Trace
	Moderated      *moderation.Report                          // what the model's policy finds; nil: there is none
	KeepsTexts     bool                                        // its tenant agreed, or a rollout compares them
	Arm            router.Arm                                  // of the rollout that chose the version
	Copied         func(texts []string, f *edge.RequestFinish) // gets the whole answer; nil: it is not wanted
}

// noTools are those of a request without tools; never changed.
var noTools toolset.Set

// Tools are those of the request.
func (j *Job) Tools() *toolset.Set {
	if j.Reading == nil {
		return &noTools
	}
	return &j.Reading.Tools
}

// Price is what the job's tokens cost.
func (j *Job) Price() quota.Price { return j.Model.Price.OfClass(j.Terms.Class) }

// PromptTokens counts those of all prompts.
func (j *Job) PromptTokens() int {
	n := 0
	for _, p := range j.Prompts {
		n += len(p.IDs)
	}
	return n
}

// Requests are the prompts as the backend sees them.
func (j *Job) Requests() []*inference.Request {
	list := make([]*inference.Request, len(j.Prompts))
	for i := range list {
		list[i] = j.request(i)
	}
	return list
}

func (j *Job) request(i int) *inference.Request {
	p, room := j.Params, j.Room(i)
	id := j.ID
	if len(j.Prompts) > 1 {
		id = jsonbody.At(id, i)
	}
	return &inference.Request{
		ID:             id,
		Tenant:         j.Tenant.Name,
		Weight:         j.Tenant.Weight,
		CacheDomain:    j.Tenant.CacheDomain(),
		Class:          j.Terms.Class,
		FirstTokenBy:   j.Terms.FirstTokenBy,
		DoneBy:         j.Terms.DoneBy,
		WaitUntil:      j.Terms.WaitUntil,
		Retries:        j.Retries,
		Prompt:         j.Prompts[i].IDs,
		MaxTokens:      room,
		MinTokens:      min(p.MinTokens, room),
		N:              p.N,
		StopTokens:     p.StopTokens,
		IgnoreEOS:      p.IgnoreEOS,
		PromptLogprobs: j.PromptLogprobs,
		Sampling:       p.Sampling,
		Speculation:    p.Speculation,
		Constraint:     j.bounded(),
		KV:             j.KV,
		Arrived:        j.Arrived,
	}
}

// An Explainer puts the names of the client's own request into a fault of the chat that the request was read as.
type Explainer interface {
	Explain(fault *api.Error) *api.Error
}

// Explain puts the client's own names into a fault that was found after the job was read.
func (j *Job) Explain(fault *api.Error) *api.Error {
	if j.ClientNames != nil {
		return j.ClientNames.Explain(fault)
	}
	return fault
}

// Encoder writes the job's answer in the form of its API.
func (j *Job) Encoder() answer.Encoder { return j.NewEncoder(j) }

// RequestStart is what hooks are told of the job when it is submitted.
func (j *Job) RequestStart() edge.RequestStart {
	return edge.RequestStart{
		ID: j.ID, Endpoint: j.Route, Model: j.Model.ID, Version: j.Model.Version, Arm: j.Arm,
		Tenant: j.Tenant.Name, Key: j.Key, Class: j.Terms.Class, Stream: j.Params.Stream,
		Prompts: len(j.Prompts), PromptTokens: j.PromptTokens(), N: j.Params.N, MaxTokens: j.MaxTokens,
		Seed: int64(j.Params.Sampling.Seed), Sampled: j.Params.Sampling.Temperature > 0, //nolint:gosec // the bits, as a request takes them
		Prefix: j.KV.DoRemoteDecode, Retries: j.Retries, Counted: j.Counted, Arrived: j.Arrived, LoadBegan: j.LoadBegan, Loaded: j.Loaded, Parsed: j.Parsed, Submitted: time.Now(), Trace: j.Trace,
	}
}

// PromptTexts are the prompts as the model reads them, decoded again.
func (j *Job) PromptTexts() []string {
	ids := make([][]int32, len(j.Prompts))
	for i := range j.Prompts {
		ids[i] = j.Prompts[i].IDs
	}
	return j.Model.Texts(ids)
}

// RefuseTokens refuses what would show the tokens of text that a policy takes out of an answer.
func (j *Job) RefuseTokens() *api.Error {
	if !j.Model.Policy.ChangesOutput() {
		return nil
	}
	for _, f := range []struct {
		name  string
		asked bool
	}{{"logprobs", j.Params.Logprobs}, {"return_token_ids", j.Params.ReturnTokenIDs}} {
		if f.asked {
			return jsonbody.Unsupported(f.name, "the policy "+j.Model.Policy.Name()+" of the model may take text out of answers, and these would show its tokens")
		}
	}
	return nil
}

// Bound sets the budget of a job's thoughts.
func (j *Job) Bound(o *jsonbody.Object, b reasoning.Budget) *api.Error {
	if b.Most < 0 {
		return nil
	}
	if j.Reading == nil || !j.Reading.Thinks {
		var fault *api.Error
		o.Ignored(b.Name, api.RefuseParam("unsupported_parameter", b.Name,
			"%s bounds thoughts, and the model %s marks none; leave it out", b.Name, j.Model.ID), &fault)
		return fault
	}
	j.Reading.Budget = b.Most
	return nil
}

// bounded is the constraint of the job's answers with the budget of their thoughts.
func (j *Job) bounded() inference.Constraint {
	if j.KV.DoRemoteDecode {
		return nil
	}
	if r := j.Reading; r != nil && r.Budget >= 0 {
		return reasoning.Bound(j.Model, r.Budget, r.Options.Opening.Thinking, j.Constraint)
	}
	return j.Constraint
}
