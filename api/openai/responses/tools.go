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
		tools := toolList{request: r}
		for i, item := range list {
			if *fault == nil {
				jsonbody.Keep(fault, tools.read(o, jsonbody.At("tools", i), item))
			}
		}
		jsonbody.Keep(fault, tools.left())
		if *fault != nil {
			return
		}
		r.tools = append(append([]byte{'['}, tools.shown...), ']')
		if len(tools.paths) > 0 {
			w.Set("tools", append(append([]byte{'['}, tools.chat...), ']'))
			w.ToolPaths = tools.paths
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
		name := readName(choice, &fault)
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
	n := 0
	for i, item := range items {
		named, err := appendAllowed(o, api.AppendComma(dst, n), jsonbody.At("tool_choice.tools", i), item)
		if err != nil {
			return nil, err
		}
		if named != nil {
			dst, n = named, n+1
		}
	}
	return append(dst, "]}}"...), fault
}

// appendAllowed appends a tool of allowed_tools as a chat names it; nil for one that the server does not run.
func appendAllowed(o *jsonbody.Object, dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	choice, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	kind := choice.Need("type", &fault)
	if fault == nil && isBuiltIn(kind) {
		return nil, leaveOut(o, path, kind)
	}
	namespace, _ := choice.Text("namespace", &fault)
	tool, err := translation.ReadTool(o, path, choice.Without("namespace").AppendJSON(nil))
	if jsonbody.Keep(&fault, err); fault != nil {
		return nil, fault
	}
	if namespace != "" {
		tool.Name = inNamespace(namespace, tool.Name)
	}
	return append(append(append(translation.AppendWrapped(dst, tool.Kind), `{"name":`...), tool.Name...), "}}"...), nil
}
