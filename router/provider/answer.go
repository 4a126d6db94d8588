package provider

import (
	"encoding/json"
	"strings"
)

// sink takes what an answer says, in its order.
type sink interface {
	text(s string)
	thought(s string)
	// signed is a whole thought with what vouches for it, so that a client can send it back.
	signed(b thinkingBlock)
	call(id, name, signature string)
	arguments(s string) // of the last call
	finish(reason, stop string)
	used(u usage)
}

// Finish reasons of chats.
const (
	finishStop     = "stop"
	finishLength   = "length"
	finishCalls    = "tool_calls"
	finishFiltered = "content_filter"
)

// thinkingBlock is a thought as Anthropic's models want to have it back.
type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`
}

// usage counts tokens as chats do: prompt and output hold all of theirs.
type usage struct {
	prompt, cached, output, reasoning int64
}

func (u usage) fields() map[string]any {
	return map[string]any{
		"prompt_tokens": u.prompt, "completion_tokens": u.output, "total_tokens": u.prompt + u.output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.cached},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.reasoning},
	}
}

func (w *Identity) object(kind string) map[string]any {
	return map[string]any{"id": "chatcmpl-" + w.ID, "object": kind, "created": w.Created, "model": w.Model}
}

// calledTool is a call as chats have it.
type calledTool struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// extraOf keeps what Google's models want to have back with a call, where Google's own API for OpenAI's clients has it.
func extraOf(signature string) json.RawMessage {
	if signature == "" {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"google": map[string]string{"thought_signature": signature}})
	if err != nil {
		return nil // a string always has a JSON form
	}
	return raw
}

// message is an answer as a chat completion.
type message struct {
	who      Identity
	content  strings.Builder
	thoughts strings.Builder
	blocks   []thinkingBlock
	calls    []calledTool
	reason   string
	stop     string
	usage    usage
}

func (m *message) text(s string)          { m.content.WriteString(s) }
func (m *message) thought(s string)       { m.thoughts.WriteString(s) }
func (m *message) signed(b thinkingBlock) { m.blocks = append(m.blocks, b) }
func (m *message) used(u usage)           { m.usage = u }

func (m *message) call(id, name, signature string) {
	c := calledTool{ID: id, Type: "function", Extra: extraOf(signature)}
	c.Function.Name = name
	m.calls = append(m.calls, c)
}

func (m *message) arguments(s string) {
	if n := len(m.calls); n > 0 {
		m.calls[n-1].Function.Arguments = s // of a whole answer all at once
	}
}

func (m *message) finish(reason, stop string) { m.reason, m.stop = reason, stop }

func (m *message) body() ([]byte, error) {
	if m.reason == "" {
		return nil, unreadable("the answer has no reason why it ended")
	}
	said := map[string]any{"role": "assistant", "content": m.content.String()}
	if m.content.Len() == 0 && len(m.calls) > 0 {
		said["content"] = nil
	}
	if m.thoughts.Len() > 0 {
		said["reasoning_content"] = m.thoughts.String()
	}
	if len(m.blocks) > 0 {
		said["thinking_blocks"] = m.blocks
	}
	if len(m.calls) > 0 {
		said["tool_calls"] = m.calls
	}
	choice := map[string]any{"index": 0, "message": said, "finish_reason": m.reason, "logprobs": nil}
	if m.stop != "" {
		choice["stop_reason"] = m.stop
	}
	whole := m.who.object("chat.completion")
	whole["choices"], whole["usage"] = []any{choice}, m.usage.fields()
	return json.Marshal(whole)
}

// chunks is an answer as the events of a chat's stream.
type chunks struct {
	who      Identity
	out      []byte
	begun    bool
	calls    int
	over     bool // the reason has come
	ended    bool // so has [DONE], or an error
	usage    usage
	hasUsage bool
}

func (c *chunks) event(data map[string]any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return // what stands here always has a JSON form
	}
	c.out = append(append(append(c.out, "data: "...), raw...), "\n\n"...)
}

func (c *chunks) delta(delta map[string]any, reason any, stop string) {
	if !c.begun {
		c.begun = true
		c.delta(map[string]any{"role": "assistant", "content": ""}, nil, "")
	}
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": reason}
	if stop != "" {
		choice["stop_reason"] = stop
	}
	e := c.who.object("chat.completion.chunk")
	e["choices"] = []any{choice}
	c.event(e)
}

func (c *chunks) text(s string) {
	if s != "" {
		c.delta(map[string]any{"content": s}, nil, "")
	}
}

func (c *chunks) thought(s string) {
	if s != "" {
		c.delta(map[string]any{"reasoning_content": s}, nil, "")
	}
}

func (c *chunks) signed(b thinkingBlock) {
	c.delta(map[string]any{"thinking_blocks": []thinkingBlock{b}}, nil, "")
}

func (c *chunks) call(id, name, signature string) {
	one := calledTool{Index: new(c.calls), ID: id, Type: "function", Extra: extraOf(signature)}
	one.Function.Name = name
	c.calls++
	c.delta(map[string]any{"tool_calls": []calledTool{one}}, nil, "")
}

func (c *chunks) arguments(s string) {
	if s == "" || c.calls == 0 {
		return
	}
	one := calledTool{Index: new(c.calls - 1)}
	one.Function.Arguments = s
	c.delta(map[string]any{"tool_calls": []calledTool{one}}, nil, "")
}

func (c *chunks) finish(reason, stop string) {
	if !c.over {
		c.over = true
		c.delta(map[string]any{}, reason, stop)
	}
}

func (c *chunks) used(u usage) { c.usage, c.hasUsage = u, true }

// pulse says that the provider lives.
func (c *chunks) pulse() { c.out = append(c.out, ": ping\n\n"...) }

func (c *chunks) fail(f *fault) {
	c.ended = true
	c.out = append(append(append(c.out, "data: "...), f.body()...), "\n\n"...)
}

// end writes the end of a stream whose reason has come.
func (c *chunks) end() {
	if c.ended || !c.over {
		return
	}
	c.ended = true
	if c.hasUsage {
		e := c.who.object("chat.completion.chunk")
		e["choices"], e["usage"] = []any{}, c.usage.fields()
		c.event(e)
	}
	c.out = append(c.out, "data: [DONE]\n\n"...)
}

var (
	_ sink = (*message)(nil)
	_ sink = (*chunks)(nil)
)
