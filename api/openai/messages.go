package openai

import (
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/messages"
	"weir/api/openai/params"
	"weir/api/openai/relay"
	"weir/api/openai/responses"
	"weir/api/openai/translation"
)

func serveCountTokens(c *call) *api.Error { return (&tokenizing{call: c}).countMessages() }

// countMessages says how many tokens the prompt of a request of POST /v1/messages has: system,
// tools and template with it.
func (c *tokenizing) countMessages() *api.Error {
	fault := c.open()
	if fault != nil {
		return fault
	}
	o := c.o
	m, fault := c.resolve(o.Object)
	if fault == nil {
		fault = c.countRequest(m)
	}
	switch {
	case fault != nil:
		return fault
	case m.Upstream != nil && m.Template == nil:
		r := relaying{call: c.call, Request: &relay.Request{Route: routeCount, Prefix: messageEndpoint.prefix, Model: m, Asked: o, Sent: o.Object, Path: relay.PathMessages + "/count_tokens"}}
		return r.countTokens()
	case m.Upstream == nil:
		if m, fault = c.lease.take(m, o, nil, ""); fault != nil {
			return fault
		}
	}
	c.m = m
	defer c.works()()
	w := translation.New(o, "messages", "tool_use_id", messages.Names...)
	messages.ReadPrompt(o.Object, w, &fault)
	if fault != nil {
		return fault
	}
	w.Set("messages", w.Messages.End())
	for _, name := range []string{"chat_template_kwargs"} {
		if raw, ok := o.Take(name); ok {
			w.Set(name, raw)
		}
	}
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return fault
	}
	_, ids, fault := c.renderChat(&w.Chat, &fault)
	if fault != nil {
		return w.Explain(fault)
	}
	api.WriteJSON(c.ctx, statusOK, struct {
		InputTokens int `json:"input_tokens"`
	}{len(ids)})
	return nil
}

// promptFields are those of a chat that decide on its prompt.
var promptFields = []string{"messages", "tools", "tool_choice", "reasoning_effort", "enable_thinking", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"}

func serveChatTokens(c *call) *api.Error { return (&tokenizing{call: c}).countChat() }

// countChat says how many tokens the prompt of a chat has.
func (c *tokenizing) countChat() *api.Error {
	fault := c.open()
	if fault == nil {
		fault = c.find()
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	_, ids, fault := c.renderChat(promptFieldsOf(c.o), &fault)
	if fault != nil {
		return fault
	}
	writeInputTokens(c.call, "chat.completion.input_tokens", len(ids))
	return nil
}

// promptFieldsOf is a chat without the fields that leave its prompt as it is.
func promptFieldsOf(chat *job.Body) *job.Body {
	prompt := &job.Body{Object: &jsonbody.Object{Notes: chat.Notes}, Permit: chat.Permit}
	for _, name := range promptFields {
		if raw, ok := chat.Take(name); ok {
			prompt.Add(name, raw)
		}
	}
	return prompt
}

func writeInputTokens(c *call, object string, n int) {
	api.WriteJSON(c.ctx, statusOK, struct {
		Object      string `json:"object"`
		InputTokens int    `json:"input_tokens"`
	}{object, n})
}

func serveInputTokens(c *call) *api.Error { return (&tokenizing{call: c}).countResponse() }

// countResponse says how many tokens the prompt of a request of POST /v1/responses has.
func (c *tokenizing) countResponse() *api.Error {
	fault := c.open()
	if fault == nil {
		fault = c.stored().Recall(c.o)
	}
	if fault == nil {
		fault = c.find()
	}
	if fault != nil {
		return fault
	}
	defer c.works()()
	w, fault := responses.Translate(c.o)
	if fault != nil {
		return fault
	}
	w.Finish(c.o.Object)
	_, ids, fault := c.renderChat(promptFieldsOf(&w.Chat), &fault)
	if fault != nil {
		return w.Explain(fault)
	}
	writeInputTokens(c.call, "response.input_tokens", len(ids))
	return nil
}

// readsMessageFaults reports whether the client of a path that is not of Messages alone is one of that API, which its other paths tell, or the
// field of its header.
func readsMessageFaults(c *call) bool {
	switch c.route.Pattern {
	case routeModels, routeModel:
	case routeOther:
		if strings.HasPrefix(edge.RequestPath(c.ctx.Request.Header.RequestURI()), routeMessages+"/") {
			return true
		}
	default:
		return false
	}
	return isAnthropics(c)
}

// isAnthropics reports whether the client is one of Anthropic's API: all its requests have this field.
func isAnthropics(c *call) bool { return len(c.ctx.Request.Header.Peek("Anthropic-Version")) > 0 }
