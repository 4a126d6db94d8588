package openai

import (
	"bytes"
	"encoding/json"

	"weir/api"
)

// readInput reads instructions and input into the messages of a chat. Instructions come
// first, in one message with what a system or a developer says before others do.
func (r *responseRequest) readInput(o *request, w *rewording, fault **api.Error) {
	r.instructions = jsonNull
	if raw, ok := o.take("instructions"); ok {
		r.instructions = bytes.Clone(raw)
		if raw[0] == '[' {
			keep(fault, unsupported("instructions", "send a string; items belong into input"))
		} else if text, ok := o.text("instructions", fault); ok && text != "" {
			w.turns.instruct("instructions", text)
		}
	}
	for _, item := range o.earlier {
		if *fault != nil {
			return
		}
		keep(fault, w.turns.item(o.object, "previous_response_id", item))
	}
	raw, ok := o.take("input")
	if !ok {
		keep(fault, missing("input", "a string or an array of items"))
		return
	}
	r.input = bytes.Clone(raw)
	if raw[0] != '[' {
		_, err := parseString("input", raw)
		if err != nil {
			err = wrongType("input", "a string or an array of items", raw)
		}
		keep(fault, err)
		w.turns.say("input", "user", raw)
		return
	}
	items, err := parseArray("input", raw, maxItems)
	if keep(fault, err); err == nil && len(items) == 0 {
		keep(fault, badRequest("invalid_value", "input", "input is empty; send a string or at least one item"))
	}
	for i, item := range items {
		if *fault != nil {
			return
		}
		keep(fault, w.turns.item(o.object, at("input", i), item))
	}
}

// maxItems of one input; the messages that they become have a limit of their own.
const maxItems = 1 << 14

// item adds an item of a conversation.
func (t *turnWriter) item(o *object, path string, raw json.RawMessage) *api.Error {
	item, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return fault
	}
	kind, ok := item.text("type", &fault)
	if !ok && fault == nil {
		kind = "message"
	}
	switch kind {
	case "message":
		t.messageItem(item, &fault)
	case "reasoning":
		t.reasoningItem(item, &fault)
	case "function_call":
		id, name, arguments := item.needText("call_id", &fault), item.needText("name", &fault), item.needText("arguments", &fault)
		t.call(path, functionKind, called{path, id, name, arguments})
	case "custom_tool_call":
		id, name, input := item.needText("call_id", &fault), item.needText("name", &fault), item.needText("input", &fault)
		t.call(path, customKind, called{path, id, name, input})
	case "function_call_output", "custom_tool_call_output":
		id := item.needText("call_id", &fault)
		content, err := item.needContent("output", "input_text", "output_text", "text")
		keep(&fault, err)
		t.result(path, id, content)
	case "item_reference":
		keep(&fault, unsupported(join(path, "type"), "send the item itself, or previous_response_id"))
	default:
		keep(&fault, unsupported(join(path, "type"),
			"send items of type message, reasoning, function_call, custom_tool_call or their outputs, not "+quote([]byte(kind))))
	}
	item.skipHarmless()
	item.finish(&fault)
	return fault
}

// needContent reads the text that an item cannot do without.
func (o *object) needContent(name string, kinds ...string) ([]byte, *api.Error) {
	raw, ok := o.take(name)
	if !ok {
		return nil, missing(join(o.path, name), "a string or an array of text parts")
	}
	content, _, fault := o.textContent(join(o.path, name), raw, kinds...)
	return content, fault
}

func (t *turnWriter) messageItem(item *object, fault **api.Error) {
	role := item.needText("role", fault)
	raw, ok := item.take("content")
	if !ok {
		keep(fault, missing(join(item.path, "content"), "a string or an array of text parts"))
	}
	if *fault != nil {
		return
	}
	content, text, err := item.textContent(join(item.path, "content"), raw, "input_text", "output_text", "text", "refusal")
	if err != nil {
		keep(fault, err)
		return
	}
	switch role {
	case "system", "developer":
		t.instruct(item.path, text)
	case "user":
		t.say(item.path, role, content)
	case "assistant":
		t.reply(item.path, content)
	default:
		keep(fault, badRequest("invalid_value", join(item.path, "role"),
			"%s is %s; it must be user, assistant, system or developer", join(item.path, "role"), headerQuote(role)))
	}
}

// reasoningItem adds a thought: its text, or else its summary. One that is encrypted was
// another server's, and says nothing here.
func (t *turnWriter) reasoningItem(item *object, fault **api.Error) {
	item.take("encrypted_content")
	for _, part := range []struct{ field, kind string }{{"content", "reasoning_text"}, {"summary", "summary_text"}} {
		raw, ok := item.take(part.field)
		if !ok || *fault != nil || isEmptyArray(raw) {
			continue
		}
		_, text, err := item.textContent(join(item.path, part.field), raw, part.kind, "text")
		if keep(fault, err); err == nil && text != "" {
			t.think(item.path, text)
			item.take("summary")
			return
		}
	}
}
