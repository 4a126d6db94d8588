package openai

import (
	"math"
	"strings"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/toolset"
)

// Responses and Messages are chats in other words. Their readers write a request as chat
// completions would have it and hand that to readChat, so that a conversation has the
// same prompt, limits and refusals on whichever path it comes. A refusal names the field
// that the client sent.

// rewording is a request in the words of chat completions.
type rewording struct {
	chat  request
	turns turnWriter
	list  string    // the client's field that holds the conversation
	id    string    // the client's name of the id of the call that a result belongs to
	names []renamed // the longest first

	schema    string // the client's name of a tool's parameters; "" is the chat's
	truncates bool   // the oldest messages are left out of a conversation that does not fit
}

// renamed is a field that has another name in a chat: a path of the chat's, or the
// beginning of one.
type renamed struct{ chat, client string }

func newRewording(o *request, list, id string, names ...renamed) *rewording {
	return &rewording{chat: request{Object: &jsonbody.Object{Notes: o.Notes}, turn: o.turn}, list: list, id: id, names: names}
}

// set gives the chat a field.
func (w *rewording) set(name string, raw []byte) { w.chat.Add(name, raw) }

// setText gives the chat a field that is a string.
func (w *rewording) setText(name, text string) { w.set(name, api.AppendString(nil, text)) }

// finish completes the chat. Fields of the client's request that nobody has taken are the
// same in a chat, or unknown to both.
func (w *rewording) finish(o *jsonbody.Object) {
	w.set("messages", w.turns.end())
	for f, left := o.Rest(); left; f, left = o.Rest() {
		w.set(f.Name, f.Raw)
	}
}

// read reads the chat.
func (w *rewording) read(s *Server, o *request, m *models.Model) (*job.Job, *api.Error) {
	if w.truncates {
		return w.truncated(s, o, m)
	}
	w.finish(o.Object)
	return w.done(s.readChat(&w.chat, m))
}

// done ends the reading of the chat.
func (w *rewording) done(j *job.Job, fault *api.Error) (*job.Job, *api.Error) {
	if fault != nil {
		return nil, w.Explain(fault)
	}
	w.chat, w.turns.list, w.turns.begins, w.turns.roles = request{}, nil, nil, nil // what is left explains faults
	j.ClientNames = w
	return j, w.checkCount(j.Params.N)
}

// checkCount refuses several answers, which only chats have.
func (w *rewording) checkCount(n int) *api.Error {
	if n == 1 {
		return nil
	}
	return api.RefuseParam("unsupported_parameter", "n", "n is %d; %s gives one answer, so leave n out", n, w.list)
}

// Explain puts the client's own names into a fault of readChat.
func (w *rewording) Explain(fault *api.Error) *api.Error {
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
func (w *rewording) clientPath(path string) string {
	rest, inMessages := strings.CutPrefix(path, "messages")
	if inMessages {
		number, behind, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
		if i, ok := parseIndex(number); ok && i < len(w.turns.paths) {
			return w.inMessage(i, behind)
		}
		return w.list + rest
	}
	for _, n := range w.names {
		if rest, ok := strings.CutPrefix(path, n.chat); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			path = n.client + rest
			break
		}
	}
	if strings.HasPrefix(path, "tool") { // tools lie one level deeper in a chat, and so do their grammars
		if w.schema != "" {
			path = strings.Replace(path, "].function.parameters", "]."+w.schema, 1)
		}
		path = strings.Replace(path, "].function", "]", 1)
		path = strings.Replace(path, "].custom", "]", 1)
		return strings.Replace(path, ".format.grammar", ".format", 1)
	}
	return path
}

