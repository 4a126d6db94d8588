package provider

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// bedrockUsage counts tokens; input leaves out what came from a cache, or went there.
type bedrockUsage struct {
	Input   int64 `json:"inputTokens"`
	Output  int64 `json:"outputTokens"`
	Read    int64 `json:"cacheReadInputTokens"`
	Written int64 `json:"cacheWriteInputTokens"`
}

func (u *bedrockUsage) usage() usage {
	return usage{prompt: u.Input + u.Read + u.Written, cached: u.Read, output: u.Output}
}

// bedrockReason is why an answer ended, in the words of chats; "" is one that is of no use.
func bedrockReason(word string) string {
	switch word {
	case "guardrail_intervened", "content_filtered":
		return finishFiltered
	}
	return anthropicReason(word) // the others are Anthropic's words
}

// bedrockAnswer is a whole answer.
type bedrockAnswer struct {
	Output struct {
		Message struct{ Content []bedrockBlock }
	}
	Reason string `json:"stopReason"`
	Usage  bedrockUsage
	Fields struct {
		Delta struct {
			Sequence *string `json:"stop_sequence"`
		}
		Sequence *string `json:"stop_sequence"`
	} `json:"additionalModelResponseFields"`
}

func (bedrock) whole(answer []byte, to sink) error {
	var a bedrockAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return unreadable("%w: %.200q", err, answer)
	}
	for i := range a.Output.Message.Content {
		b := &a.Output.Message.Content[i]
		switch {
		case b.Call != nil:
			to.call(b.Call.ID, b.Call.Name, "")
			arguments := string(b.Call.Input)
			if isNull(b.Call.Input) {
				arguments = "{}"
			}
			to.arguments(arguments)
		case b.Thought != nil && b.Thought.Text != nil:
			to.thought(b.Thought.Text.Text)
			if b.Thought.Text.Signature != "" {
				to.signed(thinkingBlock{Type: "thinking", Thinking: b.Thought.Text.Text, Signature: b.Thought.Text.Signature})
			}
		case b.Thought != nil:
			to.signed(thinkingBlock{Type: "redacted_thinking", Data: b.Thought.Redacted})
		default:
			to.text(b.Text)
		}
	}
	reason := bedrockReason(a.Reason)
	if reason == "" {
		if a.Reason == "" {
			return unreadable("the answer has no stopReason: %.200q", answer)
		}
		return unusable(a.Reason, "")
	}
	to.finish(reason, deref(a.Fields.Delta.Sequence)+deref(a.Fields.Sequence))
	to.used(a.Usage.usage())
	return nil
}

func (bedrock) frames(from io.Reader) frames {
	return &amazonFrames{from: from, decoder: eventstream.NewDecoder()}
}
func (bedrock) decoder() decoder { return &bedrockDecoder{} }

// amazonFrames are messages of Amazon's event streams, with checksums.
type amazonFrames struct {
	from    io.Reader
	decoder *eventstream.Decoder
	payload []byte
}

// exception marks the name of a message that tells of an error.
const exception = "exception:"

func (f *amazonFrames) next() (name string, data []byte, err error) {
	counted := &countingReader{from: f.from, left: maxEventBytes}
	m, err := f.decoder.Decode(counted, f.payload[:0])
	if err != nil {
		_, damaged := errors.AsType[eventstream.ChecksumError](err)
		_, long := errors.AsType[eventstream.LengthError](err)
		switch {
		case counted.left == maxEventBytes && errors.Is(err, io.EOF):
			return "", nil, io.EOF
		case counted.failed != nil && !errors.Is(counted.failed, io.EOF):
			return "", nil, counted.failed
		case !damaged && !long && counted.failed != nil:
			return "", nil, io.ErrUnexpectedEOF // within a message
		}
		return "", nil, unreadable("a message of the event stream: %w", err)
	}
	f.payload = m.Payload
	kind := headerOf(&m, ":message-type")
	switch kind {
	case "exception":
		return exception + headerOf(&m, ":exception-type"), m.Payload, nil
	case "error":
		body, err := json.Marshal(map[string]string{"message": headerOf(&m, ":error-message")})
		return exception + headerOf(&m, ":error-code"), body, err
	}
	return headerOf(&m, ":event-type"), m.Payload, nil
}

