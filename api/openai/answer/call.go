package answer

import "weir/api"

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
