package openai

import (
	"time"

	"weir/api"
	"weir/tokenizer"
)

// defaultMaxTokens of a completion; the OpenAI API's own.
const defaultMaxTokens = 16

// readCompletion reads a completion request into a job.
func (s *Server) readCompletion(o *object, m *Model) (*job, *api.Error) {
	var fault *api.Error
	p := readParams(o, m, &s.config, &fault)
	j := &job{model: m, params: p, promptLogprobs: p.promptLogprobs}
	j.echo = o.flag("echo", false, &fault)
	j.readLogprobs(o, &fault)
	prompts := promptReader{m: m, turn: o.turn, notes: o.notes}
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

const promptForms = "a string, an array of strings, an array of token ids or an array of such arrays"

// promptReader reads the prompts of a completion.
type promptReader struct {
	m       *Model
	most    int // prompts of one request
	options tokenizer.EncodeOptions
	turn    *turn
	notes   *notes
}

// all reads the four forms of prompt, of which an array may have r.most. None is
// encoded before they are counted.
func (r *promptReader) all(raw []byte) ([]prompt, *api.Error) {
	if raw[0] == '"' {
		p, err := r.text("prompt", raw)
		return []prompt{p}, err
	}
	if raw[0] != '[' {
		return nil, wrongType("prompt", promptForms, raw)
	}
	first := raw[skipSpace(raw, 1)]
	if isNumber([]byte{first}) {
		p, err := r.tokens("prompt", raw)
		return []prompt{p}, err
	}
	list, err := parseArray("prompt", raw, r.most)
	switch {
	case err != nil: // of an array, that it is too long
		return nil, badRequest("invalid_value", "prompt", "prompt has more than %d values with this n, and each choice counts as a request; "+
			"send fewer at once, or raise --max-choices", r.most)
	case len(list) == 0:
		return nil, badRequest("invalid_value", "prompt", "prompt is an empty array; it must be %s", promptForms)
	}
	prompts := make([]prompt, len(list))
	for i, item := range list {
		path := at("prompt", i)
		switch {
		case item[0] != first:
			return nil, badRequest("invalid_type", path, "%s is of another type than prompt[0]; all must be strings or all arrays of token ids", path)
		case first == '"':
			prompts[i], err = r.text(path, item)
		case first == '[':
			prompts[i], err = r.tokens(path, item)
		default:
			err = wrongType(path, "a string or an array of token ids", item)
		}
		if err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

func (r *promptReader) text(path string, raw []byte) (prompt, *api.Error) {
	text, err := parseString(path, raw)
	if err != nil {
		return prompt{}, err
	}
	ids, err := r.turn.encode(r.m, "prompt", []tokenizer.Span{{Text: text, Control: r.options.ParseSpecial}}, r.options)
	if err != nil {
		return prompt{}, err
	}
	if !r.options.ParseSpecial {
		r.m.noteControl(path, text, r.notes)
	}
	if len(ids) == 0 {
		return prompt{}, badRequest("invalid_value", path, "%s is empty and the model has no beginning token that could stand for it; send at least one character", path)
	}
	return prompt{ids: ids, text: text}, nil
}

// tokens reads a prompt that is tokenised already. The body's own
// limit bounds it; the context is checked later, with the exact count.
func (r *promptReader) tokens(path string, raw []byte) (prompt, *api.Error) {
	ids, err := parseTokens(path, raw, r.m.Tokenizer.Size(), maxInt32)
	switch {
	case err != nil:
		return prompt{}, err
	case len(ids) == 0:
		return prompt{}, badRequest("invalid_value", path, "%s has no tokens; send at least one", path)
	}
	return prompt{ids: ids, text: r.m.Tokenizer.Decode(ids, false)}, nil
}