func headerOf(m *eventstream.Message, name string) string {
	if v := m.Headers.Get(name); v != nil {
		return v.String()
	}
	return ""
}

// countingReader bounds what is read of a message, and keeps the error of the connection.
type countingReader struct {
	from   io.Reader
	left   int
	failed error
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.failed = unreadable("a message of the event stream is above %d bytes", maxEventBytes)
		return 0, c.failed
	}
	n, err := c.from.Read(p[:min(len(p), c.left)])
	if c.left -= n; err != nil {
		c.failed = err
	}
	return n, err
}

// bedrockDecoder reads the events of an answer.
type bedrockDecoder struct {
	called  bool // the open block is a call
	said    bool // it has arguments
	thought bedrockOpen
}

// bedrockOpen is the thought of the open block.
type bedrockOpen struct {
	text                []byte
	signature, redacted string
}

type bedrockEvent struct {
	Start struct {
		Call *bedrockCall `json:"toolUse"`
	}
	Delta struct {
		Text    string
		Call    *struct{ Input string } `json:"toolUse"`
		Thought *struct {
			Text, Signature string
			Redacted        string `json:"redactedContent"`
		} `json:"reasoningContent"`
	}
	Reason string `json:"stopReason"`
	Fields struct {
		Delta struct {
			Sequence *string `json:"stop_sequence"`
		}
	} `json:"additionalModelResponseFields"`
	Usage *bedrockUsage
}

func (d *bedrockDecoder) read(name string, data []byte, to *chunks) (over bool, err error) {
	if len(name) > len(exception) && name[:len(exception)] == exception {
		return true, bedrockFault(name[len(exception):], http.StatusInternalServerError, data)
	}
	var e bedrockEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, unreadable("an event is no JSON: %w: %.200q", err, data)
	}
	switch name {
	case "contentBlockStart":
		if e.Start.Call != nil {
			d.called, d.said = true, false
			to.call(e.Start.Call.ID, e.Start.Call.Name, "")
		}
	case "contentBlockDelta":
		d.delta(&e, to)
	case "contentBlockStop":
		d.end(to)
	case "messageStop":
		reason := bedrockReason(e.Reason)
		if reason == "" {
			return true, unusable(e.Reason, "")
		}
		to.finish(reason, deref(e.Fields.Delta.Sequence))
	case "metadata":
		if e.Usage != nil {
			to.used(e.Usage.usage())
		}
		return to.over, nil
	}
	return false, nil // there are further events, which say nothing to a chat
}

func (d *bedrockDecoder) delta(e *bedrockEvent, to *chunks) {
	to.text(e.Delta.Text)
	if e.Delta.Call != nil && d.called {
		d.said = d.said || e.Delta.Call.Input != ""
		to.arguments(e.Delta.Call.Input)
	}
	if t := e.Delta.Thought; t != nil {
		to.thought(t.Text)
		if len(d.thought.text) <= maxEventBytes {
			d.thought.text = append(d.thought.text, t.Text...)
			d.thought.signature += t.Signature
			d.thought.redacted += t.Redacted
		}
	}
}

func (d *bedrockDecoder) end(to *chunks) {
	switch t := &d.thought; {
	case d.called && !d.said:
		to.arguments("{}")
	case t.redacted != "":
		to.signed(thinkingBlock{Type: "redacted_thinking", Data: t.redacted})
	case t.signature != "" && len(t.text) <= maxEventBytes:
		to.signed(thinkingBlock{Type: "thinking", Thinking: string(t.text), Signature: t.signature})
	}
	d.called, d.thought = false, bedrockOpen{}
}
