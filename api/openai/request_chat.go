package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"weir/api"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// chatPrompt is what a model's chat template is applied to.
type chatPrompt struct {
	input chat.Input
}

// readChatPrompt reads the fields that make the prompt of a chat: messages,
// add_generation_prompt, continue_final_message, chat_template_kwargs.
func readChatPrompt(o *object, m *Model, c *Config, fault **api.Error) *chatPrompt {
	p := &chatPrompt{}
	p.input.ContinueFinalMessage = o.flag("continue_final_message", false, fault)
	p.input.AddGenerationPrompt = o.flag("add_generation_prompt", !p.input.ContinueFinalMessage, fault)
	if p.input.ContinueFinalMessage && p.input.AddGenerationPrompt {
		keep(fault, badRequest("invalid_value", "continue_final_message",
			"continue_final_message and add_generation_prompt exclude each other; the one goes on with the last message, the other begins a new one"))
	}
	p.input.Extra = readTemplateVariables(o, fault)
	raw, ok := o.take("messages")
	switch {
	case !ok:
		keep(fault, missing("messages", "an array of messages"))
		return p
	case *fault != nil:
		return p
	}
	var err *api.Error
	p.input.Messages, err = parseMessages(raw, m, c.MaxMessages)
	keep(fault, err)
	return p
}

func readTemplateVariables(o *object, fault **api.Error) chat.Value {
	raw, ok := o.take("chat_template_kwargs")
	if !ok {
		return chat.Value{}
	}
	if _, err := parseObject("chat_template_kwargs", raw, maxFields); err != nil {
		keep(fault, err)
		return chat.Value{}
	}
	v, err := chat.FromJSON(raw)
	if err != nil {
		keep(fault, badRequest("invalid_value", "chat_template_kwargs", "chat_template_kwargs: %v", err))
	}
	return v
}

// parseMessages checks the messages and hands them on with the key order of
// the client, which templates can see.
func parseMessages(raw []byte, m *Model, limit int) (chat.Value, *api.Error) {
	list, err := parseArray("messages", raw, limit)
	switch {
	case err != nil:
		return chat.Value{}, err
	case len(list) == 0:
		return chat.Value{}, badRequest("invalid_value", "messages", "messages is empty; a chat needs at least one")
	}
	clean := append(make([]byte, 0, len(raw)), '[')
	for i, item := range list {
		if i > 0 {
			clean = append(clean, ',')
		}
		if clean, err = appendMessage(clean, at("messages", i), item); err != nil {
			return chat.Value{}, err
		}
	}
	return messagesValue(append(clean, ']'), m)
}

func messagesValue(clean []byte, m *Model) (chat.Value, *api.Error) {
	v, err := chat.FromJSON(clean)
	if err == nil && !m.Template.TakesParts() {
		v, err = chat.JoinParts(v)
	}
	if err != nil {
		return chat.Value{}, badRequest("invalid_value", "messages", "messages: %v", err)
	}
	return v, nil
}

// appendMessage checks one message and appends it as JSON. Fields of answers
// that clients send back as they came (refusal, annotations, empty tool_calls)
// say nothing to a template and are left out.
func appendMessage(dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	o, fault := parseObject(path, raw, maxFields)
	if fault != nil {
		return dst, fault
	}
	role := readRole(o, &fault)
	content, hasContent := o.take("content")
	if !hasContent {
		keep(&fault, missing(join(path, "content"), "a string or an array of text parts"))
	}
	o.text("name", &fault)
	o.text("reasoning_content", &fault)
	refuseParts(o, &fault)
	if fault != nil {
		return dst, fault
	}
	dst = append(dst, '{')
	for _, f := range o.fields {
		switch f.name {
		case "role":
			dst = appendField(dst, f.name, api.AppendString(nil, role))
		case "content":
			clean, err := appendContent(nil, join(path, "content"), content)
			if err != nil {
				return dst, err
			}
			dst = appendField(dst, f.name, clean)
		case "name", "reasoning_content":
			if !isNull(f.raw) {
				dst = appendField(dst, f.name, f.raw)
			}
		}
	}
	return append(dst, '}'), nil
}

func appendField(dst []byte, name string, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, '"'), name...)
	return append(append(dst, `":`...), value...)
}

var roles = []string{"system", "developer", "user", "assistant"}

// readRole reads role; developer is the newer word for system, which no
// template knows.
func readRole(o *object, fault **api.Error) string {
	path := join(o.path, "role")
	raw, ok := o.take("role")
	if !ok {
		keep(fault, missing(path, "system, developer, user or assistant"))
		return ""
	}
	role, err := parseString(path, raw)
	keep(fault, err)
	switch {
	case err != nil:
	case role == "developer":
		return "system"
	case role == "tool" || role == "function":
		keep(fault, unsupported(path, "tools are not served yet: put the result into a user message"))
	case !slices.Contains(roles, role):
		keep(fault, badRequest("invalid_value", path, "%s is %s; it must be system, developer, user or assistant", path, quote(raw)))
	}
	return role
}

// refuseParts refuses the fields of a message that are not served.
func refuseParts(o *object, fault **api.Error) {
	for _, name := range []string{"tool_calls", "function_call", "tool_call_id", "audio"} {
		if raw, ok := o.take(name); ok && !isEmptyArray(raw) {
			keep(fault, unsupported(join(o.path, name), "tools and audio are not served yet: put it into the text"))
		}
	}
	o.take("refusal")
	o.take("annotations")
	if f, left := o.rest(); left {
		keep(fault, unknown(join(o.path, f.name)))
	}
}

