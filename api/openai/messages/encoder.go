// Package messages is Anthropic's API of messages: requests translated into chats, and their answers and faults written.
//
//	w, fault := messages.Translate(o)
//	w.Finish(o.Object)
//	j, fault := readChat(w.Chat) // as any other
package messages

import (
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/internal/inference"
)

// messageEncoder writes the objects of POST /v1/messages, whole or as events. Thought,
// text and calls are blocks in the order in which they come; a block holds one kind, and one
// is open at a time.
type messageEncoder struct {
	job    *job.Job
	begun  bool // the first event is written
	open   answer.ItemKind
	blocks int // that were begun
	last   answer.Delta
}

// NewEncoder writes the answer of a message.
func NewEncoder(j *job.Job) answer.Encoder { return &messageEncoder{job: j} }

func appendMessageEvent(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return append(dst, '"')
}

// appendHead appends the fields of a message up to and with content's bracket.
func (e *messageEncoder) appendHead(dst []byte) []byte {
	dst = append(append(append(dst, `{"id":"`...), e.job.ID...), `","type":"message","role":"assistant","model":`...)
	return append(api.AppendString(dst, e.job.Model.ID), `,"content":[`...)
}

func (e *messageEncoder) appendBegin(dst []byte, u answer.Usage) []byte {
	if e.begun {
		return dst
	}
	e.begun = true
	dst = e.appendHead(append(appendMessageEvent(dst, "message_start"), `,"message":`...))
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null,"usage":`...)
	return append(AppendUsage(dst, u), "}"+answer.EventEnd...)
}

// AppendDelta implements answer.Encoder.
func (e *messageEncoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	dst = e.appendBegin(dst, d.Usage)
	if len(d.Reasoning) > 0 {
		dst = e.appendPiece(e.openBlock(dst, answer.ThoughtItem, nil), `thinking_delta","thinking":`, d.Reasoning)
	}
	if len(d.Content) > 0 {
		dst = e.appendPiece(e.openBlock(dst, answer.MessageItem, nil), `text_delta","text":`, d.Content)
	}
	for i := range d.Calls {
		p := &d.Calls[i]
		if p.Begins() {
			dst = e.openBlock(e.closeBlock(dst), answer.CallItem, p)
		}
		if len(p.Arguments) > 0 {
			dst = e.appendPiece(dst, `input_json_delta","partial_json":`, p.Arguments)
		}
	}
	if d.Finish != inference.FinishNone {
		dst = e.closeBlock(dst)
		e.last = answer.Delta{Finish: d.Finish, Stopped: d.Stopped, Called: d.Called}
	}
	return dst
}

// openBlock begins a block of a kind unless it is open already. call is a call's first part.
func (e *messageEncoder) openBlock(dst []byte, kind answer.ItemKind, call *answer.CallPart) []byte {
	if e.open == kind {
		return dst
	}
	dst = e.closeBlock(dst)
	e.open = kind
	e.blocks++
	dst = append(e.appendIndex(appendMessageEvent(dst, "content_block_start")), `,"content_block":`...)
	switch kind {
	case answer.ThoughtItem:
		dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case answer.CallItem, answer.InputItem: // Messages have no custom tools, and no items of theirs
		dst = append(appendToolUse(dst, call), `{}}`...)
	case answer.MessageItem, answer.NoItem:
		dst = append(dst, `{"type":"text","text":""}`...)
	}
	return append(dst, answer.EventEnd...)
}

func appendToolUse(dst []byte, p *answer.CallPart) []byte {
	dst = api.AppendString(append(dst, `{"type":"tool_use","id":`...), p.ID)
	dst = api.AppendString(append(dst, `,"name":`...), p.Name)
	return append(dst, `,"input":`...)
}

// closeBlock ends the open block, if there is one. A thought ends with a signature: clients
// send no thought back that has none. It vouches for nothing, and is not checked.
func (e *messageEncoder) closeBlock(dst []byte) []byte {
	if e.open == answer.NoItem {
		return dst
	}
	if e.open == answer.ThoughtItem {
		dst = e.appendPiece(dst, `signature_delta","signature":`, []byte(e.job.ID))
	}
	e.open = answer.NoItem
	return append(e.appendIndex(appendMessageEvent(dst, "content_block_stop")), answer.EventEnd...)
}

