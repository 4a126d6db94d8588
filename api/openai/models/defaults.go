package models

import (
	"encoding/json"
	"slices"

	"weir/api/openai/jsonbody"
)

// Default is what a request is taken to say that does not say it: a field and its JSON value. The
// field system is the first message of a chat that has none of a system or a developer.
type Default struct {
	Field string
	Value json.RawMessage
}

const systemDefault = "system"

// LengthNames are what clients call the limit of output tokens: OpenAI's old
// and new name, that of its Responses, and llama-server's.
var LengthNames = []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}

// sameDefaults are further names of fields: one that is given under any of them is said.
var sameDefaults = map[string][]string{
	"max_tokens":         LengthNames,
	"repetition_penalty": {"repetition_penalty", "repeat_penalty"},
}

// Fill gives a request what the model's record says in its place.
func (m *Model) Fill(o *jsonbody.Object) {
	for _, d := range m.Defaults {
		names := sameDefaults[d.Field]
		if names == nil {
			names = []string{d.Field}
		}
		if d.Field == systemDefault || slices.ContainsFunc(names, o.Has) {
			continue
		}
		o.Fields = slices.DeleteFunc(o.Fields, func(f jsonbody.Field) bool { return f.Name == d.Field }) // it is null
		o.Add(d.Field, d.Value)
	}
}

// System is the message that a chat begins with where it has none of a system, as JSON; nil: the model has none.
func (m *Model) System(messages []json.RawMessage) []byte {
	i := slices.IndexFunc(m.Defaults, func(d Default) bool { return d.Field == systemDefault })
	if i < 0 {
		return nil
	}
	for _, raw := range messages {
		var said struct{ Role string }
		if json.Unmarshal(raw, &said) != nil || said.Role == "system" || said.Role == "developer" {
			return nil
		}
	}
	return append(append([]byte(`{"role":"system","content":`), m.Defaults[i].Value...), '}')
}
