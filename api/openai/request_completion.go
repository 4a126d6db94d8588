package openai

import (
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
	encode := tokenizer.EncodeOptions{
		AddSpecial:   o.flag("add_special_tokens", true, &fault),
		ParseSpecial: o.flag("parse_special", false, &fault),
	}
	j.checkNothing(&fault)
	raw, ok := o.take("prompt")
	if !ok {
		keep(&fault, missing("prompt", promptForms))
	}
	o.finish(&fault)
	if fault != nil {
		return nil, fault
	}
	if j.prompts, fault = parsePrompts(raw, m, s.config.MaxChoices/p.n, encode); fault != nil {
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
		p.logprobs = true
		p.sampling.Logprobs = int(top)
	}
	if j.echo && (p.logprobs || p.maxTokens == 0) {
		j.promptLogprobs = max(0, p.sampling.Logprobs, p.promptLogprobs)
	}
}

const promptForms = "a string, an array of strings, an array of token ids or an array of such arrays"

// parsePrompts reads the four forms of prompt, of which an array may have so
// many. None is encoded before they are counted.
func parsePrompts(raw []byte, m *Model, most int, e tokenizer.EncodeOptions) ([]prompt, *api.Error) {
	if raw[0] == '"' {
		p, err := parseTextPrompt("prompt", raw, m, e)
		return []prompt{p}, err
	}
	if raw[0] != '[' {
		return nil, wrongType("prompt", promptForms, raw)
	}
	first := raw[skipSpace(raw, 1)]
	if isNumber([]byte{first}) {
		p, err := parseTokenPrompt("prompt", raw, m)
		return []prompt{p}, err
	}
	list, err := parseArray("prompt", raw, most)
	switch {
	case err != nil: // of an array, that it is too long
		return nil, badRequest("invalid_value", "prompt", "prompt has more than %d values with this n, and each choice counts as a request; "+
			"send fewer at once, or raise --max-choices", most)
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
			prompts[i], err = parseTextPrompt(path, item, m, e)
		case first == '[':
			prompts[i], err = parseTokenPrompt(path, item, m)
		default:
			err = wrongType(path, "a string or an array of token ids", item)
		}
		if err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

func parseTextPrompt(path string, raw []byte, m *Model, e tokenizer.EncodeOptions) (prompt, *api.Error) {
	text, err := parseString(path, raw)
	if err != nil {
		return prompt{}, err
	}
	ids := m.Tokenizer.AppendEncode(nil, text, e)
	if len(ids) == 0 {
		return prompt{}, badRequest("invalid_value", path, "%s is empty and the model has no beginning token that could stand for it; send at least one character", path)
	}
	return prompt{ids: ids, text: text}, nil
}

// parseTokenPrompt reads a prompt that is tokenised already. The body's own
// limit bounds it; the context is checked later, with the exact count.
func parseTokenPrompt(path string, raw []byte, m *Model) (prompt, *api.Error) {
	ids, err := parseTokens(path, raw, m.Tokenizer.Size(), maxInt32)
	switch {
	case err != nil:
		return prompt{}, err
	case len(ids) == 0:
		return prompt{}, badRequest("invalid_value", path, "%s has no tokens; send at least one", path)
	}
	return prompt{ids: ids, text: m.Tokenizer.Decode(ids, false)}, nil
}
