// Package translation writes requests of other APIs as chat completions, so that a conversation has the same prompt, limits and refusals on whichever path it comes.
//
//	var m translation.Messages
//	m.Instruct("system", "Be short.")
//	m.Say("input[0]", "user", text)
//	chat := m.End() // the messages of a chat completion
package translation

import (
	"slices"
	"strings"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/toolset"
)

// Responses and Messages are chats in other words. Their readers write a request as chat
// completions would have it and hand that to readChat, so that a conversation has the
// same prompt, limits and refusals on whichever path it comes. A refusal names the field
// that the client sent.

// A ReadChat reads a request of chat completions.
type ReadChat func(o *job.Body, m *models.Model) (*job.Job, *api.Error)

// Translation is a request in the words of chat completions.
type Translation struct {
	Chat     job.Body
	Messages Messages
	list     string          // the client's field that holds the conversation
	CallID   string          // the client's name of the id of the call that a result belongs to
	names    []Renamed       // the longest first
	written  map[string]bool // fields of the chat that are not the client's own

	Schema     string   // the client's name of a tool's parameters; "" is the chat's
	ToolPaths  []string // where each of the chat's tools stands in the client's request; nil: at the same place
	Own        any      // what the answer needs of the request beside the chat, see job.Job
	Background bool     // the answer is computed without its client
	Truncates  bool     // the oldest messages are left out of a conversation that does not fit
}

// Renamed is a field that has another name in a chat: a path of the chat's, or the
// beginning of one.
type Renamed struct{ Chat, Client string }

// New begins the translation of a request whose conversation stands in the field list, and whose results name their call by id.
func New(o *job.Body, list, id string, names ...Renamed) *Translation {
	w := &Translation{list: list, CallID: id, names: names, written: map[string]bool{"messages": true}}
	w.Chat = job.Body{Object: &jsonbody.Object{Notes: o.Notes.Renamed(w.clientPath)}, Permit: o.Permit}
	return w
}

// Set gives the chat a field.
func (w *Translation) Set(name string, raw []byte) {
	w.written[name] = true
	w.Chat.Add(name, raw)
}

// SetFor is Set of a field that one of several fields of the client asks for.
func (w *Translation) SetFor(client, name string, raw []byte) {
	if !w.written[name] {
		w.names = append(slices.Clip(w.names), Renamed{name, client})
	}
	w.Set(name, raw)
}

// SetText gives the chat a field that is a string.
func (w *Translation) SetText(name, text string) { w.Set(name, api.AppendString(nil, text)) }

// Finish completes the chat. Fields of the client's request that were not taken are the
// same in a chat, or unknown to both.
func (w *Translation) Finish(o *jsonbody.Object) {
	w.Set("messages", w.Messages.End())
	for f, left := o.Rest(); left; f, left = o.Rest() {
		w.Chat.Add(f.Name, f.Raw)
	}
}

// Read reads the chat.
func (w *Translation) Read(readChat ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	if w.Truncates {
		return w.truncated(readChat, o, m)
	}
	w.Finish(o.Object)
	return w.done(readChat(&w.Chat, m))
}

// done ends the reading of the chat.
func (w *Translation) done(j *job.Job, fault *api.Error) (*job.Job, *api.Error) {
	if fault != nil {
		return nil, w.Explain(fault)
	}
	w.Chat, w.Messages.list, w.Messages.begins, w.Messages.roles = job.Body{}, nil, nil, nil // what is left explains faults
	j.ClientNames, j.Own, j.Background = w, w.Own, w.Background
	return j, w.CheckCount(j.Params.N)
}

// CheckCount refuses several answers, which only chats have.
func (w *Translation) CheckCount(n int) *api.Error {
	if n == 1 {
		return nil
	}
	return api.RefuseParam("unsupported_parameter", "n", "n is %d; %s gives one answer, so leave n out", n, w.list)
}

// Explain puts the client's own names into a fault of readChat.
func (w *Translation) Explain(fault *api.Error) *api.Error {
	path, pointer, pointed := strings.Cut(fault.Param, "#") // a place in a schema, which the message names otherwise
	own := w.clientPath(path)
	if own != path {
		fault.Message = strings.ReplaceAll(fault.Message, path, own)
		if fault.Param = own; pointed {
			fault.Param += "#" + pointer
		}
	}
	return fault
}

