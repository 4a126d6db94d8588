package responses

import (
	"bytes"
	"encoding/json"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// readInput reads instructions and input into the messages of a chat. Instructions come
// first, in one message with what a system or a developer says before others do.
func (r *Request) readInput(o *job.Body, w *translation.Translation, fault **api.Error) {
	r.instructions = jsonbody.Null
	if raw, ok := o.Take("instructions"); ok {
		r.instructions = bytes.Clone(raw)
		if raw[0] == '[' {
			jsonbody.Keep(fault, jsonbody.Unsupported("instructions", "send a string; items belong into input"))
		} else if text, ok := o.Text("instructions", fault); ok && text != "" {
			w.Messages.Instruct("instructions", text)
		}
	}
	for _, item := range o.Earlier {
		if *fault != nil {
			return
		}
		jsonbody.Keep(fault, readItem(&w.Messages, o.Object, "previous_response_id", item))
	}
	raw, ok := o.Take("input")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing("input", "a string or an array of items"))
		return
	}
	r.input = bytes.Clone(raw)
	if raw[0] != '[' {
		_, err := jsonbody.String("input", raw)
		if err != nil {
			err = jsonbody.WrongType("input", "a string or an array of items", raw)
		}
		jsonbody.Keep(fault, err)
		w.Messages.Say("input", "user", raw)
		return
	}
	items, err := jsonbody.Array("input", raw, translation.MaxItems)
	if jsonbody.Keep(fault, err); err == nil && len(items) == 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "input", "input is empty; send a string or at least one item"))
	}
	for i, item := range items {
		if *fault != nil {
			return
		}
		jsonbody.Keep(fault, readItem(&w.Messages, o.Object, jsonbody.At("input", i), item))
	}
}

// readItem adds an item of a conversation.
func readItem(t *translation.Messages, o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	item, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return fault
	}
	kind, ok := item.Text("type", &fault)
	if !ok && fault == nil {
		kind = "message"
	}
	switch kind {
	case "message":
		readMessageItem(t, item, &fault)
	case "reasoning":
		readReasoningItem(t, item, &fault)
	case "function_call":
		id, name, arguments := item.Need("call_id", &fault), readName(item, &fault), item.Need("arguments", &fault)
		t.AddCall(path, toolset.Function, translation.Call{Place: path, ID: id, Name: name, With: arguments})
	case "custom_tool_call":
		id, name, input := item.Need("call_id", &fault), readName(item, &fault), item.Need("input", &fault)
		t.AddCall(path, toolset.Custom, translation.Call{Place: path, ID: id, Name: name, With: input})
	case "function_call_output", "custom_tool_call_output":
		id := item.Need("call_id", &fault)
		content, err := needContent(item, "output", "input_text", "output_text", "text")
		jsonbody.Keep(&fault, err)
		t.Result(path, id, content)
	case "compaction", "compaction_summary", "context_compaction":
		readCompaction(t, item, &fault)
	case "item_reference":
		jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "type"), "send the item itself, or previous_response_id"))
	default:
		jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "type"),
			"send items of type message, reasoning, function_call, custom_tool_call or their outputs, not "+jsonbody.Quote([]byte(kind))))
	}
	translation.SkipHarmless(item)
	item.Finish(&fault)
	return fault
}

// needContent reads the text that an item cannot do without.
func needContent(o *jsonbody.Object, name string, kinds ...string) ([]byte, *api.Error) {
	raw, ok := o.Take(name)
	if !ok {
		return nil, jsonbody.Missing(jsonbody.Join(o.Path, name), "a string or an array of text parts")
	}
	content, _, fault := translation.TextContent(o, jsonbody.Join(o.Path, name), raw, kinds...)
	return content, fault
}

func readMessageItem(t *translation.Messages, item *jsonbody.Object, fault **api.Error) {
	role := item.Need("role", fault)
	raw, ok := item.Take("content")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(jsonbody.Join(item.Path, "content"), "a string or an array of text parts"))
	}
	if *fault != nil {
		return
	}
	content, text, err := translation.TextContent(item, jsonbody.Join(item.Path, "content"), raw, "input_text", "output_text", "text", "refusal")
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	switch role {
	case "system", "developer":
		t.Instruct(item.Path, text)
	case "user":
		t.Say(item.Path, role, content)
	case "assistant":
		t.Reply(item.Path, content)
	default:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.Join(item.Path, "role"),
			"%s is %s; it must be user, assistant, system or developer", jsonbody.Join(item.Path, "role"), jsonbody.HeaderQuote(role)))
	}
}

// readReasoningItem adds a thought: its text, or else its summary. One that is encrypted was
// another server's, and says nothing here.
func readReasoningItem(t *translation.Messages, item *jsonbody.Object, fault **api.Error) {
	item.Take("encrypted_content")
	for _, part := range []struct{ field, kind string }{{"content", "reasoning_text"}, {"summary", "summary_text"}} {
		raw, ok := item.Take(part.field)
		if !ok || *fault != nil || jsonbody.IsEmptyArray(raw) {
			continue
		}
		_, text, err := translation.TextContent(item, jsonbody.Join(item.Path, part.field), raw, part.kind, "text")
		if jsonbody.Keep(fault, err); err == nil && text != "" {
			t.Think(item.Path, text)
			item.Take("summary")
			return
		}
	}
}
