package openai

import (
	"strconv"

	"weir/api"
)

func formatInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// readMessageTools reads tools and tool_choice.
func readMessageTools(o *object, w *rewording, fault **api.Error) {
	if raw, ok := o.take("tools"); ok {
		list, err := parseArray("tools", raw, maxInt32)
		keep(fault, err)
		chat := []byte{'['}
		for i, item := range list {
			tool, err := readSchemaTool(o, at("tools", i), item)
			if err != nil {
				keep(fault, err)
				return
			}
			chat = tool.appendChat(comma(chat, i))
		}
		if len(list) > 0 {
			w.set("tools", append(chat, ']'))
		}
	}
	raw, ok := o.take("tool_choice")
	if !ok {
		return
	}
	choice, err := o.parse("tool_choice", raw, maxFields)
	if err != nil {
		keep(fault, err)
		return
	}
	switch kind := choice.needText("type", fault); kind {
	case "auto", "none":
		w.setText("tool_choice", kind)
	case "any":
		w.setText("tool_choice", "required")
	case "tool":
		w.set("tool_choice", appendNamedChoice(nil, functionKind, choice.needText("name", fault)))
	default:
		keep(fault, badRequest("invalid_value", "tool_choice.type", "tool_choice.type is %s; it must be auto, any, tool or none", headerQuote(kind)))
	}
	if choice.flag("disable_parallel_tool_use", false, fault) {
		w.set("parallel_tool_calls", []byte("false"))
	}
	choice.finish(fault)
}

// readSchemaTool reads a tool as Messages lists it: the schema of its input beside its name.
func readSchemaTool(o *object, path string, raw []byte) (*flatTool, *api.Error) {
	tool, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	if kind, ok := tool.text("type", &fault); ok && kind != "custom" {
		return nil, unsupported(join(path, "type"), "the server runs no tools of its own: leave type out and send input_schema, not "+quote([]byte(kind)))
	}
	t := &flatTool{kind: functionKind, name: api.AppendString(nil, tool.needText("name", &fault)), description: jsonNull}
	if text, ok := tool.text("description", &fault); ok {
		t.description = api.AppendString(nil, text)
	}
	schema, ok := tool.take("input_schema")
	if !ok {
		keep(&fault, missing(join(path, "input_schema"), "a JSON schema"))
	}
	t.parameters = schema
	t.strict = strconv.AppendBool(nil, tool.flag("strict", false, &fault))
	tool.take("cache_control")
	tool.finish(&fault)
	return t, fault
}

// readThinking reads thinking. Without it a model does not think before it answers, where
// its template has a switch for that.
func readThinking(o *object, w *rewording, fault **api.Error) {
	raw, ok := o.take("thinking")
	if !ok {
		w.set("enable_thinking", []byte("false"))
		return
	}
	thinking, err := o.parse("thinking", raw, maxFields)
	if err != nil {
		keep(fault, err)
		return
	}
	kind := thinking.needText("type", fault)
	switch kind {
	case "enabled", "adaptive":
		w.set("enable_thinking", []byte("true"))
	case "disabled":
		w.set("enable_thinking", []byte("false"))
	default:
		keep(fault, badRequest("invalid_value", "thinking.type", "thinking.type is %s; it must be enabled, adaptive or disabled", headerQuote(kind)))
	}
	if n, ok := thinking.integer("budget_tokens", 1, maxInt32, fault); ok && kind == "enabled" {
		w.set("thinking_token_budget", formatInt(n))
	}
	thinking.text("display", fault)
	thinking.finish(fault)
}

// readOutputConfig reads output_config: the effort of thinking, and a schema of the answer.
func readOutputConfig(o *object, w *rewording, fault **api.Error) {
	raw, ok := o.take("output_config")
	format, hasFormat := o.take("output_format")
	if ok {
		config, err := o.parse("output_config", raw, maxFields)
		if err != nil {
			keep(fault, err)
			return
		}
		if effort, ok := config.text("effort", fault); ok {
			w.setText("reasoning_effort", effort)
		}
		if raw, ok := config.take("format"); ok {
			format, hasFormat = raw, true
		}
		config.finish(fault)
	}
	if !hasFormat {
		return
	}
	f, err := o.parse("output_config.format", format, maxFields)
	if err != nil {
		keep(fault, err)
		return
	}
	kind := f.needText("type", fault)
	schema, ok := f.take("schema")
	switch {
	case *fault != nil:
	case kind != "json_schema":
		keep(fault, unsupported("output_config.format.type", "send json_schema, not "+quote([]byte(kind))))
	case !ok:
		keep(fault, missing("output_config.format.schema", "a JSON schema"))
	default:
		w.set("response_format", append(append([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), schema...), "}}"...))
	}
	f.finish(fault)
}
