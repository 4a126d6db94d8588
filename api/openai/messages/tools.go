package messages

import (
	"math"
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

func formatInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// readMessageTools reads tools and tool_choice.
func readMessageTools(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	if raw, ok := o.Take("tools"); ok {
		list, err := jsonbody.Array("tools", raw, math.MaxInt32)
		jsonbody.Keep(fault, err)
		chat := []byte{'['}
		for i, item := range list {
			tool, err := readSchemaTool(o, jsonbody.At("tools", i), item)
			if err != nil {
				jsonbody.Keep(fault, err)
				return
			}
			chat = tool.AppendChat(api.AppendComma(chat, i))
		}
		if len(list) > 0 {
			w.Set("tools", append(chat, ']'))
		}
	}
	raw, ok := o.Take("tool_choice")
	if !ok {
		return
	}
	choice, err := o.Parse("tool_choice", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	switch kind := choice.Need("type", fault); kind {
	case "auto", "none":
		w.SetText("tool_choice", kind)
	case "any":
		w.SetText("tool_choice", "required")
	case "tool":
		w.Set("tool_choice", translation.AppendNamedChoice(nil, toolset.Function, choice.Need("name", fault)))
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "tool_choice.type", "tool_choice.type is %s; it must be auto, any, tool or none", jsonbody.HeaderQuote(kind)))
	}
	if choice.Flag("disable_parallel_tool_use", false, fault) {
		w.Set("parallel_tool_calls", []byte("false"))
	}
	choice.Finish(fault)
}

// readSchemaTool reads a tool as Messages lists it: the schema of its input beside its name.
func readSchemaTool(o *jsonbody.Object, path string, raw []byte) (*translation.Tool, *api.Error) {
	tool, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	kind, typed := tool.Text("type", &fault)
	if typed && kind != "custom" {
		return readTypedTool(tool, kind, fault)
	}
	t := &translation.Tool{Kind: toolset.Function, Name: api.AppendString(nil, tool.Need("name", &fault)), Description: jsonbody.Null}
	if text, ok := tool.Text("description", &fault); ok {
		t.Description = api.AppendString(nil, text)
	}
	schema, ok := tool.Take("input_schema")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, "input_schema"), "a JSON schema"))
	}
	t.Parameters = schema
	t.Strict = strconv.AppendBool(nil, tool.Flag("strict", false, &fault))
	tool.Take("cache_control")
	tool.Finish(&fault)
	return t, fault
}

// readThinking reads thinking. Without it a model does not think before it answers, where
// its template has a switch for that.
func readThinking(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("thinking")
	if !ok {
		w.Set("enable_thinking", []byte("false"))
		return
	}
	thinking, err := o.Parse("thinking", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	kind := thinking.Need("type", fault)
	switch kind {
	case "enabled", "adaptive":
		w.Set("enable_thinking", []byte("true"))
	case "disabled":
		w.Set("enable_thinking", []byte("false"))
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "thinking.type", "thinking.type is %s; it must be enabled, adaptive or disabled", jsonbody.HeaderQuote(kind)))
	}
	if n, ok := thinking.Integer("budget_tokens", 1, math.MaxInt32, fault); ok && kind == "enabled" {
		w.Set("thinking_token_budget", formatInt(n))
	}
	thinking.Text("display", fault)
	thinking.Finish(fault)
}

// readOutputConfig reads output_config: the effort of thinking, and a schema of the answer.
func readOutputConfig(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("output_config")
	format, hasFormat := o.Take("output_format")
	if ok {
		config, err := o.Parse("output_config", raw, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return
		}
		if effort, ok := config.Text("effort", fault); ok {
			w.SetText("reasoning_effort", effort)
		}
		if raw, ok := config.Take("format"); ok {
			format, hasFormat = raw, true
		}
		config.Finish(fault)
	}
	if !hasFormat {
		return
	}
	f, err := o.Parse("output_config.format", format, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	kind := f.Need("type", fault)
	schema, ok := f.Take("schema")
	switch {
	case *fault != nil:
	case kind != "json_schema":
		jsonbody.Keep(fault, jsonbody.Unsupported("output_config.format.type", "send json_schema, not "+jsonbody.Quote([]byte(kind))))
	case !ok:
		jsonbody.Keep(fault, jsonbody.Missing("output_config.format.schema", "a JSON schema"))
	default:
		w.Set("response_format", append(append([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), schema...), "}}"...))
	}
	f.Finish(fault)
}
