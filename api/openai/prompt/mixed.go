package prompt

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/tokenizer"
)

// mostParts is how many texts and token ids one prompt may be put together of.
const mostParts = 1 << 20

// Mixed turns what llama.cpp's server takes as prompts into what other APIs have: texts in objects, texts beside token ids, and sequences of both.
type Mixed struct {
	Body    *job.Body
	Model   *models.Model
	Field   string // that holds the prompt, or the prompts
	Special bool   // control tokens are parsed in texts that become ids
}

// Read gives the prompt, or the prompts, of a request. What has a form of its own here stays as it is.
func (p *Mixed) Read(raw json.RawMessage) (json.RawMessage, *api.Error) {
	if raw[0] != '[' {
		return p.one(p.Field, raw)
	}
	list, fault := jsonbody.Array(p.Field, raw, mostParts)
	if fault != nil || len(list) == 0 {
		return raw, fault
	}
	for _, part := range list {
		if jsonbody.IsNumber(part) {
			return p.sequence(p.Field, list)
		}
	}
	asIDs := slices.ContainsFunc(list, func(part json.RawMessage) bool { return part[0] == '[' }) // other APIs take one kind
	dst := []byte{'['}
	for i, part := range list {
		at := jsonbody.At(p.Field, i)
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
func (p *Mixed) one(path string, raw json.RawMessage) (json.RawMessage, *api.Error) {
	switch raw[0] {
	case '{':
		return p.object(path, raw)
	case '[':
		list, fault := jsonbody.Array(path, raw, mostParts)
		if fault != nil {
			return nil, fault
		}
		return p.sequence(path, list)
	}
	return raw, nil
}

// object gives the text of {"prompt_string": …} or {"content": [{"type": "text", "text": …}, …]}.
func (p *Mixed) object(path string, raw json.RawMessage) (json.RawMessage, *api.Error) {
	o, fault := p.Body.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	var text string
	if parts, ok := o.Take("content"); ok {
		text = p.parts(jsonbody.Join(path, "content"), parts, &fault)
	} else {
		text = o.Need("prompt_string", &fault)
	}
	if data, ok := o.Take("multimodal_data"); ok && !jsonbody.IsEmptyArray(data) {
		jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "multimodal_data"), "models here read text"))
	}
	o.Finish(&fault)
	return api.AppendString(nil, text), fault
}

// parts puts the texts of a content together.
func (p *Mixed) parts(path string, raw json.RawMessage, fault **api.Error) string {
	var text strings.Builder
	list, err := jsonbody.Array(path, raw, jsonbody.MaxFields)
	jsonbody.Keep(fault, err)
	for i, item := range list {
		at := jsonbody.At(path, i)
		part, err := p.Body.Parse(at, item, jsonbody.MaxFields)
		if jsonbody.Keep(fault, err); err != nil {
			return ""
		}
		if kind, _ := part.Text("type", fault); kind != "text" {
			jsonbody.Keep(fault, jsonbody.Unsupported(jsonbody.Join(at, "type"), "send text: models here read nothing else"))
		}
		text.WriteString(part.Need("text", fault))
		part.Finish(fault)
	}
	return text.String()
}

// sequence gives token ids and texts in a row as ids. Ids alone stay as they are.
func (p *Mixed) sequence(path string, list []json.RawMessage) (json.RawMessage, *api.Error) {
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

// encode gives the ids of a text; first: the model's own tokens go around it.
func (p *Mixed) encode(path string, raw json.RawMessage, first bool) ([]int32, *api.Error) {
	text, fault := jsonbody.String(path, raw)
	if fault != nil {
		return nil, fault
	}
	o := tokenizer.EncodeOptions{AddSpecial: first, ParseSpecial: p.Special}
	return p.Body.Permit.Encode(p.Model, path, []tokenizer.Span{{Text: text, Control: p.Special}}, o)
}
