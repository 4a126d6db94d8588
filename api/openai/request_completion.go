package openai

import (
	"time"

	"weir/api"
)

// defaultMaxTokens of a completion; the OpenAI API's own.
const defaultMaxTokens = 16

// readCompletion reads a completion request into a job.
func (s *Server) readCompletion(o *request, m *Model) (*job, *api.Error) {
	m.fill(o.object)
	var fault *api.Error
	p := readParams(o.object, m, &s.config, &fault)
	j := &job{model: m, params: p, promptLogprobs: p.promptLogprobs}
	j.echo = o.flag("echo", false, &fault)
	j.readLogprobs(o.object, &fault)
	prompts := promptReader{field: "prompt", tooMany: "with this n, and each choice counts as a request; send fewer at once, or raise --max-choices",
		m: m, turn: o.turn, notes: o.notes}
	prompts.options.AddSpecial = o.flag("add_special_tokens", true, &fault)
	prompts.options.ParseSpecial = o.flag("parse_special", s.config.ParseSpecial, &fault)
	if p.truncate == 0 {
		prompts.options.Limit = m.countedLimit()
	}
	j.refuseNoTokens(&fault)
	raw, ok := o.take("prompt")
	if !ok {
		keep(&fault, missing("prompt", promptForms))
	}
	o.finish(&fault)
	if fault != nil {
		return nil, fault
	}
	j.parsed = time.Now()
	prompts.most = s.config.MaxChoices / p.n
	if j.prompts, fault = prompts.all(raw); fault != nil {
		return nil, fault
	}
	return j, j.limitOutput("prompt", defaultMaxTokens)
}

// readLogprobs reads logprobs, a count of alternatives. With echo the prompt's
// tokens have theirs too. An answer of no tokens needs some pass over the
// prompt, and the one for logprobs is what backends offer.
func (j *job) readLogprobs(o *object, fault **api.Error) {
	p := j.params
	if top, ok := o.integer("logprobs", 0, int64(j.model.maxLogprobs()), fault); ok {
		p.logprobs, p.endLogprob = true, true
		p.sampling.Logprobs = int(top)
	}
	if j.echo && (p.logprobs || p.maxTokens == 0) {
		j.promptLogprobs = max(0, p.sampling.Logprobs, p.promptLogprobs)
	}
}