func (e *messageEncoder) appendIndex(dst []byte) []byte {
	dst = append(dst, `,"index":`...)
	return strconv.AppendInt(dst, int64(e.blocks-1), 10)
}

// appendPiece appends the event of a piece of the open block; kind is the delta's type up
// to the value.
func (e *messageEncoder) appendPiece(dst []byte, kind string, piece []byte) []byte {
	dst = append(e.appendIndex(appendMessageEvent(dst, "content_block_delta")), `,"delta":{"type":"`...)
	return append(api.AppendString(append(dst, kind...), piece), "}"+answer.EventEnd...)
}

// AppendPulse implements answer.Encoder.
func (e *messageEncoder) AppendPulse(dst []byte) []byte {
	return append(appendMessageEvent(dst, "ping"), answer.EventEnd...)
}

// AppendEnd implements answer.Encoder.
func (e *messageEncoder) AppendEnd(dst []byte, u answer.Usage) []byte {
	dst = append(appendMessageEvent(e.appendBegin(dst, u), "message_delta"), `,"delta":{`...)
	dst = append(e.appendStop(dst, &e.last), `},"usage":`...)
	dst = append(AppendUsage(dst, u), answer.EventEnd...)
	return append(appendMessageEvent(dst, "message_stop"), answer.EventEnd...)
}

// AppendFault implements answer.Encoder.
func (e *messageEncoder) AppendFault(dst []byte, fault *api.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	return append(AppendFault(dst, fault, ""), "\n\n"...)
}

// AppendWhole implements answer.Encoder.
func (e *messageEncoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	d := &choices[0]
	dst = e.appendHead(dst)
	blocks := 0
	if len(d.Reasoning) > 0 {
		blocks++
		dst = api.AppendString(append(dst, `{"type":"thinking","thinking":`...), d.Reasoning)
		dst = append(api.AppendString(append(dst, `,"signature":`...), e.job.ID), '}')
	}
	if len(d.Content) > 0 {
		dst = api.AppendString(append(api.AppendComma(dst, blocks), `{"type":"text","text":`...), d.Content)
		dst = append(dst, '}')
		blocks++
	}
	for i := range d.Calls {
		dst = appendToolUse(api.AppendComma(dst, blocks), &d.Calls[i])
		dst = append(d.Calls[i].AppendObject(dst), '}')
		blocks++
	}
	dst = e.appendStop(append(dst, `],`...), d)
	dst = append(dst, `,"usage":`...)
	return append(AppendUsage(dst, u), '}')
}

// appendStop appends stop_reason and stop_sequence, and the tenant's limit that ended the
// answer, where one did.
func (e *messageEncoder) appendStop(dst []byte, d *answer.Delta) []byte {
	reason := "end_turn"
	switch {
	case d.Finish == inference.FinishFiltered:
		reason = "refusal"
	case d.Called:
		reason = "tool_use"
	case d.Stopped.Limit != "":
		dst = append(dst, `"stop_reason":"max_tokens","stop_sequence":null,"limit":`...)
		return api.AppendString(dst, d.Stopped.Limit)
	case d.Finish == inference.FinishLength && e.fillsContext():
		reason = "model_context_window_exceeded"
	case d.Finish == inference.FinishLength:
		reason = "max_tokens"
	case d.Stopped.Text != "":
		dst = append(dst, `"stop_reason":"stop_sequence","stop_sequence":`...)
		return api.AppendString(dst, d.Stopped.Text)
	}
	return append(append(append(dst, `"stop_reason":"`...), reason...), `","stop_sequence":null`...)
}

// fillsContext reports whether the context ended the answer, rather than max_tokens.
func (e *messageEncoder) fillsContext() bool {
	j := e.job
	return j.MaxTokens < j.Params.MaxTokens && len(j.Prompts[0].IDs)+j.MaxTokens == j.Model.MaxModelLen
}

// AppendUsage appends usage. What came from the prefix cache does not count among
// input_tokens.
func AppendUsage(dst []byte, u answer.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt-u.Cached), 10)
	dst = append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	dst = append(dst, `,"output_tokens":`...)
	return append(strconv.AppendInt(dst, int64(u.Output), 10), '}')
}
