package llamaserver

import (
	"encoding/json"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/tokenizer"
)

// mostParts is how many texts and token ids one prompt may be put together of.
const mostParts = 1 << 20

// prompts turns what llama.cpp's server takes as prompts into what a completion does: texts in objects, and token ids mixed with texts.
type prompts struct {
	body  *job.Body
	model *models.Model
}

// read gives the prompt, or the prompts, of a request.
func (p *prompts) read(raw json.RawMessage) (json.RawMessage, *api.Error) {
	if raw[0] != '[' {
		return p.one("prompt", raw)
	}
	list, fault := jsonbody.Array("prompt", raw, mostParts)
	if fault != nil || len(list) == 0 {
		return raw, fault
	}
	for _, part := range list {
		if jsonbody.IsNumber(part) {
			return p.sequence("prompt", list)
		}
	}
	asIDs := slices.ContainsFunc(list, func(part json.RawMessage) bool { return part[0] == '[' }) // completions take one kind
	dst := []byte{'['}
	for i, part := range list {
		at := jsonbody.At("prompt", i)
		one, fault := p.one(at, part)
		if fault == nil && asIDs && one[0] == '"' {
			one, fault = p.sequence(at, []json.RawMessage{one})
		}
		if fault != nil {
			return nil, fault
		}
		dst = append(api.AppendComma(dst, i), one...)
	}
	return append(dst, ']'), nil
}

// one gives one prompt: a text, an object with one, or a sequence.
func (p *prompts) one(path string, raw json.RawMessage) (json.RawMessage, *api.Error) {
	switch raw[0] {
	case '{':
		o, fault := p.body.Parse(path, raw, jsonbody.MaxFields)
		if fault != nil {
			return nil, fault
		}
		text := o.Need("prompt_string", &fault)
		if data, ok := o.Take("multimodal_data"); ok && !jsonbody.IsEmptyArray(data) {
			jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "multimodal_data"), "models here read text"))
		}
		o.Finish(&fault)
		return api.AppendString(nil, text), fault
	case '[':
		list, fault := jsonbody.Array(path, raw, mostParts)
		if fault != nil {
			return nil, fault
		}
		return p.sequence(path, list)
	}
	return raw, nil
}

// sequence gives token ids and texts in a row as ids. Ids alone stay as they are.
func (p *prompts) sequence(path string, list []json.RawMessage) (json.RawMessage, *api.Error) {
	dst, n := []byte{'['}, 0
	for i, part := range list {
		if part[0] != '"' {
			dst, n = append(api.AppendComma(dst, n), part...), n+1
			continue
		}
		ids, fault := p.encode(jsonbody.At(path, i), part, i == 0)
		if fault != nil {
			return nil, fault
		}
		for _, id := range ids {
			dst, n = strconv.AppendInt(api.AppendComma(dst, n), int64(id), 10), n+1
		}
	}
	return append(dst, ']'), nil
}

// encode gives the ids of a text; first: the model's own tokens go before it.
func (p *prompts) encode(path string, raw json.RawMessage, first bool) ([]int32, *api.Error) {
	text, fault := jsonbody.String(path, raw)
	if fault != nil {
		return nil, fault
	}
	return p.body.Permit.Encode(p.model, path, []tokenizer.Span{{Text: text, Control: true}}, tokenizer.EncodeOptions{AddSpecial: first, ParseSpecial: true})
}
