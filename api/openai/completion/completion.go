package completion

import (
	"slices"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/prompt"
)

// defaultMaxTokens of a completion; the OpenAI API's own.
const defaultMaxTokens = 16

// ReadCompletion reads a completion request into a job.
func (r Reader) ReadCompletion(o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	m.Fill(o.Object)
	var fault *api.Error
	p := params.Read(o.Object, m, r.Rules, &fault)
	j := &job.Job{Model: m, Params: p, PromptLogprobs: p.PromptLogprobs}
	j.Echo = o.Flag("echo", false, &fault)
	readCompletionLogprobs(j, o.Object, &fault)
	prompts := prompt.Reader{Field: "prompt", TooMany: "with this n, and each choice counts as a request; send fewer at once, or raise --max-choices",
		Model: m, Permit: o.Permit, Notes: o.Notes}
	readSuffix(&prompts, j, o.Object, &fault)
	prompts.Options.AddSpecial = o.Flag("add_special_tokens", true, &fault)
	prompts.Options.ParseSpecial = o.Flag("parse_special", r.ParseSpecial, &fault)
	if p.Truncate == 0 {
		prompts.Options.Limit = m.CountedLimit()
	}
	j.RefuseNoTokens(&fault)
	raw, ok := o.Take("prompt")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("prompt", prompt.Forms))
	}
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return nil, fault
	}
	j.Parsed = time.Now()
	prompts.Most = r.Rules.MaxChoices / p.N
	if j.Prompts, fault = prompts.All(raw); fault != nil {
		return nil, fault
	}
	return j, j.LimitOutput("prompt", defaultMaxTokens)
}

// readSuffix reads suffix: the text behind what the answer fills in. The answer ends, too, where the model goes on with one of
// the tokens that a prompt for it has.
func readSuffix(prompts *prompt.Reader, j *job.Job, o *jsonbody.Object, fault **api.Error) {
	p := j.Params
	if prompts.ReadSuffix(o, fault); prompts.Suffix == "" {
		return
	}
	switch {
	case j.Echo:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "echo",
			"echo does not go with suffix: the prompt that the model reads has both texts in it; put the prompt before the answer yourself"))
	case p.Truncate != 0:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncate_prompt_tokens",
			"truncate_prompt_tokens does not go with suffix: the prompt begins with a token that may not be cut; send less of the text"))
	}
	if f, ok := j.Model.Tokenizer.FillIn(); ok && !p.IgnoreEOS {
		p.StopTokens = append(slices.Clip(p.StopTokens), f.Prefix, f.Suffix, f.Middle)
	}
}

// readCompletionLogprobs reads logprobs, a count of alternatives. With echo the prompt's
// tokens have theirs too. An answer of no tokens needs some pass over the
// prompt, and the one for logprobs is what backends offer.
func readCompletionLogprobs(j *job.Job, o *jsonbody.Object, fault **api.Error) {
	p := j.Params
	if top, ok := o.Integer("logprobs", 0, int64(j.Model.LogprobsLimit()), fault); ok {
		p.Logprobs, p.EndLogprob = true, true
		p.Sampling.Logprobs = int(top)
	}
	p.RefuseNamed("0", fault)
	if j.Echo && (p.Logprobs || p.MaxTokens == 0) {
		j.PromptLogprobs = max(0, p.Sampling.Logprobs, p.PromptLogprobs)
	}
}
