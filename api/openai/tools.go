package openai

import (
	"encoding/json"
	"regexp"
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
)

const (
	maxTools            = 1000
	maxToolBytes        = 256 << 10 // of one tool, its schema included
	maxDescriptionBytes = 64 << 10
	maxCalls            = 1000 // of one message
)

// toolName is what the OpenAI API allows as the name of a function.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// toolset is what a request says about tools. The zero value is a request without any.
type toolset struct {
	list   []family.Tool
	choice family.Choice
	named  bool                    // the request chose one function by its name
	legacy bool                    // the request says functions and function_call, and so does its answer
	listed []byte                  // the tools as a JSON array, as templates expect them
	inputs map[string]*inputFormat // the custom tools among them
}

// has reports whether the request has tools.
func (t *toolset) has() bool { return len(t.list) > 0 }

// forced reports whether an answer must follow the grammar of calls.
func (t *toolset) forced() bool {
	return t.choice.Mode == family.Required ||
		t.choice.Mode == family.Auto && slices.ContainsFunc(t.list, func(f family.Tool) bool { return f.Strict })
}

// readTools reads tools, tool_choice and parallel_tool_calls, or the older functions and
// function_call.
func readTools(o *jsonbody.Object, fault **api.Error) toolset {
	t := toolset{choice: family.Choice{Parallel: true}}
	raw, modern := o.Take("tools")
	old, legacy := o.Take("functions")
	switch {
	case modern && legacy && !jsonbody.IsEmptyArray(raw) && !jsonbody.IsEmptyArray(old):
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "functions", "functions and tools exclude each other; tools is the newer name"))
	case legacy && !jsonbody.IsEmptyArray(old):
		t.legacy = true
		t.choice.Parallel = false
		jsonbody.Keep(fault, t.readList(o, "functions", old))
	case modern:
		jsonbody.Keep(fault, t.readList(o, "tools", raw))
	}
	if t.has() {
		t.choice.Mode = family.Auto
	}
	t.legacy = t.legacy && t.has()
	if *fault == nil {
		t.readChoice(o, fault)
	}
	t.readParallel(o, fault)
	return t
}

func (t *toolset) readParallel(o *jsonbody.Object, fault **api.Error) {
	parallel, ok := o.Bool("parallel_tool_calls", fault)
	switch {
	case !ok:
	case t.has():
		t.choice.Parallel = t.choice.Parallel && parallel
	default:
		o.Ignored("parallel_tool_calls", withoutTools("parallel_tool_calls"), fault)
	}
}

func withoutTools(name string) *api.Error {
	return api.RefuseParam("invalid_value", name, "%s is allowed only together with tools", name)
}

// readList reads the array of tools or, in its legacy shape, of functions.
func (t *toolset) readList(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	items, err := jsonbody.Array(path, raw, maxTools)
	if err != nil || len(items) == 0 {
		return err
	}
	t.listed = append(t.listed, '[')
	for i, item := range items {
		if err := t.readTool(o, jsonbody.At(path, i), item); err != nil {
			return err
		}
	}
	t.listed = append(t.listed, ']')
	return nil
}

func (t *toolset) readTool(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	if len(raw) > maxToolBytes {
		return api.RefuseParam("invalid_value", path, "%s has %d bytes; %d are allowed", path, len(raw), maxToolBytes)
	}
	kind := functionKind
	if !t.legacy {
		var err *api.Error
		if kind, path, raw, err = unwrapTool(o, path, raw); err != nil {
			return err
		}
	}
	f, err := o.Parse(path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	if kind == customKind {
		return t.readCustom(f)
	}
	return t.readFunction(f)
}

// The types of tools and of calls, which are the names of the objects in them, too.
const (
	functionKind = "function"
	customKind   = "custom"
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
	case kind != functionKind && kind != customKind:
		return "", path, nil, jsonbody.Unsupported(name, "tools are run by the client: send type function or custom, not "+jsonbody.Quote([]byte(kind)))
	}
	inner, has := takeOfKind(tool, kind)
	if !has {
		return "", path, nil, jsonbody.Missing(jsonbody.Join(path, kind), "an object with the tool's name")
	}
	tool.Finish(&fault)
	return kind, jsonbody.Join(path, kind), inner, fault
}

