package provider

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// anthropicAnswer is a message, whole or as a stream begins it.
type anthropicAnswer struct {
	Type    string
	Content []struct {
		Type, Text, Thinking, Signature, Data, ID, Name string
		Input                                           json.RawMessage
	}
	Stop     string  `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
	Usage    anthropicUsage
	Error    *anthropicError
}

type anthropicError struct{ Type, Message string }

// anthropicUsage counts tokens; input leaves out what came from a cache, or went there. Later ones stand for earlier ones.
type anthropicUsage struct {
	Input   *int64 `json:"input_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Details struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// add takes what a later event tells.
func (u *anthropicUsage) add(o *anthropicUsage) {
	for _, n := range []struct{ to, from **int64 }{
		{&u.Input, &o.Input}, {&u.Read, &o.Read}, {&u.Written, &o.Written}, {&u.Output, &o.Output}, {&u.Details.Thinking, &o.Details.Thinking},
	} {
		if *n.from != nil {
			*n.to = *n.from
		}
	}
}

func (u *anthropicUsage) usage() usage {
	return usage{
		prompt: number(u.Input) + number(u.Read) + number(u.Written), cached: number(u.Read), output: number(u.Output), reasoning: number(u.Details.Thinking),
	}
}

func number(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// anthropicReason is why an answer ended, in the words of chats; "" is unknown.
func anthropicReason(word string) string {
	switch word {
	case "end_turn", "stop_sequence", "pause_turn":
		return finishStop
	case "max_tokens", "model_context_window_exceeded":
		return finishLength
	case "tool_use":
		return finishCalls
	case "refusal":
		return finishFiltered
	}
	return ""
}

func (anthropic) whole(answer []byte, to sink) error {
	var a anthropicAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return unreadable("%w: %.200q", err, answer)
	}
	if a.Error != nil {
		return a.Error.fault(http.StatusInternalServerError)
	}
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			to.text(b.Text)
		case "thinking":
			to.thought(b.Thinking)
			to.signed(thinkingBlock{Type: b.Type, Thinking: b.Thinking, Signature: b.Signature})
		case "redacted_thinking":
			to.signed(thinkingBlock{Type: b.Type, Data: b.Data})
		case "tool_use":
			to.call(b.ID, b.Name, "")
			to.arguments(string(b.Input))
		}
	}
	reason := anthropicReason(a.Stop)
	if reason == "" {
		return unreadable("the answer ended for the reason %q: %.200q", a.Stop, answer)
	}
	to.finish(reason, deref(a.Sequence))
	to.used(a.Usage.usage())
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (anthropic) frames(from io.Reader) frames { return newServerSent(from) }
func (anthropic) decoder() decoder             { return &anthropicDecoder{} }

// anthropicDecoder reads the events of a message.
type anthropicDecoder struct {
	usage   anthropicUsage
	block   anthropicStart  // that is open
	thought strings.Builder // of the open block, as far as it may be sent back
	said    bool            // the open call has arguments
}

type anthropicStart struct {
	Type, Text, Thinking, Signature, Data, ID, Name string
	Input                                           json.RawMessage
}

type anthropicEvent struct {
	Type    string
	Message anthropicAnswer
	Block   anthropicStart `json:"content_block"`
	Delta   struct {
		Type, Text, Thinking, Signature string
		JSON                            string  `json:"partial_json"`
		Stop                            string  `json:"stop_reason"`
		Sequence                        *string `json:"stop_sequence"`
	}
	Usage anthropicUsage
	Error anthropicError
}

