package job

import (
	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/params"
)

// RefuseNoTokens refuses a limit of 0 output tokens, unless the prompt's own
// logprobs are asked for.
func (j *Job) RefuseNoTokens(fault **api.Error) {
	if p := j.Params; p.MaxTokens == 0 && j.PromptLogprobs < 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", p.LengthName,
			"%s is 0, so there would be no answer; send at least 1, or leave it out. "+
				"0 is for prompt_logprobs, and for echo of /v1/completions", p.LengthName))
	}
}

// LimitOutput gives the job its limit of output tokens, otherwise where the
// request names none, and refuses prompts that leave no room for an answer.
// A limit beyond the context is cut, and refused by a strict server: a client that
// sends it seldom counted the prompt. part says in which field prompts are.
func (j *Job) LimitOutput(part string, otherwise int) *api.Error {
	p, limit := j.Params, j.Model.MaxModelLen
	shortest, longest := limit, 0
	for i := range j.Prompts {
		j.Prompts[i].truncate(j.keep(otherwise), p.KeepsStart, j.Model)
		n := len(j.Prompts[i].IDs)
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
		return ContextExceeded(part, longest, max(p.MaxTokens, min(wanted, 1)), limit)
	case p.MaxTokens > room && p.Notes.Strict:
		return ContextExceeded(part, longest, p.MaxTokens, limit)
	case p.MaxTokens > room:
		p.Notes.Add("%s %d cut to %d; the context has %d", p.LengthName, p.MaxTokens, room, limit)
	}
	j.MaxTokens = min(wanted, limit-shortest)
	if most := max(p.MaxTokens, j.MaxTokens); p.MinTokens > most {
		return api.RefuseParam("invalid_value", "min_tokens", "min_tokens is %d, above the limit of output tokens, %d", p.MinTokens, most)
	}
	return nil
}

// Room is how many output tokens a choice of prompt i may have.
func (j *Job) Room(i int) int {
	return min(j.MaxTokens, j.Model.MaxModelLen-len(j.Prompts[i].IDs))
}

// keep is how many tokens of a prompt truncate_prompt_tokens leaves; 0 is all.
func (j *Job) keep(otherwise int) int {
	p := j.Params
	if p.Truncate != params.TruncateToFit {
		return p.Truncate
	}
	wanted := p.MaxTokens
	if wanted < 0 {
		wanted = otherwise
	}
	return max(1, j.Model.MaxModelLen-wanted)
}

// ContextExceeded is worded as the OpenAI API words it: clients that fall back
// to another model or to a shorter prompt look for this text. part is the
// field that holds the prompt.
func ContextExceeded(part string, prompt, output, limit int) *api.Error {
	return api.RefuseExceeded(api.Exceeded{Prompt: prompt, Context: limit}, part,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
			"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}