// clientPath is where the client wrote what stands at a path of the chat.
func (w *Translation) clientPath(path string) string {
	rest, inMessages := strings.CutPrefix(path, "messages")
	if inMessages {
		number, behind, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
		if i, ok := jsonbody.ParseIndex(number); ok && i < len(w.Messages.paths) {
			return w.inMessage(i, behind)
		}
		return w.list + rest
	}
	field, _, _ := strings.Cut(path, ".")
	field, _, _ = strings.Cut(field, "[")
	if !w.written[field] {
		return path
	}
	for _, n := range w.names {
		if rest, ok := strings.CutPrefix(path, n.Chat); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path = n.Client + rest
			break
		}
	}
	if rest, ok := strings.CutPrefix(path, "tools["); ok {
		number, behind, _ := strings.Cut(rest, "]")
		if i, ok := jsonbody.ParseIndex(number); ok && i < len(w.ToolPaths) {
			path = w.ToolPaths[i] + behind
		}
	}
	if strings.HasPrefix(path, "tool") { // tools lie one level deeper in a chat, and so do their grammars
		if w.Schema != "" {
			path = strings.Replace(path, "].function.parameters", "]."+w.Schema, 1)
		}
		path = strings.Replace(path, "].function", "]", 1)
		path = strings.Replace(path, "].custom", "]", 1)
		return strings.Replace(path, ".format.grammar", ".format", 1)
	}
	return path
}

// inMessage is where the client wrote what stands behind the path of a message: calls and results are items or blocks of their own, whose
// names lie flat.
func (w *Translation) inMessage(i int, behind string) string {
	if behind == ".tool_call_id" {
		return w.Messages.paths[i] + "." + w.CallID
	}
	call, isCall := strings.CutPrefix(behind, ".tool_calls[")
	number, field, _ := strings.Cut(call, "]")
	k, ok := jsonbody.ParseIndex(number)
	if !isCall || !ok || k >= len(w.Messages.calls[i]) {
		return w.Messages.paths[i] + behind
	}
	if field == ".id" && w.CallID == "call_id" {
		field = ".call_id" // an item's id is another one
	}
	for _, kind := range []string{".function", ".custom"} {
		if inner, ok := strings.CutPrefix(field, kind); ok {
			field = inner
		}
	}
	return w.Messages.calls[i][k] + field
}

// Messages writes the messages of a chat. What an assistant thought, said and called in a
// row is one message, as templates have it. What a system says before anybody else
// is one message, too: most templates know one, at the beginning.
type Messages struct {
	list   []byte     // the messages so far
	paths  []string   // where each of them stands in the client's request
	calls  [][]string // where the calls of each stand there
	roles  []string   // of each
	begins []int      // of each, in list

	system []string // of the message that is being written, if it is the system's
	answer assistantTurn
	path   string // of the message that is being written; "" is none
}

type assistantTurn struct {
	thought []string
	content []byte   // JSON
	calls   []byte   // JSON objects
	places  []string // of calls, in the client's request
}

// add appends a message whose fields behind the role are given as JSON.
func (t *Messages) add(path, role string, fields []byte) {
	t.flush()
	t.append(path, role, fields)
}

func (t *Messages) append(path, role string, fields []byte) {
	t.list = api.AppendComma(t.list, len(t.paths))
	t.begins, t.roles = append(t.begins, len(t.list)), append(t.roles, role)
	t.list = append(t.list, `{"role":"`...)
	t.list = append(append(t.list, role...), '"')
	t.list = append(append(t.list, fields...), '}')
	t.paths, t.calls = append(t.paths, path), append(t.calls, t.answer.places)
}

// Say appends a message that is a text or parts of one.
func (t *Messages) Say(path, role string, content []byte) {
	t.add(path, role, append([]byte(`,"content":`), content...))
}

// Ask appends a message of the user, behind an empty one of the assistant where the user spoke last: templates want them by turns.
func (t *Messages) Ask(path, text string) {
	t.flush()
	if n := len(t.roles); n > 0 && t.roles[n-1] == "user" {
		t.Reply(path, []byte(`""`))
	}
	t.Say(path, "user", api.AppendString(nil, text))
}

// Instruct appends what the system says. Behind other messages it is one of its own.
func (t *Messages) Instruct(path, text string) {
	if len(t.paths) > 0 || t.path != "" && t.system == nil {
		t.Say(path, "system", api.AppendString(nil, text))
		return
	}
	t.path = orPath(t.path, path)
	t.system = append(t.system, text)
}

func orPath(first, path string) string {
	if first != "" {
		return first
	}
	return path
}

// Result appends what a tool has given.
func (t *Messages) Result(path, call string, content []byte) {
	fields := append([]byte(`,"tool_call_id":`), api.AppendString(nil, call)...)
	t.add(path, "tool", append(append(fields, `,"content":`...), content...))
}

