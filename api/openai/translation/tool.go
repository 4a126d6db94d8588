package translation

import (
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/toolset"
)

// MaxItems of one conversation; the messages that they become have a limit of their own.
const MaxItems = 1 << 14

// Tool is a tool as Responses lists it: without the object that chats have around it. Its
// fields are JSON.
type Tool struct {
	Kind               string
	Name, Description  []byte
	Parameters, Strict []byte // of a function
	Format, chatFormat []byte // of a custom tool; a chat has a grammar one level deeper
}

// ReadTool reads a tool.
func ReadTool(o *jsonbody.Object, path string, raw []byte) (*Tool, *api.Error) {
	tool, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	kind := tool.Need("type", &fault)
	if fault != nil {
		return nil, fault
	}
	if kind != toolset.Function && kind != toolset.Custom {
		return nil, jsonbody.Unsupported(jsonbody.Join(path, "type"), "the server runs no tools of its own: send tools of type function or custom, not "+jsonbody.Quote([]byte(kind)))
	}
	t := &Tool{Kind: kind, Name: api.AppendString(nil, tool.Need("name", &fault)), Description: jsonbody.Null, Parameters: jsonbody.Null, Format: jsonbody.Null}
	if text, ok := tool.Text("description", &fault); ok {
		t.Description = api.AppendString(nil, text)
	}
	if kind == toolset.Custom {
		if raw, ok := tool.Take("format"); ok {
			t.Format = raw
			t.chatFormat, fault = chatInputFormat(o, jsonbody.Join(path, "format"), raw)
		}
	} else {
		if raw, ok := tool.Take("parameters"); ok {
			t.Parameters = raw
		}
		t.Strict = strconv.AppendBool(nil, tool.Flag("strict", false, &fault))
	}
	tool.Finish(&fault)
	return t, fault
}

// Describe puts a text before the tool's own description.
func (t *Tool) Describe(text string) {
	if own, fault := jsonbody.String("description", t.Description); fault == nil {
		text += "\n\n" + own
	}
	t.Description = api.AppendString(nil, text)
}

// AppendChat appends the tool as a chat has it, and nothing that it leaves open.
func (t *Tool) AppendChat(dst []byte) []byte {
	f := &jsonbody.Object{}
	f.Add("name", t.Name)
	if !jsonbody.IsNull(t.Description) {
		f.Add("description", t.Description)
	}
	if !jsonbody.IsNull(t.Parameters) {
		f.Add("parameters", t.Parameters)
	}
	if string(t.Strict) == "true" {
		f.Add("strict", t.Strict)
	}
	if t.chatFormat != nil {
		f.Add("format", t.chatFormat)
	}
	return append(f.AppendJSON(AppendWrapped(dst, t.Kind)), '}')
}

// AppendWrapped begins {"type":kind,kind:…}.
func AppendWrapped(dst []byte, kind string) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","`...)
	return append(append(dst, kind...), `":`...)
}

// chatInputFormat gives a custom tool's format as a chat has it.
func chatInputFormat(o *jsonbody.Object, path string, raw []byte) ([]byte, *api.Error) {
	format, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return nil, fault
	}
	if kind := format.Need("type", &fault); kind != "grammar" || fault != nil {
		return raw, fault
	}
	inner := &jsonbody.Object{}
	for _, f := range format.Fields {
		if f.Name != "type" {
			inner.Add(f.Name, f.Raw)
		}
	}
	return append(inner.AppendJSON([]byte(`{"type":"grammar","grammar":`)), '}'), nil
}

// AppendShown appends the tool as answers list it, with all its fields.
func (t *Tool) AppendShown(dst []byte) []byte {
	f := &jsonbody.Object{}
	f.Add("type", api.AppendString(nil, t.Kind))
	f.Add("name", t.Name)
	f.Add("description", t.Description)
	switch {
	case t.Kind == toolset.Function:
		f.Add("parameters", t.Parameters)
		f.Add("strict", t.Strict)
	case jsonbody.IsNull(t.Format):
		f.Add("format", []byte(`{"type":"text"}`))
	default:
		f.Add("format", t.Format)
	}
	return f.AppendJSON(dst)
}

// AppendNamedChoice appends the choice of one tool by its name.
func AppendNamedChoice(dst []byte, kind, name string) []byte {
	dst = api.AppendString(append(AppendWrapped(dst, kind), `{"name":`...), name)
	return append(dst, "}}"...)
}
