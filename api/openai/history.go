package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/api"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// Templates read the calls of earlier answers as objects: arguments, which the OpenAI API
// has as JSON text, are an object there.

const maxCallIDBytes = 256

// history is what the messages of a chat have said so far.
type history struct {
	body   *object
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
	calls, modern := m.take("tool_calls")
	call, legacy := m.take("function_call")
	id, answers := m.text("tool_call_id", fault)
	modern = modern && !isEmptyArray(calls)
	switch {
	case *fault != nil:
	case m.role == "tool":
		keep(fault, h.readAnswered(m, id, answers))
	case m.role == "function":
		m.role = "tool"
		keep(fault, h.readAnswered(m, h.last, h.last != ""))
	case answers:
		keep(fault, badRequest("invalid_value", join(m.path, "tool_call_id"), "%s belongs to messages of the role tool", join(m.path, "tool_call_id")))
	case m.role != "assistant" && (modern || legacy):
		name := map[bool]string{true: "tool_calls", false: "function_call"}[modern]
		keep(fault, badRequest("invalid_value", join(m.path, name), "%s belongs to messages of the role assistant", join(m.path, name)))
	case modern && legacy:
		keep(fault, badRequest("invalid_value", join(m.path, "function_call"), "function_call and tool_calls exclude each other"))
	case modern:
		keep(fault, h.readToolCalls(m, calls))
	case legacy:
		h.named++
		h.last = "call_" + strconv.Itoa(h.named)
		keep(fault, h.readCalled(m, join(m.path, "function_call"), call, h.last))
	}
}

// readAnswered checks that a result is that of a call.
func (h *history) readAnswered(m *pastMessage, id string, ok bool) *api.Error {
	path := join(m.path, "tool_call_id")
	if !ok {
		return missing(path, "the id of the call whose result the message is")
	}
	if _, called := h.calls[id]; !called {
		return badRequest("invalid_value", path, "%s is %s; no answer before this message called a tool with that id", path, headerQuote(id))
	}
	m.answers = id
	return nil
}

func (h *history) readToolCalls(m *pastMessage, raw json.RawMessage) *api.Error {
	path := join(m.path, "tool_calls")
	items, err := parseArray(path, raw, maxCalls)
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := h.readToolCall(m, at(path, i), item); err != nil {
			return err
		}
	}
	return nil
}

// readToolCall reads {"id":…,"type":"function","function":{…}}, or the same of a custom tool;
// index is that of the chunk that the client put its message together from.
func (h *history) readToolCall(m *pastMessage, path string, raw json.RawMessage) *api.Error {
	var fault *api.Error
	call, err := m.parse(path, raw, maxFields)
	if err != nil {
		return err
	}
	id, hasID := call.text("id", &fault)
	kind, hasKind := call.text("type", &fault)
	if !hasKind {
		kind = functionKind
	}
	if kind != functionKind && kind != customKind {
		keep(&fault, unsupported(join(path, "type"), "calls are of type function or custom, not "+quote([]byte(kind))))
	}
	called, ok := call.takeOfKind(kind)
	call.take("index")
	call.finish(&fault)
	switch {
	case fault != nil:
		return fault
	case !ok:
		return missing(join(path, kind), "an object with the name of the tool, and what it was called with")
	case !hasID || id == "":
		return missing(join(path, "id"), "the id that the call had in the answer")
	case len(id) > maxCallIDBytes:
		return badRequest("invalid_value", join(path, "id"), "%s has %d bytes; %d are allowed", join(path, "id"), len(id), maxCallIDBytes)
	}
	return h.readCalled(m, join(path, kind), called, id)
}

// readCalled reads {"name":…,"arguments":…} of the call with an id, or {"name":…,"input":…}, whose
// text is the only argument of what templates take for a function.
func (h *history) readCalled(m *pastMessage, path string, raw json.RawMessage, id string) *api.Error {
	var fault *api.Error
	f, err := m.parse(path, raw, maxFields)
	if err != nil {
		return err
	}
	name, ok := f.text("name", &fault)
	if !ok || name == "" {
		keep(&fault, missing(join(path, "name"), "the name of the tool that was called"))
	}
	var arguments json.RawMessage
	if strings.HasSuffix(path, "."+customKind) {
		arguments = argumentsOfInput(f.needText("input", &fault))
	} else {
		arguments, err = readArguments(f)
		keep(&fault, err)
	}
	f.finish(&fault)
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
func readArguments(f *object) (json.RawMessage, *api.Error) {
	path := join(f.path, "arguments")
	raw, ok := f.take("arguments")
	switch {
	case !ok:
		return json.RawMessage("{}"), nil
	case raw[0] == '{':
		return raw, nil
	case raw[0] != '"':
		return nil, wrongType(path, "a string of JSON", raw)
	}
	text, err := parseString(path, raw)
	if err != nil {
		return nil, err
	}
	spelled := []byte(text)
	switch start := skipBlank(spelled); {
	case start == len(spelled):
		return json.RawMessage("{}"), nil
	case spelled[start] == '{' && json.Valid(spelled) && !tooDeep(spelled):
		return spelled, nil
	}
	return raw, nil
}

// skipBlank is the index of the first byte that is no white space of JSON.
func skipBlank(text []byte) int {
	for i, b := range text {
		if b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return i
		}
	}
	return len(text)
}

// callsJSON is the tool_calls of a message as the template reads them.
func (h *history) callsJSON(calls []pastCall) []byte {
	dst := []byte{'['}
	for i := range calls {
		c := &calls[i]
		dst = append(comma(dst, i), `{"id":`...)
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

// takesSystem reports whether the model's template takes a system message; some refuse it.
func (m *Model) takesSystem() bool {
	bos, eos := m.Tokenizer.BoundaryTexts()
	_, err := m.Template.Render(chat.Input{BOSToken: bos, EOSToken: eos, AddGenerationPrompt: true,
		Messages: chat.Messages(chat.Message{Role: "system", Content: "x"}, chat.Message{Role: "user", Content: "x"})})
	return err == nil
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
	path := join(m.path, "content")
	clean, fault := m.appendContent(nil, path, m.content)
	if fault != nil {
		return "", fault
	}
	if clean[0] == '"' {
		return parseString(path, clean)
	}
	parts, fault := parseArray(path, clean, maxFields)
	var lines []string
	for _, raw := range parts {
		text, err := m.parsePart(path, raw)
		if err != nil {
			return "", err
		}
		line, err := parseString(path, []byte(text))
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), fault
}
