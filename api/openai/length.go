package openai

import (
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

// refuseNoTokens refuses a limit of 0 output tokens, unless the prompt's own
// logprobs are asked for.
func (j *job) refuseNoTokens(fault **api.Error) {
	if p := j.params; p.MaxTokens == 0 && j.promptLogprobs < 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", p.LengthName,
			"%s is 0, so there would be no answer; send at least 1, or leave it out. "+
				"0 is for prompt_logprobs, and for echo of /v1/completions", p.LengthName))
	}
}

// limitOutput gives the job its limit of output tokens, otherwise where the
// request names none, and refuses prompts that leave no room for an answer.
// A limit beyond the context is cut, and refused by a strict server: whoever
// sends it seldom counted the prompt. part says in which field prompts are.
func (j *job) limitOutput(part string, otherwise int) *api.Error {
	p, limit := j.params, j.model.MaxModelLen
	shortest, longest := limit, 0
	for i := range j.prompts {
		j.prompts[i].truncate(j.keep(otherwise), j.model)
		n := len(j.prompts[i].ids)
		shortest, longest = min(shortest, n), max(longest, n)
	}
	wanted := p.MaxTokens
	switch p.MaxTokens {
	case params.AsManyAsFit:
		wanted = limit
	case params.LengthNotSet:
		wanted = otherwise
	}
	room := limit - longest
	switch {
	case room < min(wanted, 1):
		return contextExceeded(part, longest, max(p.MaxTokens, min(wanted, 1)), limit)
	case p.MaxTokens > room && p.Notes.Strict:
		return contextExceeded(part, longest, p.MaxTokens, limit)
	case p.MaxTokens > room:
		p.Notes.Add("%s %d cut to %d; the context has %d", p.LengthName, p.MaxTokens, room, limit)
	}
	j.maxTokens = min(wanted, limit-shortest)
	if most := max(p.MaxTokens, j.maxTokens); p.MinTokens > most {
		return api.RefuseParam("invalid_value", "min_tokens", "min_tokens is %d, above the limit of output tokens, %d", p.MinTokens, most)
	}
	return nil
}

// room is how many output tokens a choice of prompt i may have.
func (j *job) room(i int) int {
	return min(j.maxTokens, j.model.MaxModelLen-len(j.prompts[i].ids))
}

// keep is how many tokens of a prompt truncate_prompt_tokens leaves; 0 is all.
func (j *job) keep(otherwise int) int {
	p := j.params
	if p.Truncate != params.TruncateToFit {
		return p.Truncate
	}
	wanted := p.MaxTokens
	if wanted < 0 {
		wanted = otherwise
	}
	return max(1, j.model.MaxModelLen-wanted)
}

// truncate keeps the last tokens of a prompt.
func (p *prompt) truncate(keep int, m *models.Model) {
	if keep == 0 || len(p.ids) <= keep {
		return
	}
	p.ids = slices.Clone(p.ids[len(p.ids)-keep:]) // the rest is let go of
	p.text = m.Tokenizer.Decode(p.ids, false)
}
