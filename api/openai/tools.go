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
	named  bool   // the request chose one function by its name
	legacy bool   // the request says functions and function_call, and so does its answer
	listed []byte // the tools as a JSON array, as templates expect them
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
	if !t.legacy {
		var err *api.Error
		if path, raw, err = functionOf(o, path, raw); err != nil {
			return err
		}
	}
	f, err := o.parse(path, raw, maxFields)
	if err != nil {
		return err
	}
	return t.readFunction(f)
}

// functionOf unwraps {"type":"function","function":{…}}.
func functionOf(o *object, path string, raw json.RawMessage) (string, json.RawMessage, *api.Error) {
	var fault *api.Error
	tool, err := o.parse(path, raw, maxFields)
	if err != nil {
		return path, nil, err
	}
	kind, ok := tool.text("type", &fault)
	inner, has := tool.take("function")
	switch name := join(path, "type"); {
	case fault != nil:
		return path, nil, fault
	case !ok:
		return path, nil, missing(name, `"function"`)
	case kind == "custom":
		return path, nil, unsupported(name, "tools of type custom have free text as input: send a function with one string parameter")
	case kind != "function":
		return path, nil, unsupported(name, "tools are functions that the client runs: send type function, not "+quote([]byte(kind)))
	case !has:
		return path, nil, missing(join(path, "function"), "an object with the function's name and parameters")
	}
	tool.finish(&fault)
	return join(path, "function"), inner, fault
}

// readFunction reads {name, description, parameters, strict}. What a template gets of it
// has no strict, which no model was trained on, and always a description and parameters,
// which templates read unasked.
func (t *toolset) readFunction(f *object) *api.Error {
	var fault *api.Error
	tool := family.Tool{Strict: f.flag("strict", false, &fault)}
	name, ok := f.text("name", &fault)
	path := join(f.path, "name")
	switch {
	case fault != nil:
		return fault
	case !ok:
		return missing(path, "the function's name")
	case !toolName.MatchString(name):
		return badRequest("invalid_value", path, "%s is %s; it must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -",
			path, headerQuote(name))
	case slices.ContainsFunc(t.list, func(other family.Tool) bool { return other.Name == name }):
		return badRequest("invalid_value", path, "two functions are called %s; calls could not tell them apart", name)
	}
	tool.Name = name
	tool.Description, _ = f.text("description", &fault)
	if n := len(tool.Description); n > maxDescriptionBytes {
		path := join(f.path, "description")
		keep(&fault, badRequest("invalid_value", path, "%s has %d bytes; %d are allowed", path, n, maxDescriptionBytes))
	}
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
		return t.chooseNamed(c)
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

// chooseObject reads {"type":"function",…} or {"type":"allowed_tools",…}.
func (t *toolset) chooseObject(c *object) *api.Error {
	var fault *api.Error
	kind, ok := c.text("type", &fault)
	inner, has := c.take(kind)
	path := join(c.path, "type")
	switch {
	case fault != nil:
		return fault
	case !ok:
		return missing(path, "function or allowed_tools")
	case kind != "function" && kind != "allowed_tools":
		return badRequest("invalid_value", path, "%s is %s; it must be function or allowed_tools", path, headerQuote(kind))
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
	if kind == "function" {
		return t.chooseNamed(part)
	}
	return t.chooseAllowed(part)
}

// chooseNamed reads {"name":…}, which asks for one call.
func (t *toolset) chooseNamed(f *object) *api.Error {
	name, err := t.readChosen(f)
	if err == nil {
		t.choice = family.Choice{Mode: family.Required, Names: []string{name}}
		t.named = true
	}
	return err
}

// readChosen reads the name of one of the tools.
func (t *toolset) readChosen(f *object) (string, *api.Error) {
	var fault *api.Error
	name, ok := f.text("name", &fault)
	path := join(f.path, "name")
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", missing(path, "the name of one of the functions")
	case !slices.ContainsFunc(t.list, func(tool family.Tool) bool { return tool.Name == name }):
		return "", badRequest("invalid_value", path, "%s is %s, which none of the functions is called", path, headerQuote(name))
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
		return missing(join(a.path, "tools"), "an array of functions")
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
		at, inner, err := functionOf(a, at(path, i), item)
		if err != nil {
			return err
		}
		f, err := a.parse(at, inner, maxFields)
		if err != nil {
			return err
		}
		name, err := t.readChosen(f)
		if err != nil {
			return err
		}
		t.choice.Names = append(t.choice.Names, name)
	}
	a.finish(&fault)
	return fault
}
