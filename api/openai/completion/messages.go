package completion

import (
	"encoding/json"
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/toolset"
	"weir/tokenizer/chat"
)

// parseMessages checks the messages and hands them on with the key order of
// the client, which templates can see.
func parseMessages(o *jsonbody.Object, raw []byte, m *models.Model, limit int, tools *toolset.Set) (chat.Value, *api.Error) {
	list, err := jsonbody.Array("messages", raw, limit)
	switch {
	case err != nil:
		return chat.Value{}, err
	case len(list) == 0:
		return chat.Value{}, api.RefuseParam("invalid_value", "messages", "messages is empty; a chat needs at least one")
	}
	h := history{body: o, family: m.Family}
	if m.Family != nil && !m.Family.Listed && !hidesTools(m, tools) {
		h.preamble = m.Family.System(tools.Tools)
		h.systemless = h.preamble != "" && !m.TakesSystem()
	}
	clean := append(make([]byte, 0, len(raw)), '[')
	own := m.System(list)
	if own != nil {
		if clean, err = h.appendMessage(clean, "the model's own system message", own); err != nil {
			return chat.Value{}, err
		}
	}
	for i, item := range list {
		if clean, err = h.appendMessage(api.AppendComma(clean, len(clean)-1), jsonbody.At("messages", i), item); err != nil {
			return chat.Value{}, err
		}
	}
	return messagesValue(append(clean, ']'), m)
}

func messagesValue(clean []byte, m *models.Model) (chat.Value, *api.Error) {
	v, err := chat.FromJSON(clean)
	if err == nil && !m.Template.TakesParts() {
		v, err = chat.JoinParts(v)
	}
	if err != nil {
		return chat.Value{}, api.RefuseParam("invalid_value", "messages", "messages: %v", err)
	}
	return v, nil
}

// appendMessage checks one message and appends it as JSON. Fields of answers
// that clients send back as they came (annotations, empty tool_calls) say nothing to a
// template and are left out; a refusal is the text of an answer that has no other.
func (h *history) appendMessage(dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	o, fault := h.body.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return dst, fault
	}
	m := pastMessage{Object: o}
	m.role = readRole(o, &fault)
	if raw, ok := o.Take("content"); ok {
		m.content = raw
	}
	m.thought = readThought(o, &fault)
	o.Text("name", &fault)
	if fault != nil {
		return dst, fault
	}
	h.readCalls(&m, &fault)
	if raw, ok := o.Take("refusal"); ok && m.content == nil && m.role == "assistant" {
		_, err := jsonbody.String(jsonbody.Join(path, "refusal"), raw)
		jsonbody.Keep(&fault, err)
		m.content = raw
	}
	if m.content == nil && len(m.calls) == 0 && (m.role != "assistant" || m.thought == nil) {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, "content"), "a string or an array of text parts"))
	}
	refuseRest(o, &fault)
	if fault != nil {
		return dst, fault
	}
	if dst, fault = h.spellOut(dst, &m); fault != nil {
		return dst, fault
	}
	return h.writeFields(dst, &m)
}

// pastMessage is one message of a chat while it is read.
type pastMessage struct {
	*jsonbody.Object
	role    string
	content json.RawMessage // nil: none
	thought json.RawMessage // a JSON string; nil: none
	calls   []pastCall      // of an answer
	answers string          // id of the call whose result the message is
}

// readThought reads the thought of an earlier answer under either of its names. Where
// both are given, they are two copies of one text, as answers of this server have them.
func readThought(o *jsonbody.Object, fault **api.Error) json.RawMessage {
	var thought json.RawMessage
	for _, name := range params.BothReasoningNames {
		raw, ok := o.Take(name)
		if !ok {
			continue
		}
		_, err := jsonbody.String(jsonbody.Join(o.Path, name), raw)
		jsonbody.Keep(fault, err)
		if thought == nil {
			thought = raw
		}
	}
	return thought
}

// writeFields appends a message in the client's order of fields.
func (h *history) writeFields(dst []byte, m *pastMessage) ([]byte, *api.Error) {
	dst = append(dst, '{')
	thought, hasContent := m.thought, false
	for _, f := range m.Fields {
		switch f.Name {
		case "role":
			dst = jsonbody.AppendField(dst, f.Name, api.AppendString(nil, m.role))
		case "content":
			clean, err := h.contentJSON(m)
			if err != nil {
				return dst, err
			}
			dst, hasContent = jsonbody.AppendField(dst, f.Name, clean), true
		case "reasoning_content", "reasoning":
			if thought != nil && h.readsThought(m) {
				dst, thought = jsonbody.AppendField(dst, h.thoughtField(), thought), nil
			}
		case "name":
			if !jsonbody.IsNull(f.Raw) {
				dst = jsonbody.AppendField(dst, f.Name, f.Raw)
			}
		case "tool_calls", "function_call":
			if len(m.calls) > 0 {
				dst = jsonbody.AppendField(dst, "tool_calls", h.callsJSON(m.calls))
			}
		}
	}
	if !hasContent {
		clean, err := h.contentJSON(m)
		if err != nil {
			return dst, err
		}
		dst = jsonbody.AppendField(dst, "content", clean)
	}
	if m.answers != "" {
		dst = jsonbody.AppendField(dst, "tool_call_id", api.AppendString(nil, m.answers))
	}
	return append(dst, '}'), nil
}

