package toolset

import (
	"encoding/json"
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
)

func (t *Set) readParallel(o *jsonbody.Object, fault **api.Error) {
	parallel, ok := o.Bool("parallel_tool_calls", fault)
	switch {
	case !ok:
	case t.Has():
		t.Choice.Parallel = t.Choice.Parallel && parallel
	default:
		o.Ignored("parallel_tool_calls", withoutTools("parallel_tool_calls"), fault)
	}
}

func withoutTools(name string) *api.Error {
	return api.RefuseParam("invalid_value", name, "%s is allowed only together with tools", name)
}

// readList reads the array of tools or, in its legacy shape, of functions.
func (t *Set) readList(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	items, err := jsonbody.Array(path, raw, MaxTools)
	if err != nil || len(items) == 0 {
		return err
	}
	t.Listed = append(t.Listed, '[')
	for i, item := range items {
		if err := t.readTool(o, jsonbody.At(path, i), item); err != nil {
			return err
		}
	}
	t.Listed = append(t.Listed, ']')
	return nil
}

func (t *Set) readTool(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	if len(raw) > MaxToolBytes {
		return api.RefuseParam("invalid_value", path, "%s has %d bytes; %d are allowed", path, len(raw), MaxToolBytes)
	}
	kind := Function
	if !t.Legacy {
		var err *api.Error
		if kind, path, raw, err = unwrapTool(o, path, raw); err != nil {
			return err
		}
	}
	f, err := o.Parse(path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	if kind == Custom {
		return t.readCustom(f)
	}
	return t.readFunction(f)
}

// The types of tools and of calls, which are the names of the objects in them, too.
const (
	Function = "function"
	Custom   = "custom"
)

// unwrapTool unwraps {"type":"function","function":{…}} and the same of custom tools.
func unwrapTool(o *jsonbody.Object, path string, raw json.RawMessage) (kind, at string, inner json.RawMessage, fault *api.Error) {
	tool, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return "", path, nil, fault
	}
	kind, ok := tool.Text("type", &fault)
	switch name := jsonbody.Join(path, "type"); {
	case fault != nil:
		return "", path, nil, fault
	case !ok:
		return "", path, nil, jsonbody.Missing(name, "function or custom")
	case kind != Function && kind != Custom:
		return "", path, nil, jsonbody.Unsupported(name, "tools are run by the client: send type function or custom, not "+jsonbody.Quote([]byte(kind)))
	}
	inner, has := TakeOfKind(tool, kind)
	if !has {
		return "", path, nil, jsonbody.Missing(jsonbody.Join(path, kind), "an object with the tool's name")
	}
	tool.Finish(&fault)
	return kind, jsonbody.Join(path, kind), inner, fault
}

// TakeOfKind takes the object that a tool or a call of a kind has.
func TakeOfKind(o *jsonbody.Object, kind string) (json.RawMessage, bool) {
	if kind == Custom {
		return o.Take("custom")
	}
	return o.Take("function")
}

// readFunction reads {name, description, parameters, strict}. What a template gets of it
// has no strict, which no model was trained on, and always a description and parameters,
// which templates read unasked.
func (t *Set) readFunction(f *jsonbody.Object) *api.Error {
	var fault *api.Error
	tool := family.Tool{Strict: f.Flag("strict", false, &fault)}
	tool.Name = t.readName(f, &fault)
	tool.Description = readDescription(f, &fault)
	parameters, ok := f.Take("parameters")
	if ok {
		_, err := jsonbody.ParseObject(jsonbody.Join(f.Path, "parameters"), parameters, jsonbody.MaxFields)
		jsonbody.Keep(&fault, err)
		tool.Parameters = parameters
	}
	f.Finish(&fault)
	if fault == nil {
		t.add(f, tool)
	}
	return fault
}

// readName reads the name of a tool, which no other tool has.
func (t *Set) readName(f *jsonbody.Object, fault **api.Error) string {
	name, ok := f.Text("name", fault)
	path := jsonbody.Join(f.Path, "name")
	switch {
	case *fault != nil:
	case !ok:
		*fault = jsonbody.Missing(path, "the tool's name")
	case !toolName.MatchString(name):
		*fault = api.RefuseParam("invalid_value", path, "%s is %s; it must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -", path, jsonbody.HeaderQuote(name))
	case slices.ContainsFunc(t.Tools, func(other family.Tool) bool { return other.Name == name }):
		*fault = api.RefuseParam("invalid_value", path, "two tools are called %s; calls could not tell them apart", name)
	}
	return name
}

func readDescription(f *jsonbody.Object, fault **api.Error) string {
	text, _ := f.Text("description", fault)
	if n := len(text); n > MaxDescriptionBytes {
		path := jsonbody.Join(f.Path, "description")
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s has %d bytes; %d are allowed", path, n, MaxDescriptionBytes))
	}
	return text
}

// noParameters is the schema of a function without parameters.
const noParameters = `{"type":"object","properties":{}}`

// add takes a tool in, and what templates are told of it, in the client's order of fields.
func (t *Set) add(f *jsonbody.Object, tool family.Tool) {
	t.Tools = append(t.Tools, tool)
	function := []byte{'{'}
	for _, known := range f.Fields {
		switch known.Name {
		case "name", "description", "parameters":
			if !jsonbody.IsNull(known.Raw) {
				function = jsonbody.AppendField(function, known.Name, known.Raw)
			}
		}
	}
	if _, described := f.Take("description"); !described {
		function = jsonbody.AppendField(function, "description", []byte(`""`))
	}
	if len(tool.Parameters) == 0 {
		function = jsonbody.AppendField(function, "parameters", []byte(noParameters))
	}
	t.Listed = api.AppendComma(t.Listed, len(t.Tools)-1)
	t.Listed = append(append(append(t.Listed, `{"type":"function","function":`...), function...), "}}"...)
}
