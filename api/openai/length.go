package openai

import (
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// Values of params.maxTokens that are no limit.
const (
	asManyAsFit  = -1 // what the context leaves beside the prompt
	lengthNotSet = -2 // the endpoint's own default
)

// truncateToFit is the value of truncate_prompt_tokens that keeps as much of a
// prompt as fits beside the answer asked for.
const truncateToFit = -1

// readMaxTokens reads the limit of output tokens under any of its names.
func (p *params) readMaxTokens(o *jsonbody.Object, fault **api.Error) {
	p.maxTokens = lengthNotSet
	for _, name := range models.LengthNames {
		n, ok := o.Integer(name, asManyAsFit, maxInt32, fault)
		switch {
		case !ok:
		case p.maxTokens == lengthNotSet:
			p.maxTokens, p.lengthName = int(n), name
		case p.maxTokens != int(n):
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", name, "%s and %s are the same limit and differ: %d and %d; send one",
				name, p.lengthName, n, p.maxTokens))
		}
	}
}

// refuseNoTokens refuses a limit of 0 output tokens, unless the prompt's own
// logprobs are asked for.
func (j *job) refuseNoTokens(fault **api.Error) {
	if p := j.params; p.maxTokens == 0 && j.promptLogprobs < 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", p.lengthName,
			"%s is 0, so there would be no answer; send at least 1, or leave it out. "+
				"0 is for prompt_logprobs, and for echo of /v1/completions", p.lengthName))
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
	wanted := p.maxTokens
	switch p.maxTokens {
	case asManyAsFit:
		wanted = limit
	case lengthNotSet:
		wanted = otherwise
	}
	room := limit - longest
	switch {
	case room < min(wanted, 1):
		return contextExceeded(part, longest, max(p.maxTokens, min(wanted, 1)), limit)
	case p.maxTokens > room && p.notes.Strict:
		return contextExceeded(part, longest, p.maxTokens, limit)
	case p.maxTokens > room:
		p.notes.Add("%s %d cut to %d; the context has %d", p.lengthName, p.maxTokens, room, limit)
	}
	j.maxTokens = min(wanted, limit-shortest)
	if most := max(p.maxTokens, j.maxTokens); p.minTokens > most {
		return api.RefuseParam("invalid_value", "min_tokens", "min_tokens is %d, above the limit of output tokens, %d", p.minTokens, most)
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
	if p.truncate != truncateToFit {
		return p.truncate
	}
	wanted := p.maxTokens
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

// readTruncate reads truncate_prompt_tokens: how many of a prompt's last
// tokens stay.
func readTruncate(o *jsonbody.Object, m *models.Model, fault **api.Error) int {
	n := o.Count("truncate_prompt_tokens", truncateToFit, m.MaxModelLen, truncateToFit-1, fault)
	switch {
	case n == 0:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncate_prompt_tokens",
			"truncate_prompt_tokens is 0, which leaves nothing of the prompt; send at least 1, or -1 for what fits"))
	case n < truncateToFit:
		return 0
	}
	return n
}