// inMessage is where the client wrote what stands behind the path of a message: calls and results are items or blocks of their own, whose
// names lie flat.
func (w *rewording) inMessage(i int, behind string) string {
	if behind == ".tool_call_id" {
		return w.turns.paths[i] + "." + w.id
	}
	call, isCall := strings.CutPrefix(behind, ".tool_calls[")
	number, field, _ := strings.Cut(call, "]")
	k, ok := parseIndex(number)
	if !isCall || !ok || k >= len(w.turns.calls[i]) {
		return w.turns.paths[i] + behind
	}
	if field == ".id" && w.id == "call_id" {
		field = ".call_id" // an item's id is another one
	}
	for _, kind := range []string{".function", ".custom"} {
		if inner, ok := strings.CutPrefix(field, kind); ok {
			field = inner
		}
	}
	return w.turns.calls[i][k] + field
}

func parseIndex(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > math.MaxInt32 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, text != ""
}

// turnWriter writes the messages of a chat. What an assistant thought, said and called in a
// row is one message, as templates have it. What a system says before anybody else
// is one message, too: most templates know one, at the beginning.
type turnWriter struct {
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
func (t *turnWriter) add(path, role string, fields []byte) {
	t.flush()
	t.append(path, role, fields)
}

func (t *turnWriter) append(path, role string, fields []byte) {
	t.list = api.AppendComma(t.list, len(t.paths))
	t.begins, t.roles = append(t.begins, len(t.list)), append(t.roles, role)
	t.list = append(t.list, `{"role":"`...)
	t.list = append(append(t.list, role...), '"')
	t.list = append(append(t.list, fields...), '}')
	t.paths, t.calls = append(t.paths, path), append(t.calls, t.answer.places)
}

// say appends a message that is a text or parts of one.
func (t *turnWriter) say(path, role string, content []byte) {
	t.add(path, role, append([]byte(`,"content":`), content...))
}

// instruct appends what the system says. Behind other messages it is one of its own.
func (t *turnWriter) instruct(path, text string) {
	if len(t.paths) > 0 || t.path != "" && t.system == nil {
		t.say(path, "system", api.AppendString(nil, text))
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

// result appends what a tool has given.
func (t *turnWriter) result(path, call string, content []byte) {
	fields := append([]byte(`,"tool_call_id":`), api.AppendString(nil, call)...)
	t.add(path, "tool", append(append(fields, `,"content":`...), content...))
}

// think adds a thought to the assistant's message, which begins anew where it has more
// than thoughts.
func (t *turnWriter) think(path, text string) {
	if t.answer.content != nil || t.answer.calls != nil {
		t.flush()
	}
	t.assistant(path)
	t.answer.thought = append(t.answer.thought, text)
}

// reply adds what the assistant said; a second time that is a message of its own.
func (t *turnWriter) reply(path string, content []byte) {
	if t.answer.content != nil || t.answer.calls != nil {
		t.flush()
	}
	t.assistant(path)
	t.answer.content = content
}

// called is a call of an assistant's: with arguments, which are JSON text, or with the text
// that a custom tool takes. place is its own place in the client's request.
type called struct{ place, id, name, with string }

// call adds a call of a tool of a kind.
func (t *turnWriter) call(path, kind string, of called) {
	t.assistant(path)
	c := api.AppendComma(t.answer.calls, len(t.answer.calls))
	c = api.AppendString(append(c, `{"id":`...), of.id)
	c = append(append(append(c, `,"type":"`...), kind...), `",`...)
	p := answer.CallPart{Name: of.name, Custom: kind == toolset.Custom, Arguments: []byte(of.with)}
	c = append(append(append(c, '"'), kind...), `":`...)
	t.answer.calls = append(appendCalled(c, &p), '}')
	t.answer.places = append(t.answer.places, of.place)
}

// assistant goes on with the assistant's message, or begins one.
func (t *turnWriter) assistant(path string) {
	if t.system != nil {
		t.flush()
	}
	t.path = orPath(t.path, path)
}

// flush ends the message that is being written.
func (t *turnWriter) flush() {
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

// end gives the array of all messages.
func (t *turnWriter) end() []byte {
	t.flush()
	return append(append([]byte{'['}, t.list...), ']')
}

// textContent reads a text, or parts of one whose types are among kinds: as JSON for a
// chat's content, and as one text.
func textContent(o *jsonbody.Object, path string, raw []byte, kinds ...string) (content []byte, text string, fault *api.Error) {
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
