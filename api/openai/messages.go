package openai

import (
	"encoding/json"
	"slices"

	"weir/api"
	"weir/tokenizer/chat"
)

// parseMessages checks the messages and hands them on with the key order of
// the client, which templates can see.
func (o *object) parseMessages(raw []byte, m *Model, limit int) (chat.Value, *api.Error) {
	list, err := parseArray("messages", raw, limit)
	switch {
	case err != nil:
		return chat.Value{}, err
	case len(list) == 0:
		return chat.Value{}, badRequest("invalid_value", "messages", "messages is empty; a chat needs at least one")
	}
	clean := append(make([]byte, 0, len(raw)), '[')
	for i, item := range list {
		if i > 0 {
			clean = append(clean, ',')
		}
		if clean, err = o.appendMessage(clean, at("messages", i), item); err != nil {
			return chat.Value{}, err
		}
	}
	return messagesValue(append(clean, ']'), m)
}

func messagesValue(clean []byte, m *Model) (chat.Value, *api.Error) {
	v, err := chat.FromJSON(clean)
	if err == nil && !m.Template.TakesParts() {
		v, err = chat.JoinParts(v)
	}
	if err != nil {
		return chat.Value{}, badRequest("invalid_value", "messages", "messages: %v", err)
	}
	return v, nil
}

// appendMessage checks one message and appends it as JSON. Fields of answers
// that clients send back as they came (refusal, annotations, empty tool_calls)
// say nothing to a template and are left out.
func (o *object) appendMessage(dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	m, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return dst, fault
	}
	role := readRole(m, &fault)
	content, hasContent := m.take("content")
	if !hasContent {
		keep(&fault, missing(join(path, "content"), "a string or an array of text parts"))
	}
	m.text("name", &fault)
	m.text("reasoning_content", &fault)
	refuseParts(m, &fault)
	if fault != nil {
		return dst, fault
	}
	dst = append(dst, '{')
	for _, f := range m.fields {
		switch f.name {
		case "role":
			dst = appendField(dst, f.name, api.AppendString(nil, role))
		case "content":
			clean, err := m.appendContent(nil, join(path, "content"), content)
			if err != nil {
				return dst, err
			}
			dst = appendField(dst, f.name, clean)
		case "name", "reasoning_content":
			if !isNull(f.raw) {
				dst = appendField(dst, f.name, f.raw)
			}
		}
	}
	return append(dst, '}'), nil
}

func appendField(dst []byte, name string, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(api.AppendString(dst, name), ':')
	return append(dst, value...)
}

var roles = []string{"system", "developer", "user", "assistant"}

// readRole reads role; developer is the newer word for system, which no
// template knows.
func readRole(o *object, fault **api.Error) string {
	path := join(o.path, "role")
	raw, ok := o.take("role")
	if !ok {
		keep(fault, missing(path, "system, developer, user or assistant"))
		return ""
	}
	role, err := parseString(path, raw)
	keep(fault, err)
	switch {
	case err != nil:
	case role == "developer":
		return "system"
	case role == "tool" || role == "function":
		keep(fault, unsupported(path, "tools are not served yet: put the result into a user message"))
	case !slices.Contains(roles, role):
		keep(fault, badRequest("invalid_value", path, "%s is %s; it must be system, developer, user or assistant", path, quote(raw)))
	}
	return role
}

// refuseParts refuses the fields of a message that are not served.
func refuseParts(o *object, fault **api.Error) {
	for _, name := range []string{"tool_calls", "function_call", "tool_call_id", "audio"} {
		if raw, ok := o.take(name); ok && !isEmptyArray(raw) {
			keep(fault, unsupported(join(o.path, name), "tools and audio are not served yet: put it into the text"))
		}
	}
	o.take("refusal")
	o.take("annotations")
	o.finish(fault)
}

// appendContent checks a message's content: a string, or text parts.
func (o *object) appendContent(dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	if raw[0] == '"' {
		return append(dst, raw...), nil
	}
	if raw[0] != '[' {
		return dst, wrongType(path, "a string or an array of text parts", raw)
	}
	parts, err := parseArray(path, raw, maxFields)
	switch {
	case err != nil:
		return dst, err
	case len(parts) == 0:
		return dst, badRequest("invalid_value", path, "%s is an empty array; send at least one text part", path)
	}
	dst = append(dst, '[')
	for i, raw := range parts {
		text, err := o.parsePart(at(path, i), raw)
		if err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"type":"text","text":`...), text...), '}')
	}
	return append(dst, ']'), nil
}

// parsePart returns the text of a text part, as JSON.
func (o *object) parsePart(path string, raw []byte) (json.RawMessage, *api.Error) {
	part, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	kind, ok := part.text("type", &fault)
	switch {
	case fault != nil:
		return nil, fault
	case !ok:
		return nil, missing(join(path, "type"), `"text"`)
	case kind != "text":
		return nil, unsupported(join(path, "type"), "models here read text: send parts of type text, not "+quote([]byte(kind)))
	}
	text, ok := part.take("text")
	if !ok {
		return nil, missing(join(path, "text"), "a string")
	}
	if _, err := parseString(join(path, "text"), text); err != nil {
		return nil, err
	}
	part.finish(&fault)
	return text, fault
}
