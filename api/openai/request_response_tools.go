package openai

import (
	"bytes"
	"strconv"

	"weir/api"
)

// readTools reads tools and tool_choice. Their answer's form is stricter than what
// clients send: it has all fields.
func (r *responseRequest) readTools(o *object, w *rewording, fault **api.Error) {
	r.tools, r.toolChoice = []byte("[]"), []byte(`"auto"`)
	if raw, ok := o.take("tools"); ok {
		list, err := parseArray("tools", raw, maxInt32)
		keep(fault, err)
		chat := []byte{'['}
		shown := []byte{'['}
		for i, item := range list {
			tool, err := readFlatTool(o, at("tools", i), item)
			if err != nil {
				keep(fault, err)
				return
			}
			chat = tool.appendChat(comma(chat, i))
			shown = tool.appendShown(comma(shown, i))
		}
		r.tools = append(shown, ']')
		if len(list) > 0 {
			w.set("tools", append(chat, ']'))
		}
	}
	if raw, ok := o.take("tool_choice"); ok {
		r.toolChoice = bytes.Clone(raw)
		choice, err := chatToolChoice(o, raw)
		keep(fault, err)
		if len(r.tools) > len("[]") || string(raw) != `"auto"` { // which SDKs send without tools
			w.set("tool_choice", choice)
		}
	}
}

// flatTool is a function as Responses lists it: without the object that chats have around
// it. Its fields are JSON.
type flatTool struct{ name, description, parameters, strict []byte }

func readFlatTool(o *object, path string, raw []byte) (*flatTool, *api.Error) {
	tool, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	kind := tool.needText("type", &fault)
	if fault != nil {
		return nil, fault
	}
	if kind != "function" {
		return nil, unsupported(join(path, "type"), "the server runs no tools of its own: send tools of type function, not "+quote([]byte(kind)))
	}
	t := &flatTool{name: api.AppendString(nil, tool.needText("name", &fault)), description: jsonNull, parameters: jsonNull}
	if text, ok := tool.text("description", &fault); ok {
		t.description = api.AppendString(nil, text)
	}
	if raw, ok := tool.take("parameters"); ok {
		t.parameters = raw
	}
	t.strict = strconv.AppendBool(nil, tool.flag("strict", false, &fault))
	tool.finish(&fault)
	return t, fault
}

func (t *flatTool) appendChat(dst []byte) []byte {
	f := &object{}
	f.add("name", t.name)
	if !isNull(t.description) {
		f.add("description", t.description)
	}
	if !isNull(t.parameters) {
		f.add("parameters", t.parameters)
	}
	if string(t.strict) == "true" {
		f.add("strict", t.strict)
	}
	return append(f.appendJSON(append(dst, `{"type":"function","function":`...)), '}')
}

func (t *flatTool) appendShown(dst []byte) []byte {
	f := &object{}
	f.add("type", []byte(`"function"`))
	f.add("name", t.name)
	f.add("description", t.description)
	f.add("parameters", t.parameters)
	f.add("strict", t.strict)
	return f.appendJSON(dst)
}

// chatToolChoice gives a chat's tool_choice: its objects have the function's name one level
// deeper, and the allowed tools, too.
func chatToolChoice(o *object, raw []byte) ([]byte, *api.Error) {
	if raw[0] != '{' {
		return raw, nil
	}
	choice, fault := o.parse("tool_choice", raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	switch kind := choice.needText("type", &fault); {
	case fault != nil:
		return nil, fault
	case kind == "function":
		name := choice.needText("name", &fault)
		choice.finish(&fault)
		return appendFunctionChoice(nil, name), fault
	case kind != "allowed_tools":
		return nil, unsupported("tool_choice.type", "send function or allowed_tools, not "+quote([]byte(kind)))
	}
	mode := choice.needText("mode", &fault)
	list, ok := choice.take("tools")
	if !ok {
		keep(&fault, missing("tool_choice.tools", "an array of functions"))
	}
	choice.finish(&fault)
	if fault != nil {
		return nil, fault
	}
	items, fault := parseArray("tool_choice.tools", list, maxInt32)
	dst := api.AppendString([]byte(`{"type":"allowed_tools","allowed_tools":{"mode":`), mode)
	dst = append(dst, `,"tools":[`...)
	for i, item := range items {
		tool, err := readFlatTool(o, at("tool_choice.tools", i), item)
		if err != nil {
			return nil, err
		}
		dst = append(append(append(comma(dst, i), `{"type":"function","function":{"name":`...), tool.name...), "}}"...)
	}
	return append(dst, "]}}"...), fault
}

func appendFunctionChoice(dst []byte, name string) []byte {
	dst = api.AppendString(append(dst, `{"type":"function","function":{"name":`...), name)
	return append(dst, "}}"...)
}