// Think adds a thought to the assistant's message, which begins again where it has more
// than thoughts.
func (t *Messages) Think(path, text string) {
	if t.answer.content != nil || t.answer.calls != nil {
		t.flush()
	}
	t.assistant(path)
	t.answer.thought = append(t.answer.thought, text)
}

// Reply adds what the assistant said; a second time that is a message of its own.
func (t *Messages) Reply(path string, content []byte) {
	if t.answer.content != nil || t.answer.calls != nil {
		t.flush()
	}
	t.assistant(path)
	t.answer.content = content
}

// Call is a call of an assistant's: with arguments, which are JSON text, or with the text
// that a custom tool takes. place is its own place in the client's request.
type Call struct{ Place, ID, Name, With string }

// AddCall adds a call of a tool of a kind.
func (t *Messages) AddCall(path, kind string, of Call) {
	t.assistant(path)
	c := api.AppendComma(t.answer.calls, len(t.answer.calls))
	c = api.AppendString(append(c, `{"id":`...), of.ID)
	c = append(append(append(c, `,"type":"`...), kind...), `",`...)
	p := answer.CallPart{Name: of.Name, Custom: kind == toolset.Custom, Arguments: []byte(of.With)}
	c = append(append(append(c, '"'), kind...), `":`...)
	t.answer.calls = append(p.AppendCalled(c), '}')
	t.answer.places = append(t.answer.places, of.Place)
}

// assistant goes on with the assistant's message, or begins one.
func (t *Messages) assistant(path string) {
	if t.system != nil {
		t.flush()
	}
	t.path = orPath(t.path, path)
}

// flush ends the message that is being written.
func (t *Messages) flush() {
	if t.path == "" {
		return
	}
	path, a := t.path, &t.answer
	if t.system != nil {
		t.append(path, "system", append([]byte(`,"content":`), api.AppendString(nil, strings.Join(t.system, "\n\n"))...))
	} else {
		fields := []byte(`,"content":`)
		switch {
		case a.content != nil:
			fields = append(fields, a.content...)
		case a.calls != nil:
			fields = append(fields, "null"...)
		default:
			fields = append(fields, `""`...)
		}
		if a.thought != nil {
			fields = append(fields, `,"reasoning_content":`...)
			fields = api.AppendString(fields, strings.Join(a.thought, "\n"))
		}
		if a.calls != nil {
			fields = append(append(append(fields, `,"tool_calls":[`...), a.calls...), ']')
		}
		t.append(path, "assistant", fields)
	}
	t.system, t.answer, t.path = nil, assistantTurn{}, ""
}

// End gives the array of all messages.
func (t *Messages) End() []byte {
	t.flush()
	return append(append([]byte{'['}, t.list...), ']')
}

// TextContent reads a text, or parts of one whose types are among kinds: as JSON for a
// chat's content, and as one text.
func TextContent(o *jsonbody.Object, path string, raw []byte, kinds ...string) (content []byte, text string, fault *api.Error) {
	if raw[0] == '"' {
		text, fault = jsonbody.String(path, raw)
		return raw, text, fault
	}
	if raw[0] != '[' {
		return nil, "", jsonbody.WrongType(path, "a string or an array of text parts", raw)
	}
	parts, fault := jsonbody.Array(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, "", fault
	}
	if len(parts) == 0 {
		return []byte(`""`), "", nil
	}
	var texts []string
	content = []byte{'['}
	for i, raw := range parts {
		piece, fault := textPart(o, jsonbody.At(path, i), raw, kinds)
		if fault != nil {
			return nil, "", fault
		}
		content = append(api.AppendComma(content, i), `{"type":"text","text":`...)
		content = append(api.AppendString(content, piece), '}')
		texts = append(texts, piece)
	}
	return append(content, ']'), strings.Join(texts, "\n"), nil
}

// ForServers is the chat in words that all servers know, with the usage at the end of a stream.
func (w *Translation) ForServers(p *params.Params) *jsonbody.Object {
	chat := w.Chat.Without("stream_options", "metadata", "store", "background", "max_output_tokens", "enable_thinking", "add_generation_prompt")
	for _, f := range w.Chat.Fields {
		switch f.Name {
		case "max_output_tokens":
			chat.Add("max_tokens", f.Raw)
		case "enable_thinking":
			chat.Add("chat_template_kwargs", append(append([]byte(`{"enable_thinking":`), f.Raw...), '}'))
		case "continue_final_message":
			chat.Add("add_generation_prompt", []byte("false"))
		}
	}
	if p.Stream {
		chat.Add("stream_options", []byte(`{"include_usage":true}`))
	}
	return chat
}
