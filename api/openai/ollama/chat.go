package ollama

import (
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// ReadChat reads a request of POST /api/chat into a job.
func ReadChat(readChat translation.ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	if m.Template == nil {
		return nil, m.NoTemplate()
	}
	w, fault := TranslateChat(o)
	if fault != nil {
		return nil, fault
	}
	own, fault := w.Own.(*Request).of(m, w)
	if fault != nil {
		return nil, fault
	}
	return w.Read(readChat, o, own)
}

// TranslateChat writes a request of POST /api/chat as a chat.
func TranslateChat(o *job.Body) (*translation.Translation, *api.Error) {
	var fault *api.Error
	w, _ := begin(o, "messages", &fault)
	readMessages(o, w, &fault)
	readTools(o.Object, w, &fault)
	if asked, top := readLogprobs(o.Object, &fault); asked {
		w.Set("logprobs", []byte("true"))
		w.Set("top_logprobs", top)
	}
	o.Finish(&fault)
	return w, fault
}

// IsEmpty reports whether a request asks for no answer: its model is to be loaded, or unloaded. What cannot be read does.
func IsEmpty(o *job.Body) bool {
	for _, name := range []string{"messages", "prompt"} {
		for i := range o.Fields {
			if f := &o.Fields[i]; f.Name == name && !jsonbody.IsNull(f.Raw) && string(f.Raw) != `""` && !jsonbody.IsEmptyArray(f.Raw) {
				return false
			}
		}
	}
	return true
}

// conversation reads the messages of a chat.
type conversation struct {
	body    *job.Body
	to      *translation.Messages
	waiting []pastCall // calls without their result
	called  int
	last    string // role of the last message
}

type pastCall struct{ id, name string }

// readMessages reads messages. One of the assistant at the end is the beginning of the answer.
func readMessages(o *job.Body, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("messages")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing("messages", "an array of messages"))
		return
	}
	list, err := jsonbody.Array("messages", raw, translation.MaxItems)
	jsonbody.Keep(fault, err)
	c := &conversation{body: o, to: &w.Messages}
	for i, item := range list {
		if *fault != nil {
			return
		}
		jsonbody.Keep(fault, c.message(jsonbody.At("messages", i), item))
	}
	if c.last == "assistant" && len(c.waiting) == 0 {
		w.Set("continue_final_message", []byte("true"))
	}
}

// message adds a message.
func (c *conversation) message(path string, raw []byte) (fault *api.Error) {
	m, fault := c.body.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return fault
	}
	c.last = strings.ToLower(m.Need("role", &fault))
	text, _ := m.Text("content", &fault)
	thought, _ := m.Text("thinking", &fault)
	calls, _ := m.Take("tool_calls")
	id, _ := m.Text("tool_call_id", &fault)
	name, _ := m.Text("tool_name", &fault)
	if raw, ok := m.Take("images"); ok && !jsonbody.IsEmptyArray(raw) {
		jsonbody.Keep(&fault, noImages(jsonbody.Join(path, "images")))
	}
	m.Finish(&fault)
	if fault != nil {
		return fault
	}
	content := api.AppendString(nil, text)
	switch c.last {
	case "system", "developer":
		c.to.Instruct(path, text)
	case "user":
		c.to.Say(path, c.last, content)
	case "assistant":
		return c.answer(path, text, thought, calls)
	case "tool":
		if id, fault = c.answers(path, id, name); fault == nil {
			c.to.Result(path, id, content)
		}
	default:
		fault = api.RefuseParam("invalid_value", jsonbody.Join(path, "role"), "%s is %s; it must be system, user, assistant or tool", jsonbody.Join(path, "role"), jsonbody.HeaderQuote(c.last))
	}
	return fault
}

// noImages refuses images.
func noImages(path string) *api.Error {
	return jsonbody.Unsupported(path, "models here read text: leave it out")
}

// answer adds a message of the assistant.
func (c *conversation) answer(path, text, thought string, calls []byte) *api.Error {
	if thought != "" {
		c.to.Think(path, thought)
	}
	called := len(calls) > 0 && !jsonbody.IsEmptyArray(calls)
	if text != "" || !called {
		c.to.Reply(path, api.AppendString(nil, text))
	}
	if !called {
		return nil
	}
	list, fault := jsonbody.Array(jsonbody.Join(path, "tool_calls"), calls, toolset.MaxCalls)
	for i, raw := range list {
		jsonbody.Keep(&fault, c.call(path, jsonbody.At(jsonbody.Join(path, "tool_calls"), i), raw))
	}
	return fault
}

// call adds a call of an earlier answer. Clients of older releases send no ids back.
func (c *conversation) call(path, at string, raw []byte) *api.Error {
	call, fault := c.body.Parse(at, raw, jsonbody.MaxFields)
	if fault != nil {
		return fault
	}
	id, _ := call.Text("id", &fault)
	call.Take("type")
	f, ok := call.Inner("function", &fault)
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(at, "function"), "an object with name and arguments"))
		return fault
	}
	name := f.Need("name", &fault)
	f.Take("index")
	f.Take("description")
	arguments, ok := f.Take("arguments")
	switch {
	case !ok:
		arguments = []byte("{}")
	case arguments[0] != '{':
		jsonbody.Keep(&fault, jsonbody.WrongType(jsonbody.Join(f.Path, "arguments"), "an object", arguments))
	}
	f.Finish(&fault)
	call.Finish(&fault)
	if c.called++; id == "" {
		id = "call_" + strconv.Itoa(c.called)
	}
	c.waiting = append(c.waiting, pastCall{id, name})
	c.to.AddCall(path, toolset.Function, translation.Call{Place: at, ID: id, Name: name, With: string(arguments)})
	return fault
}

// answers finds the call whose result a message is: by its id, else the first of that tool that has none yet, else the first.
func (c *conversation) answers(path, id, name string) (string, *api.Error) {
	i := slices.IndexFunc(c.waiting, func(p pastCall) bool {
		if id != "" {
			return p.id == id
		}
		return name == "" || p.name == name
	})
	switch {
	case i < 0 && id != "":
		return id, nil // the chat says whether there was such a call
	case len(c.waiting) == 0:
		return "", api.RefuseParam("invalid_value", path, "%s is the result of a tool, and no answer before it called one: send the message with tool_calls that the model answered, too", path)
	}
	i = max(i, 0)
	id = c.waiting[i].id
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return id, nil
}

// readTools reads tools, which are a chat's without words that they may lack.
func readTools(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("tools")
	if !ok || jsonbody.IsEmptyArray(raw) {
		return
	}
	list, err := jsonbody.Array("tools", raw, toolset.MaxTools)
	jsonbody.Keep(fault, err)
	chat := []byte{'['}
	for i, item := range list {
		tool, err := o.Parse(jsonbody.At("tools", i), item, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return
		}
		if kind, ok := tool.Text("type", fault); ok && kind != toolset.Function && kind != "" {
			jsonbody.Keep(fault, jsonbody.Unsupported(jsonbody.Join(tool.Path, "type"), "tools are of type function, not "+jsonbody.HeaderQuote(kind)))
		}
		function, ok := tool.Take(toolset.Function)
		if !ok {
			jsonbody.Keep(fault, jsonbody.Missing(jsonbody.Join(tool.Path, toolset.Function), "an object with name, description and parameters"))
		}
		tool.Take("items")
		tool.Finish(fault)
		chat = append(append(append(api.AppendComma(chat, i), `{"type":"function","function":`...), function...), '}')
	}
	w.Set("tools", append(chat, ']'))
}
