package completion

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/tokenizer/family"
)

// Templates read the calls of earlier answers as objects: arguments, which the OpenAI API
// has as JSON text, are an object there.

// MaxCallIDBytes of the id of a call.
const MaxCallIDBytes = 256

// history is what the messages of a chat have said so far.
type history struct {
	body   *jsonbody.Object
	family *family.Family    // of the model's template; nil where it has none
	calls  map[string]string // names of the functions that were called, by the call's id
	last   string            // id of the last function_call, which had none
	named  int               // ids that were made up

	preamble   string // describes the tools to a template that does not, in the first message
	systemless bool   // the preamble goes into the user's first message
	results    string // of the tools so far, where the last message was one of a template without tools
	resultsAt  int    // where in the messages they begin
}

// pastCall is a call of an earlier answer.
type pastCall struct {
	id        string
	name      string
	arguments json.RawMessage // a JSON value
}

// readCalls reads what a message says about calls: an answer's calls, or the id of the
// call whose result it is.
func (h *history) readCalls(m *pastMessage, fault **api.Error) {
	calls, modern := m.Take("tool_calls")
	call, legacy := m.Take("function_call")
	id, answers := m.Text("tool_call_id", fault)
	modern = modern && !jsonbody.IsEmptyArray(calls)
	switch {
	case *fault != nil:
	case m.role == "tool":
		jsonbody.Keep(fault, h.readAnswered(m, id, answers))
	case m.role == "function":
		m.role = "tool"
		jsonbody.Keep(fault, h.readAnswered(m, h.last, h.last != ""))
	case answers:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.Join(m.Path, "tool_call_id"), "%s belongs to messages of the role tool", jsonbody.Join(m.Path, "tool_call_id")))
	case m.role != "assistant" && (modern || legacy):
		name := map[bool]string{true: "tool_calls", false: "function_call"}[modern]
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.Join(m.Path, name), "%s belongs to messages of the role assistant", jsonbody.Join(m.Path, name)))
	case modern && legacy:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", jsonbody.Join(m.Path, "function_call"), "function_call and tool_calls exclude each other"))
	case modern:
		jsonbody.Keep(fault, h.readToolCalls(m, calls))
	case legacy:
		h.named++
		h.last = "call_" + strconv.Itoa(h.named)
		jsonbody.Keep(fault, h.readCalled(m, jsonbody.Join(m.Path, "function_call"), call, h.last))
	}
}

// readAnswered checks that a result is that of a call.
func (h *history) readAnswered(m *pastMessage, id string, ok bool) *api.Error {
	path := jsonbody.Join(m.Path, "tool_call_id")
	if !ok {
		return jsonbody.Missing(path, "the id of the call whose result the message is")
	}
	if _, called := h.calls[id]; !called {
		return api.RefuseParam("invalid_value", path, "%s is %s; no answer before this message called a tool with that id", path, jsonbody.HeaderQuote(id))
	}
	m.answers = id
	return nil
}

func (h *history) readToolCalls(m *pastMessage, raw json.RawMessage) *api.Error {
	path := jsonbody.Join(m.Path, "tool_calls")
	items, err := jsonbody.Array(path, raw, toolset.MaxCalls)
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := h.readToolCall(m, jsonbody.At(path, i), item); err != nil {
			return err
		}
	}
	return nil
}

// readToolCall reads {"id":…,"type":"function","function":{…}}, or the same of a custom tool;
// index is that of the chunk that the client put its message together from.
func (h *history) readToolCall(m *pastMessage, path string, raw json.RawMessage) *api.Error {
	var fault *api.Error
	call, err := m.Parse(path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	id, hasID := call.Text("id", &fault)
	kind, hasKind := call.Text("type", &fault)
	if !hasKind {
		kind = toolset.Function
	}
	if kind != toolset.Function && kind != toolset.Custom {
		jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "type"), "calls are of type function or custom, not "+jsonbody.Quote([]byte(kind))))
	}
	called, ok := toolset.TakeOfKind(call, kind)
	call.Take("index")
	call.Finish(&fault)
	switch {
	case fault != nil:
		return fault
	case !ok:
		return jsonbody.Missing(jsonbody.Join(path, kind), "an object with the name of the tool, and what it was called with")
	case !hasID || id == "":
		return jsonbody.Missing(jsonbody.Join(path, "id"), "the id that the call had in the answer")
	case len(id) > MaxCallIDBytes:
		return api.RefuseParam("invalid_value", jsonbody.Join(path, "id"), "%s has %d bytes; %d are allowed", jsonbody.Join(path, "id"), len(id), MaxCallIDBytes)
	}
	return h.readCalled(m, jsonbody.Join(path, kind), called, id)
}

