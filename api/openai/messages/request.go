package messages

import (
	"encoding/json"
	"math"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

// Names are the fields that a chat calls otherwise.
var Names = []translation.Renamed{
	{Chat: "stop", Client: "stop_sequences"}, {Chat: "response_format.json_schema", Client: "output_config.format"}, {Chat: "response_format", Client: "output_config.format"},
	{Chat: "reasoning_effort", Client: "output_config.effort"}, {Chat: "thinking_token_budget", Client: "thinking.budget_tokens"},
	{Chat: "tool_choice.function", Client: "tool_choice"}, {Chat: "parallel_tool_calls", Client: "tool_choice.disable_parallel_tool_use"},
	{Chat: "enable_thinking", Client: "thinking.type"},
}

// Read reads a request of POST /v1/messages into a job.
func Read(readChat translation.ReadChat, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
	if m.Template == nil {
		return nil, m.NoTemplate()
	}
	w, fault := Translate(o)
	if fault != nil {
		return nil, fault
	}
	j, fault := w.Read(readChat, o, m)
	if fault != nil {
		return nil, fault
	}
	j.Params.ContinuousUsage = true // the first event says what the prompt has
	return j, nil
}

// Translate writes a request of POST /v1/messages as a chat.
func Translate(o *job.Body) (*translation.Translation, *api.Error) {
	var fault *api.Error
	w := translation.New(o, "messages", "tool_use_id", Names...)
	w.Schema = "input_schema"
	ReadPrompt(o.Object, w, &fault)
	most, ok := o.Integer("max_tokens", 1, math.MaxInt32, &fault)
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing("max_tokens", "an integer"))
	}
	if raw, ok := o.Take("stop_sequences"); ok {
		w.Set("stop", raw)
	}
	w.Set("max_tokens", json.RawMessage(formatInt(most)))
	return w, fault
}

// ReadPrompt reads what decides on the prompt: system, messages, tools and
// tool_choice, thinking, output_config.
func ReadPrompt(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	for _, f := range []struct{ name, wayOut string }{
		{"mcp_servers", "the server reaches nothing outside: send tools that you run yourself"},
		{"container", "the server runs no code: send tools that you run yourself"},
		{"response_format", "send output_config.format"}, {"functions", "send tools"}, {"function_call", "send tool_choice"},
		{"prompt", "use /v1/completions"}, {"continue_final_message", "end with a message of the assistant"},
		{"return_token_ids", "use /v1/chat/completions"}, {"prompt_logprobs", "use /v1/completions"}, {"logprobs", "use /v1/chat/completions"},
	} {
		if raw, ok := o.Take(f.name); ok && !jsonbody.IsEmptyArray(raw) && string(raw) != "false" {
			jsonbody.Keep(fault, jsonbody.Unsupported(f.name, f.wayOut))
		}
	}
	if _, ok := o.Take("thread"); ok {
		jsonbody.Keep(fault, api.RefuseParam(CodeThread, "thread", "thread is not supported: the server keeps no conversation of this API; leave thread out and send all messages"))
	}
	o.Take("cache_control") // prefixes are cached without being asked
	if raw, ok := o.Take("system"); ok {
		_, text, err := translation.TextContent(o, "system", raw, "text")
		if jsonbody.Keep(fault, err); text != "" {
			w.Messages.Instruct("system", text)
		}
	}
	readMessageList(o, w, fault)
	readMessageTools(o, w, fault)
	readThinking(o, w, fault)
	readOutputConfig(o, w, fault)
}

// readMessageList reads messages. One of the assistant at the end is the beginning of the
// answer.
func readMessageList(o *jsonbody.Object, w *translation.Translation, fault **api.Error) {
	raw, ok := o.Take("messages")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing("messages", "an array of messages"))
		return
	}
	list, err := jsonbody.Array("messages", raw, translation.MaxItems)
	if jsonbody.Keep(fault, err); err == nil && len(list) == 0 {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "messages", "messages is empty; send at least one"))
	}
	role := ""
	for i, item := range list {
		if *fault != nil {
			return
		}
		role, err = messageTurn(&w.Messages, o, jsonbody.At("messages", i), item)
		jsonbody.Keep(fault, err)
	}
	if role == "assistant" {
		w.Set("continue_final_message", []byte("true"))
	}
}

