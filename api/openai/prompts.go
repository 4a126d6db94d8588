package openai

import (
	"math"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/turnstile"
	"weir/tokenizer"
)

const promptForms = "a string, an array of strings, an array of token ids or an array of such arrays"

// promptReader reads texts in the forms that a completion's prompt may have.
type promptReader struct {
	field   string // that holds them
	most    int    // of one request
	tooMany string // what is said of more
	m       *models.Model
	options tokenizer.EncodeOptions
	prefix  string // of each text
	turn    *turnstile.Turn
	notes   *jsonbody.Notes

	// fit makes the ids of a prompt fit the context, or refuses them; more than
	// options.Limit may not be all of them. An empty text is refused before. Without
	// fit a limit refuses, and so does a text without any token.
	fit func(path string, ids []int32) ([]int32, *api.Error)
}

// all reads the four forms of prompt, of which an array may have r.most. None is
// encoded before they are counted.
func (r *promptReader) all(raw []byte) ([]job.Prompt, *api.Error) {
	if raw[0] == '"' {
		p, err := r.text(r.field, raw)
		return []job.Prompt{p}, err
	}
	if raw[0] != '[' {
		return nil, jsonbody.WrongType(r.field, promptForms, raw)
	}
	first := raw[jsonbody.SkipSpace(raw, 1)]
	if jsonbody.IsNumber([]byte{first}) {
		p, err := r.tokens(r.field, raw)
		return []job.Prompt{p}, err
	}
	list, err := jsonbody.Array(r.field, raw, r.most)
	switch {
	case err != nil: // of an array, that it is too long
		return nil, api.RefuseParam("invalid_value", r.field, "%s has more than %d values %s", r.field, r.most, r.tooMany)
	case len(list) == 0:
		return nil, api.RefuseParam("invalid_value", r.field, "%s is an empty array; it must be %s", r.field, promptForms)
	}
	prompts := make([]job.Prompt, len(list))
	for i, item := range list {
		path := jsonbody.At(r.field, i)
		switch {
		case item[0] != first:
			return nil, api.RefuseParam("invalid_type", path, "%s is of another type than %s[0]; all must be strings or all arrays of token ids", path, r.field)
		case first == '"':
			prompts[i], err = r.text(path, item)
		case first == '[':
			prompts[i], err = r.tokens(path, item)
		default:
			err = jsonbody.WrongType(path, "a string or an array of token ids", item)
		}
		if err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

func (r *promptReader) text(path string, raw []byte) (job.Prompt, *api.Error) {
	text, err := jsonbody.String(path, raw)
	if err == nil && text == "" && r.fit != nil {
		err = emptyText(path)
	}
	if err != nil {
		return job.Prompt{}, err
	}
	ids, err := r.encode(path, []tokenizer.Span{{Text: r.prefix + text, Control: r.options.ParseSpecial}})
	if err != nil {
		return job.Prompt{}, err
	}
	if !r.options.ParseSpecial {
		noteControl(r.m, path, text, r.notes)
	}
	if len(ids) == 0 {
		return job.Prompt{}, api.RefuseParam("invalid_value", path, "%s is empty and the model has no beginning token that could stand for it; send at least one character", path)
	}
	return job.Prompt{IDs: ids, Text: text}, nil
}

func (r *promptReader) encode(path string, spans []tokenizer.Span) ([]int32, *api.Error) {
	if r.fit == nil {
		return r.turn.Encode(r.m, r.field, spans, r.options)
	}
	ids, err := r.turn.Tokenise(r.m, spans, r.options)
	if err != nil {
		return nil, err
	}
	return r.fit(path, ids)
}

// tokens reads a prompt that is tokenised already. The body's own
// limit bounds it; the context is checked later, with the exact count.
func (r *promptReader) tokens(path string, raw []byte) (job.Prompt, *api.Error) {
	ids, err := params.ParseTokens(path, raw, r.m.Tokenizer.Size(), math.MaxInt32)
	switch {
	case err != nil:
		return job.Prompt{}, err
	case len(ids) == 0:
		return job.Prompt{}, api.RefuseParam("invalid_value", path, "%s has no tokens; send at least one", path)
	case r.prefix != "":
		return job.Prompt{}, api.RefuseParam("invalid_type", path, "%s are token ids, which the prompt %s cannot stand before; send text", path, jsonbody.HeaderQuote(r.prefix))
	case r.fit != nil:
		ids, err = r.fit(path, ids)
		return job.Prompt{IDs: ids}, err
	}
	return job.Prompt{IDs: ids, Text: r.m.Tokenizer.Decode(ids, false)}, nil
}