// thoughtField is the field in which the template reads thoughts.
func (h *history) thoughtField() string {
	if h.family == nil {
		return string(params.ReasoningContent)
	}
	return h.family.ThoughtField
}

// readsThought reports whether the template takes the thought of a message: some refuse one beside the text of an answer with calls, which
// then goes without it.
func (h *history) readsThought(m *pastMessage) bool {
	said := m.content != nil && !jsonbody.IsNull(m.content) && string(m.content) != `""`
	return h.family == nil || !h.family.ThoughtAlone || len(m.calls) == 0 || !said
}

// contentJSON is a message's content as the template reads it. An answer of calls alone has
// empty text, except for templates that ask whether there is any.
func (h *history) contentJSON(m *pastMessage) ([]byte, *api.Error) {
	if m.content == nil && len(m.calls) > 0 && h.family != nil && h.family.NullContent {
		return []byte("null"), nil
	}
	return appendContent(m.Object, nil, jsonbody.Join(m.Path, "content"), m.content)
}

var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

const roleList = "system, developer, user, assistant or tool"

// readRole reads role. developer is the newer word for system, and function the older
// one for tool; no template knows them.
func readRole(o *jsonbody.Object, fault **api.Error) string {
	path := jsonbody.Join(o.Path, "role")
	raw, ok := o.Take("role")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(path, roleList))
		return ""
	}
	role, err := jsonbody.String(path, raw)
	jsonbody.Keep(fault, err)
	switch {
	case err != nil:
	case role == "developer":
		return "system"
	case !slices.Contains(roles, role):
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s is %s; it must be %s", path, jsonbody.Quote(raw), roleList))
	}
	return role
}

// refuseRest refuses what a message cannot have, and takes what says nothing.
func refuseRest(o *jsonbody.Object, fault **api.Error) {
	if raw, ok := o.Take("audio"); ok && !jsonbody.IsEmptyArray(raw) {
		jsonbody.Keep(fault, jsonbody.Unsupported(jsonbody.Join(o.Path, "audio"), "models here read text: put it into the content"))
	}
	o.Take("annotations")
	o.Finish(fault)
}

// appendContent checks a message's content: a string, or text parts.
func appendContent(o *jsonbody.Object, dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	if raw == nil {
		return append(dst, `""`...), nil
	}
	if raw[0] == '"' {
		return append(dst, raw...), nil
	}
	if raw[0] != '[' {
		return dst, jsonbody.WrongType(path, "a string or an array of text parts", raw)
	}
	parts, err := jsonbody.Array(path, raw, jsonbody.MaxFields)
	switch {
	case err != nil:
		return dst, err
	case len(parts) == 0:
		return dst, api.RefuseParam("invalid_value", path, "%s is an empty array; send at least one text part", path)
	}
	dst = append(dst, '[')
	for i, raw := range parts {
		text, err := ParsePart(o, jsonbody.At(path, i), raw)
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

// ParsePart returns the text of a part, which is a text or a refusal, as JSON.
func ParsePart(o *jsonbody.Object, path string, raw []byte) (json.RawMessage, *api.Error) {
	part, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	kind, ok := part.Text("type", &fault)
	switch {
	case fault != nil:
		return nil, fault
	case !ok:
		return nil, jsonbody.Missing(jsonbody.Join(path, "type"), `"text"`)
	case kind != "text" && kind != "refusal":
		return nil, jsonbody.Unsupported(jsonbody.Join(path, "type"), "models here read text: send parts of type text, not "+jsonbody.Quote([]byte(kind)))
	}
	text, ok := part.Take("text")
	if kind == "refusal" {
		text, ok = part.Take("refusal")
	}
	if !ok {
		return nil, jsonbody.Missing(jsonbody.Join(path, kind), "a string")
	}
	if _, err := jsonbody.String(jsonbody.Join(path, kind), text); err != nil {
		return nil, err
	}
	part.Finish(&fault)
	return text, fault
}