// messageTurn adds a message, whose content is a text or blocks.
func messageTurn(t *translation.Messages, o *jsonbody.Object, path string, raw []byte) (role string, fault *api.Error) {
	m, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return "", fault
	}
	role = m.Need("role", &fault)
	content, ok := m.Take("content")
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, "content"), "a string or an array of blocks"))
	}
	translation.SkipHarmless(m)
	m.Finish(&fault)
	switch {
	case fault != nil:
		return "", fault
	case role != "user" && role != "assistant" && role != "system":
		return "", api.RefuseParam("invalid_value", jsonbody.Join(path, "role"), "%s is %s; it must be user or assistant", jsonbody.Join(path, "role"), jsonbody.HeaderQuote(role))
	case role == "system": // newer than the field system, and may stand anywhere
		_, text, err := translation.TextContent(o, jsonbody.Join(path, "content"), content, "text")
		t.Instruct(path, text)
		return role, err
	case content[0] == '"':
		_, err := jsonbody.String(jsonbody.Join(path, "content"), content)
		speak(t, path, role, content)
		return role, err
	case content[0] != '[':
		return "", jsonbody.WrongType(jsonbody.Join(path, "content"), "a string or an array of blocks", content)
	}
	blocks, fault := jsonbody.Array(jsonbody.Join(path, "content"), content, jsonbody.MaxFields)
	if fault == nil && len(blocks) == 0 {
		speak(t, path, role, []byte(`""`))
	}
	texts := blockTexts{role: role, path: path}
	for i, raw := range blocks {
		if fault == nil {
			fault = readBlock(t, o, &texts, jsonbody.At(jsonbody.Join(path, "content"), i), raw)
		}
	}
	speakBlocks(t, &texts)
	return role, fault
}

// speak adds what a user or the assistant says.
func speak(t *translation.Messages, path, role string, content []byte) {
	if role == "assistant" {
		t.Reply(path, content)
		return
	}
	t.Say(path, role, content)
}

// blockTexts are text blocks in a row, which are one content.
type blockTexts struct {
	role, path string
	parts      []byte
}

func speakBlocks(t *translation.Messages, b *blockTexts) {
	if b.parts != nil {
		speak(t, b.path, b.role, append(b.parts, ']'))
		b.parts = nil
	}
}

// readBlock adds a block of a message.
func readBlock(t *translation.Messages, o *jsonbody.Object, texts *blockTexts, path string, raw []byte) *api.Error {
	b, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return fault
	}
	kind := b.Need("type", &fault)
	if kind != "text" {
		speakBlocks(t, texts)
	}
	mine := texts.role == "assistant"
	switch {
	case fault != nil:
		return fault
	case kind == "text":
		text := b.Need("text", &fault)
		if texts.parts == nil {
			texts.parts = []byte{'['}
		}
		texts.parts = append(api.AppendComma(texts.parts, len(texts.parts)-1), `{"type":"text","text":`...)
		texts.parts = append(api.AppendString(texts.parts, text), '}')
	case kind == "thinking" && mine:
		t.Think(texts.path, b.Need("thinking", &fault))
		b.Take("signature")
	case kind == "redacted_thinking" && mine: // another server's, and says nothing here
		b.Take("data")
	case kind == "tool_use" && mine:
		id, name := b.Need("id", &fault), b.Need("name", &fault)
		input, ok := b.Take("input")
		if !ok {
			input = []byte("{}")
		}
		if input[0] != '{' {
			jsonbody.Keep(&fault, jsonbody.WrongType(jsonbody.Join(path, "input"), "an object", input))
		}
		t.AddCall(texts.path, toolset.Function, translation.Call{Place: path, ID: id, Name: name, With: string(input)})
	case kind == "tool_result" && !mine:
		readResultBlock(t, b, &fault)
	default:
		jsonbody.Keep(&fault, jsonbody.Unsupported(jsonbody.Join(path, "type"),
			"models here read text: send blocks of type text, and tool_use, tool_result and thinking where they belong, not "+jsonbody.Quote([]byte(kind))))
	}
	translation.SkipHarmless(b)
	b.Take("caller")
	b.Finish(&fault)
	return fault
}

// readResultBlock adds what a tool has given. Templates know no failed calls: the text says so.
func readResultBlock(t *translation.Messages, b *jsonbody.Object, fault **api.Error) {
	id := b.Need("tool_use_id", fault)
	b.Flag("is_error", false, fault)
	content := []byte(`""`)
	if raw, ok := b.Take("content"); ok {
		var err *api.Error
		content, _, err = translation.TextContent(b, jsonbody.Join(b.Path, "content"), raw, "text")
		jsonbody.Keep(fault, err)
	}
	t.Result(b.Path, id, content)
}
