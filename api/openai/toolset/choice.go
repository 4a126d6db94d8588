package toolset

import (
	"encoding/json"
	"slices"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
)

// readChoice reads tool_choice, or function_call of the older shape.
func (t *Set) readChoice(o *jsonbody.Object, fault **api.Error) {
	name := "tool_choice"
	if t.Legacy {
		name = "function_call"
	}
	if raw, ok := o.Take(name); ok {
		jsonbody.Keep(fault, t.choose(o, name, raw))
	}
}

// choose reads the value of a choice.
func (t *Set) choose(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
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
	case !t.Has():
		return withoutTools(path)
	case t.Legacy:
		return t.chooseNamed(c, Function)
	}
	return t.chooseObject(c)
}

var choiceModes = map[string]family.Mode{"none": family.None, "auto": family.Auto, "required": family.Required}

// chooseMode sets the mode by its word, which stands at path in the choice called name.
func (t *Set) chooseMode(o *jsonbody.Object, name, path, word string) *api.Error {
	mode, ok := choiceModes[word]
	switch {
	case !ok || t.Legacy && mode == family.Required:
		return api.RefuseParam("invalid_value", path, "%s is %s; it must be none, auto%s or an object that names functions",
			path, jsonbody.HeaderQuote(word), map[bool]string{false: ", required"}[t.Legacy])
	case t.Has():
		t.Choice.Mode = mode
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
func (t *Set) chooseObject(c *jsonbody.Object) *api.Error {
	var fault *api.Error
	kind, ok := c.Text("type", &fault)
	inner, has := c.Take(kind)
	path := jsonbody.Join(c.Path, "type")
	switch {
	case fault != nil:
		return fault
	case !ok:
		return jsonbody.Missing(path, "function, custom or allowed_tools")
	case kind != Function && kind != Custom && kind != "allowed_tools":
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
func (t *Set) chooseNamed(f *jsonbody.Object, kind string) *api.Error {
	name, err := t.readChosen(f, kind)
	if err == nil {
		t.Choice = family.Choice{Mode: family.Required, Names: []string{name}}
		t.Named = true
	}
	return err
}

// readChosen reads the name of one of the tools of a kind.
func (t *Set) readChosen(f *jsonbody.Object, kind string) (string, *api.Error) {
	var fault *api.Error
	name, ok := f.Text("name", &fault)
	path := jsonbody.Join(f.Path, "name")
	switch {
	case fault != nil:
		return "", fault
	case !ok:
		return "", jsonbody.Missing(path, "the name of one of the tools")
	case !slices.ContainsFunc(t.Tools, func(tool family.Tool) bool { return tool.Name == name && t.IsCustom(name) == (kind == Custom) }):
		return "", api.RefuseParam("invalid_value", path, "%s is %s, which none of the tools of that type is called", path, jsonbody.HeaderQuote(name))
	}
	f.Finish(&fault)
	return name, fault
}

// chooseAllowed reads {"mode":…,"tools":[…]}. The prompt keeps all tools, so that the
// prefix cache stays good whatever is allowed.
func (t *Set) chooseAllowed(a *jsonbody.Object) *api.Error {
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
	t.Choice.Mode = choiceModes[mode]
	path = jsonbody.Join(a.Path, "tools")
	items, err := jsonbody.Array(path, raw, MaxTools)
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
		t.Choice.Names = append(t.Choice.Names, name)
	}
	a.Finish(&fault)
	return fault
}
