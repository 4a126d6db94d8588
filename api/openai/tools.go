package openai

import (
	"encoding/json"
	"regexp"
	"slices"

	"weir/api"
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
func readTools(o *object, fault **api.Error) toolset {
	t := toolset{choice: family.Choice{Parallel: true}}
	raw, modern := o.take("tools")
	old, legacy := o.take("functions")
	switch {
	case modern && legacy && !isEmptyArray(raw) && !isEmptyArray(old):
		keep(fault, badRequest("invalid_value", "functions", "functions and tools exclude each other; tools is the newer name"))
	case legacy && !isEmptyArray(old):
		t.legacy = true
		t.choice.Parallel = false
		keep(fault, t.readList(o, "functions", old))
	case modern:
		keep(fault, t.readList(o, "tools", raw))
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

func (t *toolset) readParallel(o *object, fault **api.Error) {
	parallel, ok := o.boolean("parallel_tool_calls", fault)
	switch {
	case !ok:
	case t.has():
		t.choice.Parallel = t.choice.Parallel && parallel
	default:
		o.ignored("parallel_tool_calls", withoutTools("parallel_tool_calls"), fault)
	}
}

func withoutTools(name string) *api.Error {
	return badRequest("invalid_value", name, "%s is allowed only together with tools", name)
}

// readList reads the array of tools or, in its legacy shape, of functions.
func (t *toolset) readList(o *object, path string, raw json.RawMessage) *api.Error {
	items, err := parseArray(path, raw, maxTools)
	if err != nil || len(items) == 0 {
		return err
	}
	t.listed = append(t.listed, '[')
	for i, item := range items {
		if err := t.readTool(o, at(path, i), item); err != nil {
			return err
		}
	}
	t.listed = append(t.listed, ']')
	return nil
}

func (t *toolset) readTool(o *object, path string, raw json.RawMessage) *api.Error {
	if len(raw) > maxToolBytes {
		return badRequest("invalid_value", path, "%s has %d bytes; %d are allowed", path, len(raw), maxToolBytes)
	}
	kind := functionKind
	if !t.legacy {
		var err *api.Error
		if kind, path, raw, err = unwrapTool(o, path, raw); err != nil {
			return err
		}
	}
	f, err := o.parse(path, raw, maxFields)
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
func unwrapTool(o *object, path string, raw json.RawMessage) (kind, at string, inner json.RawMessage, fault *api.Error) {
	tool, fault := o.parse(path, raw, maxFields)
	if fault != nil {
		return "", path, nil, fault
	}
	kind, ok := tool.text("type", &fault)
	switch name := join(path, "type"); {
	case fault != nil:
		return "", path, nil, fault
	case !ok:
		return "", path, nil, missing(name, "function or custom")
	case kind != functionKind && kind != customKind:
		return "", path, nil, unsupported(name, "tools are run by the client: send type function or custom, not "+quote([]byte(kind)))
	}
	inner, has := tool.takeOfKind(kind)
	if !has {
		return "", path, nil, missing(join(path, kind), "an object with the tool's name")
	}
	tool.finish(&fault)
	return kind, join(path, kind), inner, fault
}

// takeOfKind takes the object that a tool or a call of a kind has.
func (o *object) takeOfKind(kind string) (json.RawMessage, bool) {
	if kind == customKind {
		return o.take("custom")
	}
	return o.take("function")
}

// readFunction reads {name, description, parameters, strict}. What a template gets of it
// has no strict, which no model was trained on, and always a description and parameters,
// which templates read unasked.
func (t *toolset) readFunction(f *object) *api.Error {
	var fault *api.Error
	tool := family.Tool{Strict: f.flag("strict", false, &fault)}
	tool.Name = t.readName(f, &fault)
	tool.Description = readDescription(f, &fault)
	parameters, ok := f.take("parameters")
	if ok {
		_, err := parseObject(join(f.path, "parameters"), parameters, maxFields)
		keep(&fault, err)
		tool.Parameters = parameters
	}
	f.finish(&fault)
	if fault == nil {
		t.add(f, tool)
	}
	return fault
}

// readName reads the name of a tool, which no other tool has.
func (t *toolset) readName(f *object, fault **api.Error) string {
	name, ok := f.text("name", fault)
	path := join(f.path, "name")
	switch {
	case *fault != nil:
	case !ok:
		*fault = missing(path, "the tool's name")
	case !toolName.MatchString(name):
		*fault = badRequest("invalid_value", path, "%s is %s; it must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -", path, headerQuote(name))
	case slices.ContainsFunc(t.list, func(other family.Tool) bool { return other.Name == name }):
		*fault = badRequest("invalid_value", path, "two tools are called %s; calls could not tell them apart", name)
	}
	return name
}

func readDescription(f *object, fault **api.Error) string {
	text, _ := f.text("description", fault)
	if n := len(text); n > maxDescriptionBytes {
		path := join(f.path, "description")
		keep(fault, badRequest("invalid_value", path, "%s has %d bytes; %d are allowed", path, n, maxDescriptionBytes))
	}
	return text
}

// noParameters is the schema of a function without parameters.
const noParameters = `{"type":"object","properties":{}}`

// add takes a tool in, and what templates are told of it, in the client's order of fields.
func (t *toolset) add(f *object, tool family.Tool) {
	t.list = append(t.list, tool)
	function := []byte{'{'}
	for _, known := range f.fields {
		switch known.name {
		case "name", "description", "parameters":
			if !isNull(known.raw) {
				function = appendField(function, known.name, known.raw)
			}
		}
	}
	if _, described := f.take("description"); !described {
		function = appendField(function, "description", []byte(`""`))
	}
	if len(tool.Parameters) == 0 {
		function = appendField(function, "parameters", []byte(noParameters))
	}
	t.listed = comma(t.listed, len(t.list)-1)
	t.listed = append(append(append(t.listed, `{"type":"function","function":`...), function...), "}}"...)
}

// readChoice reads tool_choice, or function_call of the older shape.
func (t *toolset) readChoice(o *object, fault **api.Error) {
	name := "tool_choice"
	if t.legacy {
		name = "function_call"
	}
	if raw, ok := o.take(name); ok {
		keep(fault, t.choose(o, name, raw))
	}
}

// choose reads the value of a choice.
func (t *toolset) choose(o *object, path string, raw json.RawMessage) *api.Error {
	if raw[0] == '"' {
		word, err := parseString(path, raw)
		if err != nil {
			return err
		}
		return t.chooseMode(o, path, path, word)
	}
	c, err := o.parse(path, raw, maxFields)
	switch {
	case err != nil:
		return wrongType(path, `"none", "auto", "required" or an object that names functions`, raw)
	case !t.has():
		return withoutTools(path)
	case t.legacy:
		return t.chooseNamed(c, functionKind)
	}
	return t.chooseObject(c)
}

var choiceModes = map[string]family.Mode{"none": family.None, "auto": family.Auto, "required": family.Required}

// chooseMode sets the mode by its word, which stands at path in the choice called name.
func (t *toolset) chooseMode(o *object, name, path, word string) *api.Error {
	mode, ok := choiceModes[word]
	switch {
	case !ok || t.legacy && mode == family.Required:
		return badRequest("invalid_value", path, "%s is %s; it must be none, auto%s or an object that names functions",
			path, headerQuote(word), map[bool]string{false: ", required"}[t.legacy])
	case t.has():
		t.choice.Mode = mode
	case mode == family.Required:
		return withoutTools(name)
	case mode == family.Auto:
		var fault *api.Error
		o.ignored(name, withoutTools(name), &fault)
		return fault
	}
	return nil
}

// chooseObject reads {"type":"function",…}, {"type":"custom",…} or {"type":"allowed_tools",…}.
func (t *toolset) chooseObject(c *object) *api.Error {
	var fault *api.Error
	kind, ok := c.text("type", &fault)
	inner, has := c.take(kind)
	path := join(c.path, "type")
	switch {
	case fault != nil:
		return fault
	case !ok:
		return missing(path, "function, custom or allowed_tools")
	case kind != functionKind && kind != customKind && kind != "allowed_tools":
		return badRequest("invalid_value", path, "%s is %s; it must be function, custom or allowed_tools", path, headerQuote(kind))
	case !has:
		return missing(join(c.path, kind), "an object")
	}
	part, err := c.parse(join(c.path, kind), inner, maxFields)
	if err != nil {
		return err
	}
	c.finish(&fault)
	if fault != nil {
		return fault
	}
	if kind == "allowed_tools" {
		return t.chooseAllowed(part)
	}
	return t.chooseNamed(part, kind)
}

// chooseNamed reads {"name":…}, which asks for one call.
func (t *toolset) chooseNamed(f *object, kind string) *api.Error {
	name, err := t.readChosen(f, kind)
	if err == nil {
		t.choice = family.Choice{Mode: family.Required, Names: []string{name}}
		t.named = true
	}
	return err
}

// readChosen reads the name of one of the tools of a kind.
func (t *toolset) readChosen(f *object, kind string) (string, *api.Error) {
	var fault *api.Error
	name, ok := f.text("name", &fault)
	path := join(f.path, "name")
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", missing(path, "the name of one of the tools")
	case !slices.ContainsFunc(t.list, func(tool family.Tool) bool { return tool.Name == name && t.isCustom(name) == (kind == customKind) }):
		return "", badRequest("invalid_value", path, "%s is %s, which none of the tools of that type is called", path, headerQuote(name))
	}
	f.finish(&fault)
	return name, fault
}

// chooseAllowed reads {"mode":…,"tools":[…]}. The prompt keeps all tools, so that the
// prefix cache stays good whatever is allowed.
func (t *toolset) chooseAllowed(a *object) *api.Error {
	var fault *api.Error
	mode, _ := a.text("mode", &fault)
	path := join(a.path, "mode")
	raw, ok := a.take("tools")
	switch {
	case fault != nil:
		return fault
	case mode != "auto" && mode != "required":
		return badRequest("invalid_value", path, "%s is %s; it must be auto or required", path, headerQuote(mode))
	case !ok:
		return missing(join(a.path, "tools"), "an array of tools")
	}
	t.choice.Mode = choiceModes[mode]
	path = join(a.path, "tools")
	items, err := parseArray(path, raw, maxTools)
	switch {
	case err != nil:
		return err
	case len(items) == 0:
		return badRequest("invalid_value", path, "%s is empty; tool_choice none allows no call", path)
	}
	for i, item := range items {
		kind, at, inner, err := unwrapTool(a, at(path, i), item)
		if err != nil {
			return err
		}
		f, err := a.parse(at, inner, maxFields)
		if err != nil {
			return err
		}
		name, err := t.readChosen(f, kind)
		if err != nil {
			return err
		}
		t.choice.Names = append(t.choice.Names, name)
	}
	a.finish(&fault)
	return fault
}