func (d *anthropicDecoder) read(_ string, data []byte, to *chunks) (over bool, err error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, unreadable("an event is no JSON: %w: %.200q", err, data)
	}
	switch e.Type {
	case "error":
		return true, e.Error.fault(http.StatusInternalServerError)
	case "message_start":
		d.usage.add(&e.Message.Usage)
	case "content_block_start":
		d.begin(&e.Block, to)
	case "content_block_delta":
		d.delta(&e, to)
	case "content_block_stop":
		d.end(to)
	case "message_delta":
		d.usage.add(&e.Usage)
		if e.Delta.Stop != "" {
			reason := anthropicReason(e.Delta.Stop)
			if reason == "" {
				return false, unreadable("the answer ended for the reason %q", e.Delta.Stop)
			}
			to.finish(reason, deref(e.Delta.Sequence))
		}
		to.used(d.usage.usage())
	case "message_stop":
		return true, nil
	case "ping":
		to.pulse()
	}
	return false, nil // there are further events, which say nothing to a chat
}

func (d *anthropicDecoder) begin(b *anthropicStart, to *chunks) {
	d.block, d.said = *b, false
	d.thought.Reset()
	d.think(b.Thinking)
	switch b.Type {
	case "text":
		to.text(b.Text)
	case "thinking":
		to.thought(b.Thinking)
	case "tool_use":
		to.call(b.ID, b.Name, "")
	}
}

func (d *anthropicDecoder) delta(e *anthropicEvent, to *chunks) {
	switch e.Delta.Type {
	case "text_delta":
		to.text(e.Delta.Text)
	case "thinking_delta":
		d.think(e.Delta.Thinking)
		to.thought(e.Delta.Thinking)
	case "signature_delta":
		d.block.Signature += e.Delta.Signature
	case "input_json_delta":
		if d.block.Type == "tool_use" { // and not a tool that the provider runs
			d.said = d.said || e.Delta.JSON != ""
			to.arguments(e.Delta.JSON)
		}
	}
}

func (d *anthropicDecoder) think(text string) {
	if d.thought.Len() <= maxEventBytes {
		d.thought.WriteString(text)
	}
}

// end closes a block. A call without arguments has an empty object, and a thought goes with what vouches for it.
func (d *anthropicDecoder) end(to *chunks) {
	b := &d.block
	switch {
	case b.Type == "tool_use" && !d.said:
		if len(bytes.TrimSpace(b.Input)) == 0 || b.Input[0] != '{' {
			b.Input = json.RawMessage("{}")
		}
		to.arguments(string(b.Input))
	case b.Type == "thinking" && b.Signature != "" && d.thought.Len() <= maxEventBytes:
		to.signed(thinkingBlock{Type: b.Type, Thinking: d.thought.String(), Signature: b.Signature})
	case b.Type == "redacted_thinking":
		to.signed(thinkingBlock{Type: b.Type, Data: b.Data})
	}
	d.block = anthropicStart{}
}

// anthropicStatuses are those of errors by their type.
var anthropicStatuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized, "billing_error": http.StatusPaymentRequired,
	"permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound, "request_too_large": http.StatusRequestEntityTooLarge,
	"rate_limit_error": http.StatusTooManyRequests, "api_error": http.StatusInternalServerError, "timeout_error": http.StatusGatewayTimeout,
	"overloaded_error": http.StatusServiceUnavailable,
}

// fault is the error; status is what it has where its type is not known.
func (e *anthropicError) fault(status int) *fault {
	if known := anthropicStatuses[e.Type]; known != 0 {
		status = known
	}
	if status == http.StatusBadRequest && strings.Contains(e.Message, "credit balance is too low") {
		status = http.StatusPaymentRequired // the operator's account, whatever the request is
	}
	return &fault{status: status, kind: e.Type, message: e.Message}
}

func (anthropic) said(status int, _ http.Header, body []byte) fault {
	var a anthropicAnswer
	if json.Unmarshal(body, &a) != nil || a.Error == nil {
		if status == statusOverloaded {
			status = http.StatusServiceUnavailable
		}
		return fault{status: status, kind: "upstream_error", message: http.StatusText(status)}
	}
	return *a.Error.fault(status)
}

// statusOverloaded is Anthropic's own.
const statusOverloaded = 529