// takeOfKind takes the object that a tool or a call of a kind has.
func takeOfKind(o *jsonbody.Object, kind string) (json.RawMessage, bool) {
	if kind == customKind {
		return o.Take("custom")
	}
	return o.Take("function")
}

// readFunction reads {name, description, parameters, strict}. What a template gets of it
// has no strict, which no model was trained on, and always a description and parameters,
// which templates read unasked.
func (t *toolset) readFunction(f *jsonbody.Object) *api.Error {
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
func (t *toolset) readName(f *jsonbody.Object, fault **api.Error) string {
	name, ok := f.Text("name", fault)
	path := jsonbody.Join(f.Path, "name")
	switch {
	case *fault != nil:
	case !ok:
		*fault = jsonbody.Missing(path, "the tool's name")
	case !toolName.MatchString(name):
		*fault = api.RefuseParam("invalid_value", path, "%s is %s; it must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -", path, jsonbody.HeaderQuote(name))
	case slices.ContainsFunc(t.list, func(other family.Tool) bool { return other.Name == name }):
		*fault = api.RefuseParam("invalid_value", path, "two tools are called %s; calls could not tell them apart", name)
	}
	return name
}

func readDescription(f *jsonbody.Object, fault **api.Error) string {
	text, _ := f.Text("description", fault)
	if n := len(text); n > maxDescriptionBytes {
		path := jsonbody.Join(f.Path, "description")
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s has %d bytes; %d are allowed", path, n, maxDescriptionBytes))
	}
	return text
}

// noParameters is the schema of a function without parameters.
const noParameters = `{"type":"object","properties":{}}`

// add takes a tool in, and what templates are told of it, in the client's order of fields.
func (t *toolset) add(f *jsonbody.Object, tool family.Tool) {
	t.list = append(t.list, tool)
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
	t.listed = comma(t.listed, len(t.list)-1)
	t.listed = append(append(append(t.listed, `{"type":"function","function":`...), function...), "}}"...)
}

// readChoice reads tool_choice, or function_call of the older shape.
func (t *toolset) readChoice(o *jsonbody.Object, fault **api.Error) {
	name := "tool_choice"
	if t.legacy {
		name = "function_call"
	}
	if raw, ok := o.Take(name); ok {
		jsonbody.Keep(fault, t.choose(o, name, raw))
	}
}

// choose reads the value of a choice.
func (t *toolset) choose(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	if raw[0] == '"' {
		word, err := jsonbody.String(path, raw)
		if err != nil {
			return err
		}
		return t.chooseMode(o, path, path, word)
	}
	c, err := o.Parse(path, raw, jsonbody.MaxFields)
	switch {
	case err != nil:
		return jsonbody.WrongType(path, `"none", "auto", "required" or an object that names functions`, raw)
	case !t.has():
		return withoutTools(path)
	case t.legacy:
		return t.chooseNamed(c, functionKind)
	}
	return t.chooseObject(c)
}

var choiceModes = map[string]family.Mode{"none": family.None, "auto": family.Auto, "required": family.Required}

// chooseMode sets the mode by its word, which stands at path in the choice called name.
func (t *toolset) chooseMode(o *jsonbody.Object, name, path, word string) *api.Error {
	mode, ok := choiceModes[word]
	switch {
	case !ok || t.legacy && mode == family.Required:
		return api.RefuseParam("invalid_value", path, "%s is %s; it must be none, auto%s or an object that names functions",
			path, jsonbody.HeaderQuote(word), map[bool]string{false: ", required"}[t.legacy])
	case t.has():
		t.choice.Mode = mode
	case mode == family.Required:
		return withoutTools(name)
	case mode == family.Auto:
		var fault *api.Error
		o.Ignored(name, withoutTools(name), &fault)
		return fault
	}
	return nil
}

// chooseObject reads {"type":"function",…}, {"type":"custom",…} or {"type":"allowed_tools",…}.
func (t *toolset) chooseObject(c *jsonbody.Object) *api.Error {
	var fault *api.Error
	kind, ok := c.Text("type", &fault)
	inner, has := c.Take(kind)
	path := jsonbody.Join(c.Path, "type")
	switch {
	case fault != nil:
		return fault
	case !ok:
		return jsonbody.Missing(path, "function, custom or allowed_tools")
	case kind != functionKind && kind != customKind && kind != "allowed_tools":
		return api.RefuseParam("invalid_value", path, "%s is %s; it must be function, custom or allowed_tools", path, jsonbody.HeaderQuote(kind))
	case !has:
		return jsonbody.Missing(jsonbody.Join(c.Path, kind), "an object")
	}
	part, err := c.Parse(jsonbody.Join(c.Path, kind), inner, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	c.Finish(&fault)
	if fault != nil {
		return fault
	}
	if kind == "allowed_tools" {
		return t.chooseAllowed(part)
	}
	return t.chooseNamed(part, kind)
}

// chooseNamed reads {"name":…}, which asks for one call.
func (t *toolset) chooseNamed(f *jsonbody.Object, kind string) *api.Error {
	name, err := t.readChosen(f, kind)
	if err == nil {
		t.choice = family.Choice{Mode: family.Required, Names: []string{name}}
		t.named = true
	}
	return err
}

// readChosen reads the name of one of the tools of a kind.
func (t *toolset) readChosen(f *jsonbody.Object, kind string) (string, *api.Error) {
	var fault *api.Error
	name, ok := f.Text("name", &fault)
	path := jsonbody.Join(f.Path, "name")
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", jsonbody.Missing(path, "the name of one of the tools")
	case !slices.ContainsFunc(t.list, func(tool family.Tool) bool { return tool.Name == name && t.isCustom(name) == (kind == customKind) }):
		return "", api.RefuseParam("invalid_value", path, "%s is %s, which none of the tools of that type is called", path, jsonbody.HeaderQuote(name))
	}
	f.Finish(&fault)
	return name, fault
}

// chooseAllowed reads {"mode":…,"tools":[…]}. The prompt keeps all tools, so that the
// prefix cache stays good whatever is allowed.
func (t *toolset) chooseAllowed(a *jsonbody.Object) *api.Error {
	var fault *api.Error
	mode, _ := a.Text("mode", &fault)
	path := jsonbody.Join(a.Path, "mode")
	raw, ok := a.Take("tools")
	switch {
	case fault != nil:
		return fault
	case mode != "auto" && mode != "required":
		return api.RefuseParam("invalid_value", path, "%s is %s; it must be auto or required", path, jsonbody.HeaderQuote(mode))
	case !ok:
		return jsonbody.Missing(jsonbody.Join(a.Path, "tools"), "an array of tools")
	}
	t.choice.Mode = choiceModes[mode]
	path = jsonbody.Join(a.Path, "tools")
	items, err := jsonbody.Array(path, raw, maxTools)
	switch {
	case err != nil:
		return err
	case len(items) == 0:
		return api.RefuseParam("invalid_value", path, "%s is empty; tool_choice none allows no call", path)
	}
	for i, item := range items {
		kind, at, inner, err := unwrapTool(a, jsonbody.At(path, i), item)
		if err != nil {
			return err
		}
		f, err := a.Parse(at, inner, jsonbody.MaxFields)
		if err != nil {
			return err
		}
		name, err := t.readChosen(f, kind)
		if err != nil {
			return err
		}
		t.choice.Names = append(t.choice.Names, name)
	}
	a.Finish(&fault)
	return fault
}