// appendContent checks a message's content: a string, or text parts.
func appendContent(dst []byte, path string, raw []byte) ([]byte, *api.Error) {
	if raw[0] == '"' {
		return append(dst, raw...), nil
	}
	if raw[0] != '[' {
		return dst, wrongType(path, "a string or an array of text parts", raw)
	}
	parts, err := parseArray(path, raw, maxFields)
	switch {
	case err != nil:
		return dst, err
	case len(parts) == 0:
		return dst, badRequest("invalid_value", path, "%s is an empty array; send at least one text part", path)
	}
	dst = append(dst, '[')
	for i, raw := range parts {
		text, err := parsePart(at(path, i), raw)
		if err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"type":"text","text":`...), text...), '}')
	}
	return append(dst, ']'), nil
}

// parsePart returns the text of a text part, as JSON.
func parsePart(path string, raw []byte) (json.RawMessage, *api.Error) {
	o, fault := parseObject(path, raw, maxFields)
	if fault != nil {
		return nil, fault
	}
	kind, ok := o.text("type", &fault)
	switch {
	case fault != nil:
		return nil, fault
	case !ok:
		return nil, missing(join(path, "type"), `"text"`)
	case kind != "text":
		return nil, unsupported(join(path, "type"), "models here read text: send parts of type text, not "+quote([]byte(kind)))
	}
	text, ok := o.take("text")
	if !ok {
		return nil, missing(join(path, "text"), "a string")
	}
	if _, err := parseString(join(path, "text"), text); err != nil {
		return nil, err
	}
	if f, left := o.rest(); left {
		return nil, unknown(join(path, f.name))
	}
	return text, nil
}

// render applies the model's template.
func (p *chatPrompt) render(m *Model) ([]tokenizer.Span, *api.Error) {
	in := p.input
	in.BOSToken, in.EOSToken = m.endpoints()
	spans, err := m.Template.Render(in)
	if err == nil {
		return spans, nil
	}
	var te *chat.Error
	if !errors.As(err, &te) {
		return nil, internalError("the model's chat template could not be rendered")
	}
	param := "messages"
	if te.Reason == chat.Invalid {
		param = "chat_template_kwargs"
	}
	return nil, badRequest("template_error", param, "%v", te)
}

// endpoints are the texts of the model's beginning and end tokens.
func (m *Model) endpoints() (bos, eos string) {
	if id, ok := m.Tokenizer.BOS(); ok {
		bos = m.Tokenizer.TokenText(id)
	}
	if id, ok := m.Tokenizer.EOS(); ok {
		eos = m.Tokenizer.TokenText(id)
	}
	return bos, eos
}

func noTemplate(m *Model) *api.Error {
	return badRequest("no_chat_template", "messages",
		"the model %s has no chat template that this server can render; use /v1/completions with a prompt of your own", m.ID)
}

// readChat reads a chat completion request into a job. The prompt is already
// tokenised: the template is the authority on special tokens, so none are
// added around it.
func (s *Server) readChat(o *object, m *Model) (*job, *api.Error) {
	if m.Template == nil {
		return nil, noTemplate(m)
	}
	var fault *api.Error
	p := readParams(o, m, &s.config, &fault)
	if n, ok := o.integer("max_completion_tokens", 0, maxInt32, &fault); ok {
		if p.maxTokens >= 0 && p.maxTokens != int(n) {
			keep(&fault, badRequest("invalid_value", "max_completion_tokens", "max_completion_tokens and max_tokens are the same limit and differ: %d and %d; send one", n, p.maxTokens))
		}
		p.maxTokens = int(n)
	}
	if p.maxTokens == 0 {
		keep(&fault, badRequest("invalid_value", "max_tokens", "the limit of output tokens is 0; it must be at least 1"))
	}
	p.readChatLogprobs(o, m, &fault)
	conversation := readChatPrompt(o, m, &s.config, &fault)
	p.finish(o, &s.config, &fault)
	if fault != nil {
		return nil, fault
	}
	spans, fault := conversation.render(m)
	if fault != nil {
		return nil, fault
	}
	ids := m.Tokenizer.AppendSpans(nil, spans, false)
	if len(ids) == 0 {
		return nil, badRequest("invalid_value", "messages", "the messages render to an empty prompt")
	}
	j := &job{model: m, params: p, chat: true, prompts: []prompt{{ids: ids}}, promptLogprobs: -1}
	return j, j.settleLength("messages", cmp.Or(max(p.maxTokens, 0), m.MaxModelLen-len(ids)))
}

// readChatLogprobs reads logprobs (true or false) and top_logprobs.
func (p *params) readChatLogprobs(o *object, m *Model, fault **api.Error) {
	p.logprobs = o.flag("logprobs", false, fault)
	top, ok := o.integer("top_logprobs", 0, int64(m.maxLogprobs()), fault)
	if ok && !p.logprobs {
		keep(fault, badRequest("invalid_value", "top_logprobs", "top_logprobs is allowed only together with logprobs: true"))
	}
	if p.logprobs {
		p.sampling.Logprobs = int(top)
	}
}

// prompt is one prompt of a request: its ids, and its text where it is echoed.
type prompt struct {
	ids  []inference.TokenID
	text string
}