// readCalled reads {"name":…,"arguments":…} of the call with an id, or {"name":…,"input":…}, whose
// text is the only argument of what templates take for a function.
func (h *history) readCalled(m *pastMessage, path string, raw json.RawMessage, id string) *api.Error {
	var fault *api.Error
	f, err := m.Parse(path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	name, ok := f.Text("name", &fault)
	if !ok || name == "" {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, "name"), "the name of the tool that was called"))
	}
	var arguments json.RawMessage
	if strings.HasSuffix(path, "."+toolset.Custom) {
		arguments = toolset.ArgumentsOfInput(f.Need("input", &fault))
	} else {
		arguments, err = readArguments(f)
		jsonbody.Keep(&fault, err)
	}
	f.Finish(&fault)
	if fault != nil {
		return fault
	}
	if h.calls == nil {
		h.calls = map[string]string{}
	}
	h.calls[id] = name
	m.calls = append(m.calls, pastCall{id: id, name: name, arguments: arguments})
	return nil
}

// readArguments gives the object that a call's arguments spell. Text that spells none is
// handed on as text: a model may have written it, and that must not end a conversation.
func readArguments(f *jsonbody.Object) (json.RawMessage, *api.Error) {
	path := jsonbody.Join(f.Path, "arguments")
	raw, ok := f.Take("arguments")
	switch {
	case !ok:
		return json.RawMessage("{}"), nil
	case raw[0] == '{':
		return raw, nil
	case raw[0] != '"':
		return nil, jsonbody.WrongType(path, "a string of JSON", raw)
	}
	text, err := jsonbody.String(path, raw)
	if err != nil {
		return nil, err
	}
	spelled := []byte(text)
	switch start := jsonbody.SkipSpace(spelled, 0); {
	case start == len(spelled):
		return json.RawMessage("{}"), nil
	case spelled[start] == '{' && json.Valid(spelled) && !jsonbody.TooDeep(spelled):
		return spelled, nil
	}
	return raw, nil
}

// callsJSON is the tool_calls of a message as the template reads them.
func (h *history) callsJSON(calls []pastCall) []byte {
	dst := []byte{'['}
	for i := range calls {
		c := &calls[i]
		dst = append(api.AppendComma(dst, i), `{"id":`...)
		dst = append(api.AppendString(dst, c.id), `,"type":"function","function":{"name":`...)
		dst = append(api.AppendString(dst, c.name), `,"arguments":`...)
		if h.family != nil && h.family.TextArguments && c.arguments[0] == '{' {
			dst = api.AppendString(dst, []byte(c.arguments))
		} else {
			dst = append(dst, c.arguments...)
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

// spellOut rewrites a message for a template that does not know tools: the tools are
// described in the system message, calls are text, and results are a user's message. dst
// holds the messages before.
func (h *history) spellOut(dst []byte, m *pastMessage) ([]byte, *api.Error) {
	results := h.results
	h.results = ""
	// A template that lists tools and drops calls still has its own form of results.
	spelled := h.family != nil && !h.family.Replayed && (len(m.calls) > 0 || m.answers != "" && !h.family.Listed)
	if h.preamble == "" && !spelled {
		return dst, nil
	}
	text, fault := m.plainText()
	if fault != nil {
		return dst, fault
	}
	switch {
	case h.preamble != "" && m.role == "system":
		text += "\n\n" + h.preamble
	case h.preamble != "" && h.systemless && m.role == "user":
		text = h.preamble + "\n\n" + text
	case h.preamble != "":
		dst = append(dst, `{"role":"system","content":`...)
		dst = append(api.AppendString(dst, h.preamble), `},`...)
	}
	h.preamble = ""
	switch {
	case !spelled:
	case len(m.calls) > 0:
		text, m.calls = h.family.CallText(text, m.spelledCalls()), nil
	case results != "": // results of one answer are one message: templates want roles to take turns
		dst = dst[:h.resultsAt]
		text = results + "\n" + family.ResultText(text)
	default:
		h.resultsAt = len(dst)
		text = family.ResultText(text)
	}
	if m.answers != "" && spelled {
		m.role, m.answers, h.results = "user", "", text
	}
	m.content = api.AppendString(nil, text)
	return dst, nil
}

func (m *pastMessage) spelledCalls() []family.Call {
	list := make([]family.Call, len(m.calls))
	for i, c := range m.calls {
		list[i] = family.Call{Name: c.name, Arguments: c.arguments}
	}
	return list
}

// plainText is the text of a message's content, parts joined by newlines.
func (m *pastMessage) plainText() (string, *api.Error) {
	path := jsonbody.Join(m.Path, "content")
	clean, fault := appendContent(m.Object, nil, path, m.content)
	if fault != nil {
		return "", fault
	}
	if clean[0] == '"' {
		return jsonbody.String(path, clean)
	}
	parts, fault := jsonbody.Array(path, clean, jsonbody.MaxFields)
	var lines []string
	for _, raw := range parts {
		text, err := ParsePart(m.Object, path, raw)
		if err != nil {
			return "", err
		}
		line, err := jsonbody.String(path, []byte(text))
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), fault
}
