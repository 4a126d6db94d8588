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

// flatTool is a tool as Responses lists it: without the object that chats have around it. Its
// fields are JSON.
type flatTool struct {
	kind               string
	name, description  []byte
	parameters, strict []byte // of a function
	format, chatFormat []byte // of a custom tool; a chat has a grammar one level deeper
}

func readFlatTool(o *object, path string, raw []byte) (*flatTool, *api.Error) {
	tool, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	kind := tool.needText("type", &fault)
	if fault != nil {
		return nil, fault
	}
	if kind != functionKind && kind != customKind {
		return nil, unsupported(join(path, "type"), "the server runs no tools of its own: send tools of type function or custom, not "+quote([]byte(kind)))
	}
	t := &flatTool{kind: kind, name: api.AppendString(nil, tool.needText("name", &fault)), description: jsonNull, parameters: jsonNull, format: jsonNull}
	if text, ok := tool.text("description", &fault); ok {
		t.description = api.AppendString(nil, text)
	}
	if kind == customKind {
		if raw, ok := tool.take("format"); ok {
			t.format = raw
			t.chatFormat, fault = chatInputFormat(o, join(path, "format"), raw)
		}
	} else {
		if raw, ok := tool.take("parameters"); ok {
			t.parameters = raw
		}
		t.strict = strconv.AppendBool(nil, tool.flag("strict", false, &fault))
	}
	tool.finish(&fault)
	return t, fault
}

// appendChat appends the tool as a chat has it, and nothing that it leaves open.
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
	if t.chatFormat != nil {
		f.add("format", t.chatFormat)
	}
	return append(f.appendJSON(appendWrapped(dst, t.kind)), '}')
}

// appendWrapped begins {"type":kind,kind:…}.
func appendWrapped(dst []byte, kind string) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","`...)
	return append(append(dst, kind...), `":`...)
}

// chatInputFormat gives a custom tool's format as a chat has it.
func chatInputFormat(o *object, path string, raw []byte) ([]byte, *api.Error) {
	format, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	if kind := format.needText("type", &fault); kind != "grammar" || fault != nil {
		return raw, fault
	}
	inner := &object{}
	for _, f := range format.fields {
		if f.name != "type" {
			inner.add(f.name, f.raw)
		}
	}
	return append(inner.appendJSON([]byte(`{"type":"grammar","grammar":`)), '}'), nil
}

// appendShown appends the tool as answers list it, with all its fields.
func (t *flatTool) appendShown(dst []byte) []byte {
	f := &object{}
	f.add("type", api.AppendString(nil, t.kind))
	f.add("name", t.name)
	f.add("description", t.description)
	switch {
	case t.kind == functionKind:
		f.add("parameters", t.parameters)
		f.add("strict", t.strict)
	case isNull(t.format):
		f.add("format", []byte(`{"type":"text"}`))
	default:
		f.add("format", t.format)
	}
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
	case kind == functionKind || kind == customKind:
		name := choice.needText("name", &fault)
		choice.finish(&fault)
		return appendNamedChoice(nil, kind, name), fault
	case kind != "allowed_tools":
		return nil, unsupported("tool_choice.type", "send function, custom or allowed_tools, not "+quote([]byte(kind)))
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
		dst = append(append(append(appendWrapped(comma(dst, i), tool.kind), `{"name":`...), tool.name...), "}}"...)
	}
	return append(dst, "]}}"...), fault
}

func appendNamedChoice(dst []byte, kind, name string) []byte {
	dst = api.AppendString(append(appendWrapped(dst, kind), `{"name":`...), name)
	return append(dst, "}}"...)
}
