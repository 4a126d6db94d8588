package responses

import (
	"encoding/json"
	"strings"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// toolList is the tools of a request on their way to those of a chat. The tools of a namespace become functions of their own, and tools that
// OpenAI's servers run, or whose calls their models alone write, are left out.
type toolList struct {
	request     *Request
	chat, shown []byte   // JSON, without the brackets: for the chat, and as the answer lists them
	paths       []string // where each of the chat's tools stands in the client's request
	n           int      // that are shown
	without     string   // path of the first tool that was left out
	kind        string   // of it
}

// toolOfNamespace is what a call of such a tool is called in an answer.
type toolOfNamespace struct {
	namespace string
	name      []byte // JSON
}

// read takes a tool in.
func (l *toolList) read(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	tool, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return fault
	}
	switch kind := tool.Need("type", &fault); {
	case fault != nil:
		return fault
	case kind == "namespace":
		return l.readNamespace(tool, raw)
	case isBuiltIn(kind):
		if l.without == "" {
			l.without, l.kind = path, kind
		}
		return leaveOut(o, path, kind)
	}
	t, fault := translation.ReadTool(o, path, raw)
	if fault != nil {
		return fault
	}
	l.add(path, t)
	l.shown = t.AppendShown(api.AppendComma(l.shown, l.n))
	l.n++
	return nil
}

// add takes a tool of the chat in.
func (l *toolList) add(path string, t *translation.Tool) {
	l.chat = t.AppendChat(api.AppendComma(l.chat, len(l.paths)))
	l.paths = append(l.paths, path)
}

// readNamespace takes the tools of a namespace in. What it says of itself stands before the description of its first tool.
func (l *toolList) readNamespace(o *jsonbody.Object, raw json.RawMessage) *api.Error {
	var fault *api.Error
	name := o.Need("name", &fault)
	about, _ := o.Text("description", &fault)
	path := jsonbody.Join(o.Path, "tools")
	list, ok := o.Take("tools")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(path, "an array of functions"))
	}
	o.Finish(&fault)
	if fault != nil {
		return fault
	}
	items, fault := jsonbody.Array(path, list, toolset.MaxTools)
	if fault != nil {
		return fault
	}
	for i, item := range items {
		at := jsonbody.At(path, i)
		t, fault := translation.ReadTool(o, at, item)
		if fault != nil {
			return fault
		}
		own := toolOfNamespace{namespace: name, name: t.Name}
		t.Name = inNamespace(name, t.Name)
		if i == 0 && about != "" {
			t.Describe(about)
		}
		l.add(at, t)
		l.request.remember(t.Name, own)
	}
	l.shown = append(api.AppendComma(l.shown, l.n), raw...)
	l.n++
	return nil
}

// remember notes what a tool of the chat is called in an answer.
func (r *Request) remember(name []byte, tool toolOfNamespace) {
	if r.namespaced == nil {
		r.namespaced = map[string]toolOfNamespace{}
	}
	if text, fault := jsonbody.String("name", name); fault == nil {
		r.namespaced[text] = tool
	}
}

// left refuses a request that is for built-in tools alone: its client would take an answer without them for one with them.
func (l *toolList) left() *api.Error {
	if l.without == "" || len(l.paths) > 0 {
		return nil
	}
	return unserved(l.without, l.kind)
}

// mostName is how long the name of a chat's tool may be.
const mostName = 64

// inNamespace is the name in a chat of a tool of a namespace, as JSON. It depends on the two names alone, so that the calls of a
// conversation have the same ones in each of its requests. A name that would be too long is the tool's own.
func inNamespace(namespace string, name []byte) []byte {
	own, fault := jsonbody.String("name", name)
	joined := strings.TrimSuffix(namespace, "__") + "__" + own
	if fault != nil || len(joined) > mostName {
		return name
	}
	return api.AppendString(nil, joined)
}

// readName reads the name of a tool, and that of its namespace where it has one.
func readName(o *jsonbody.Object, fault **api.Error) string {
	name := o.Need("name", fault)
	o.Take("caller")
	namespace, ok := o.Text("namespace", fault)
	if !ok || namespace == "" {
		return name
	}
	joined, err := jsonbody.String("name", inNamespace(namespace, api.AppendString(nil, name)))
	jsonbody.Keep(fault, err)
	return joined
}

// builtIn are the beginnings of the types of tools that OpenAI's servers run themselves, or whose calls are items that only OpenAI's models write.
var builtIn = []string{
	"apply_patch", "code_interpreter", "computer", "file_search", "image_generation", "local_shell", "mcp", "programmatic_tool_calling", "shell",
	"tool_search", "web_search",
}

func isBuiltIn(kind string) bool {
	for _, name := range builtIn {
		if rest, ok := strings.CutPrefix(kind, name); ok && (rest == "" || rest[0] == '_') {
			return true
		}
	}
	return false
}

func unserved(path, kind string) *api.Error {
	return jsonbody.Unsupported(jsonbody.Join(path, "type"), "the server runs no tools of its own: send tools of type function or custom, which your program runs, not "+
		jsonbody.Quote([]byte(kind)))
}

// leaveOut leaves a built-in tool out of a request, with a warning; a strict server refuses it.
func leaveOut(o *jsonbody.Object, path, kind string) *api.Error {
	if o.Notes.Strict {
		return unserved(path, kind)
	}
	o.Notes.Add("left out the tool %s, which the server does not run", jsonbody.HeaderQuote(kind))
	return nil
}
