package responses

import (
	"bytes"
	"math"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// readTools reads tools and tool_choice. Their answer's form is stricter than what
// clients send: it has all fields.
func (r *Request) readTools(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	r.tools, r.toolChoice = []byte("[]"), []byte(`"auto"`)
	if raw, ok := o.Take("tools"); ok {
		list, err := jsonbody.Array("tools", raw, math.MaxInt32)
		jsonbody.Keep(fault, err)
		chat := []byte{'['}
		shown := []byte{'['}
		for i, item := range list {
			tool, err := translation.ReadTool(o, jsonbody.At("tools", i), item)
			if err != nil {
				jsonbody.Keep(fault, err)
				return
			}
			chat = tool.AppendChat(api.AppendComma(chat, i))
			shown = tool.AppendShown(api.AppendComma(shown, i))
		}
		r.tools = append(shown, ']')
		if len(list) > 0 {
			w.Set("tools", append(chat, ']'))
		}
	}
	if raw, ok := o.Take("tool_choice"); ok {
		r.toolChoice = bytes.Clone(raw)
		choice, err := chatToolChoice(o, raw)
		jsonbody.Keep(fault, err)
		if len(r.tools) > len("[]") || string(raw) != `"auto"` { // which SDKs send without tools
			w.Set("tool_choice", choice)
		}
	}
}

// chatToolChoice gives a chat's tool_choice: its objects have the function's name one level
// deeper, and the allowed tools, too.
func chatToolChoice(o *jsonbody.Object, raw []byte) ([]byte, *api.Error) {
	if raw[0] != '{' {
		return raw, nil
	}
	choice, fault := o.Parse("tool_choice", raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	switch kind := choice.Need("type", &fault); {
	case fault != nil:
		return nil, fault
	case kind == toolset.Function || kind == toolset.Custom:
		name := choice.Need("name", &fault)
		choice.Finish(&fault)
		return translation.AppendNamedChoice(nil, kind, name), fault
	case kind != "allowed_tools":
		return nil, jsonbody.Unsupported("tool_choice.type", "send function, custom or allowed_tools, not "+jsonbody.Quote([]byte(kind)))
	}
	mode := choice.Need("mode", &fault)
	list, ok := choice.Take("tools")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("tool_choice.tools", "an array of functions"))
	}
	choice.Finish(&fault)
	if fault != nil {
		return nil, fault
	}
	items, fault := jsonbody.Array("tool_choice.tools", list, math.MaxInt32)
	dst := api.AppendString([]byte(`{"type":"allowed_tools","allowed_tools":{"mode":`), mode)
	dst = append(dst, `,"tools":[`...)
	for i, item := range items {
		tool, err := translation.ReadTool(o, jsonbody.At("tool_choice.tools", i), item)
		if err != nil {
			return nil, err
		}
		dst = append(append(append(translation.AppendWrapped(api.AppendComma(dst, i), tool.Kind), `{"name":`...), tool.Name...), "}}"...)
	}
	return append(dst, "]}}"...), fault
}
