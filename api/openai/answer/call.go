package answer

import (
	"encoding/json"

	"weir/api"
)

// AppendCalled appends {"name","arguments"}, or {"name","input"} of a custom tool; of a piece
// that goes on a call, the arguments or the input alone.
func (p *CallPart) AppendCalled(dst []byte) []byte {
	dst = append(dst, '{')
	if p.Begins() {
		dst = api.AppendString(append(dst, `"name":`...), p.Name)
		dst = append(dst, ',')
	}
	field := `"arguments":`
	if p.Custom {
		field = `"input":`
	}
	return append(api.AppendString(append(dst, field...), p.Arguments), '}')
}

// AppendObject appends a whole call's arguments as an object. What is none stands in one.
func (p *CallPart) AppendObject(dst []byte) []byte {
	var fields map[string]json.RawMessage
	switch {
	case len(p.Arguments) == 0:
		return append(dst, "{}"...)
	case json.Unmarshal(p.Arguments, &fields) == nil && fields != nil:
		return append(dst, p.Arguments...)
	}
	return append(api.AppendString(append(dst, `{"arguments":`...), p.Arguments), '}')
}
