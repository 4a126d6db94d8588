package openai

import (
	"bytes"
	"math"
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// readTools reads tools and tool_choice. Their answer's form is stricter than what
// clients send: it has all fields.
func (r *responseRequest) readTools(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	r.tools, r.toolChoice = []byte("[]"), []byte(`"auto"`)
	if raw, ok := o.Take("tools"); ok {
		list, err := jsonbody.Array("tools", raw, math.MaxInt32)
		jsonbody.Keep(fault, err)
		chat := []byte{'['}
		shown := []byte{'['}
		for i, item := range list {
			tool, err := readFlatTool(o, jsonbody.At("tools", i), item)
			if err != nil {
				jsonbody.Keep(fault, err)
				return
			}
			chat = tool.appendChat(api.AppendComma(chat, i))
			shown = tool.appendShown(api.AppendComma(shown, i))
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

// flatTool is a tool as Responses lists it: without the object that chats have around it. Its
// fields are JSON.
type flatTool struct {
	kind               string
	name, description  []byte
	parameters, strict []byte // of a function
	format, chatFormat []byte // of a custom tool; a chat has a grammar one level deeper
}

func readFlatTool(o *jsonbody.Object, path string, raw []byte) (*flatTool, *api.Error) {
	tool, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	kind := tool.Need("type", &fault)
	if fault != nil {
		return nil, fault
	}
	if kind != toolset.Function && kind != toolset.Custom {
		return nil, jsonbody.Unsupported(jsonbody.Join(path, "type"), "the server runs no tools of its own: send tools of type function or custom, not "+jsonbody.Quote([]byte(kind)))
	}
	t := &flatTool{kind: kind, name: api.AppendString(nil, tool.Need("name", &fault)), description: jsonbody.Null, parameters: jsonbody.Null, format: jsonbody.Null}
	if text, ok := tool.Text("description", &fault); ok {
		t.description = api.AppendString(nil, text)
	}
	if kind == toolset.Custom {
		if raw, ok := tool.Take("format"); ok {
			t.format = raw
			t.chatFormat, fault = chatInputFormat(o, jsonbody.Join(path, "format"), raw)
		}
	} else {
		if raw, ok := tool.Take("parameters"); ok {
			t.parameters = raw
		}
		t.strict = strconv.AppendBool(nil, tool.Flag("strict", false, &fault))
	}
	tool.Finish(&fault)
	return t, fault
}

// appendChat appends the tool as a chat has it, and nothing that it leaves open.
func (t *flatTool) appendChat(dst []byte) []byte {
	f := &jsonbody.Object{}
	f.Add("name", t.name)
	if !jsonbody.IsNull(t.description) {
		f.Add("description", t.description)
	}
	if !jsonbody.IsNull(t.parameters) {
		f.Add("parameters", t.parameters)
	}
	if string(t.strict) == "true" {
		f.Add("strict", t.strict)
	}
	if t.chatFormat != nil {
		f.Add("format", t.chatFormat)
	}
	return append(f.AppendJSON(appendWrapped(dst, t.kind)), '}')
}

// appendWrapped begins {"type":kind,kind:…}.
func appendWrapped(dst []byte, kind string) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","`...)
	return append(append(dst, kind...), `":`...)
}

// chatInputFormat gives a custom tool's format as a chat has it.
func chatInputFormat(o *jsonbody.Object, path string, raw []byte) ([]byte, *api.Error) {
	format, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	if kind := format.Need("type", &fault); kind != "grammar" || fault != nil {
		return raw, fault
	}
	inner := &jsonbody.Object{}
	for _, f := range format.Fields {
		if f.Name != "type" {
			inner.Add(f.Name, f.Raw)
		}
	}
	return append(inner.AppendJSON([]byte(`{"type":"grammar","grammar":`)), '}'), nil
}

// appendShown appends the tool as answers list it, with all its fields.
func (t *flatTool) appendShown(dst []byte) []byte {
	f := &jsonbody.Object{}
	f.Add("type", api.AppendString(nil, t.kind))
	f.Add("name", t.name)
	f.Add("description", t.description)
	switch {
	case t.kind == toolset.Function:
		f.Add("parameters", t.parameters)
		f.Add("strict", t.strict)
	case jsonbody.IsNull(t.format):
		f.Add("format", []byte(`{"type":"text"}`))
	default:
		f.Add("format", t.format)
	}
	return f.AppendJSON(dst)
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
		return appendNamedChoice(nil, kind, name), fault
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
		tool, err := readFlatTool(o, jsonbody.At("tool_choice.tools", i), item)
		if err != nil {
			return nil, err
		}
		dst = append(append(append(appendWrapped(api.AppendComma(dst, i), tool.kind), `{"name":`...), tool.name...), "}}"...)
	}
	return append(dst, "]}}"...), fault
}

func appendNamedChoice(dst []byte, kind, name string) []byte {
	dst = api.AppendString(append(appendWrapped(dst, kind), `{"name":`...), name)
	return append(dst, "}}"...)
}
