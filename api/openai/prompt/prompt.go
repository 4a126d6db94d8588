// Package prompt reads the texts and token ids of a completion's prompt, and of what text encoders are asked.
//
//	r := prompt.Reader{Field: "prompt", Most: 2, TooMany: "in one request", Model: model, Notes: notes}
//	prompts, fault := r.All(field) // a text, texts, ids, or lists of ids
package prompt

import (
	"math"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/tokenizer"
)

// Forms says what a prompt may be.
const Forms = "a string, an array of strings, an array of token ids or an array of such arrays"

// Reader reads texts in the forms that a completion's prompt may have.
type Reader struct {
	Field   string // that holds them
	Most    int    // of one request
	TooMany string // what is said of more
	Model   *models.Model
	Options tokenizer.EncodeOptions
	Prefix  string // of each text
	Suffix  string // the text behind what the answer fills in; "" is none
	Permit  *limiter.Permit
	Notes   *jsonbody.Notes

	// Fit makes the ids of a prompt fit the context, or refuses them; more than
	// options.Limit may not be all of them. An empty text is refused before. Without
	// fit a limit refuses, and so does a text without any token.
	Fit func(path string, ids []int32) ([]int32, *api.Error)
}

// ReadSuffix reads suffix, which takes a model with tokens for filling in the middle.
func (r *Reader) ReadSuffix(o *jsonbody.Object, fault **api.Error) {
	r.Suffix, _ = o.Text("suffix", fault)
	if r.Suffix == "" {
		return
	}
	if _, ok := r.Model.Tokenizer.FillIn(); !ok {
		jsonbody.Keep(fault, jsonbody.Unsupported("suffix", "the model "+r.Model.ID+
			" has no tokens for filling in the middle: take one that has, such as Qwen2.5-Coder, or send prompt alone"))
	}
}

// All reads the four forms of prompt, of which an array may have r.most. None is
// encoded before they are counted.
func (r *Reader) All(raw []byte) ([]job.Prompt, *api.Error) {
	if raw[0] == '"' {
		p, err := r.text(r.Field, raw)
		return []job.Prompt{p}, err
	}
	if raw[0] != '[' {
		return nil, jsonbody.WrongType(r.Field, Forms, raw)
	}
	first := raw[jsonbody.SkipSpace(raw, 1)]
	if jsonbody.IsNumber([]byte{first}) {
		p, err := r.tokens(r.Field, raw)
		return []job.Prompt{p}, err
	}
	list, err := jsonbody.Array(r.Field, raw, r.Most)
	switch {
	case err != nil: // of an array, that it is too long
		return nil, api.RefuseParam("invalid_value", r.Field, "%s has more than %d values %s", r.Field, r.Most, r.TooMany)
	case len(list) == 0:
		return nil, api.RefuseParam("invalid_value", r.Field, "%s is an empty array; it must be %s", r.Field, Forms)
	}
	prompts := make([]job.Prompt, len(list))
	for i, item := range list {
		path := jsonbody.At(r.Field, i)
		switch {
		case item[0] != first:
			return nil, api.RefuseParam("invalid_type", path, "%s is of another type than %s[0]; all must be strings or all arrays of token ids", path, r.Field)
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

func (r *Reader) text(path string, raw []byte) (job.Prompt, *api.Error) {
	text, err := jsonbody.String(path, raw)
	if err == nil && text == "" && r.Fit != nil {
		err = EmptyText(path)
	}
	if err != nil {
		return job.Prompt{}, err
	}
	ids, err := r.encode(path, r.spans(text))
	if err != nil {
		return job.Prompt{}, err
	}
	if !r.Options.ParseSpecial || r.Suffix != "" {
		NoteControl(r.Model, path, text, r.Notes)
	}
	if len(ids) == 0 {
		return job.Prompt{}, api.RefuseParam("invalid_value", path, "%s is empty and the model has no beginning token that could stand for it; send at least one character", path)
	}
	return job.Prompt{IDs: ids, Text: text}, nil
}

// spans is what the model reads of a text. Between texts for filling in the middle, control tokens are not parsed in either.
func (r *Reader) spans(text string) []tokenizer.Span {
	if r.Suffix == "" {
		return []tokenizer.Span{{Text: r.Prefix + text, Control: r.Options.ParseSpecial}}
	}
	return r.Model.Tokenizer.FillInSpans(text, r.Suffix, r.Options.AddSpecial)
}

func (r *Reader) encode(path string, spans []tokenizer.Span) ([]int32, *api.Error) {
	if r.Fit == nil {
		o := r.Options
		o.AddSpecial = o.AddSpecial && r.Suffix == ""
		return r.Permit.Encode(r.Model, r.Field, spans, o)
	}
	ids, err := r.Permit.Tokenise(r.Model, spans, r.Options)
	if err != nil {
		return nil, err
	}
	return r.Fit(path, ids)
}

// tokens reads a prompt that is tokenised already. The body's own
// limit bounds it; the context is checked later, with the exact count.
func (r *Reader) tokens(path string, raw []byte) (job.Prompt, *api.Error) {
	ids, err := params.ParseTokens(path, raw, r.Model.Tokenizer.Size(), math.MaxInt32)
	switch {
	case err != nil:
		return job.Prompt{}, err
	case len(ids) == 0:
		return job.Prompt{}, api.RefuseParam("invalid_value", path, "%s has no tokens; send at least one", path)
	case r.Suffix != "":
		return job.Prompt{}, api.RefuseParam("invalid_type", path, "%s are token ids, which suffix cannot stand behind; send text, or write the tokens for filling in the middle yourself", path)
	case r.Prefix != "":
		return job.Prompt{}, api.RefuseParam("invalid_type", path, "%s are token ids, which the prompt %s cannot stand before; send text", path, jsonbody.HeaderQuote(r.Prefix))
	case r.Fit != nil:
		ids, err = r.Fit(path, ids)
		return job.Prompt{IDs: ids}, err
	}
	return job.Prompt{IDs: ids, Text: r.Model.Tokenizer.Decode(ids, false)}, nil
}

// NoteControl warns of a control token whose text is in a prompt and is not
// parsed: the model then reads its characters.
func NoteControl(m *models.Model, path, text string, n *jsonbody.Notes) {
	if id, ok := m.Tokenizer.FindControl(text); ok {
		n.Add("%s holds %s as plain text; parse_special makes it a control token", jsonbody.AnyIndex(path), jsonbody.HeaderQuote(m.Tokenizer.TokenText(id)))
	}
}

// EmptyText refuses a text without a character.
func EmptyText(path string) *api.Error {
	return api.RefuseParam("invalid_value", path, "%s is empty; send at least one character", path)
}
