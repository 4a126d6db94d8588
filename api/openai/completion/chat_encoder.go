package completion

import (
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
)

// chatEncoder writes chat.completion objects and their chunks.
type chatEncoder struct {
	envelope
	promptIDs bool // prompt_token_ids are still due
}

// NewChatEncoder writes the answer of a chat.
func NewChatEncoder(j *job.Job) answer.Encoder {
	return &chatEncoder{envelope: newEnvelope(j, "chat.completion.chunk"), promptIDs: j.Params.ReturnTokenIDs && len(j.Prompts) == 1}
}

// AppendDelta appends one chunk for a piece of text or for the end of a choice. A
// thought and a call follow a chunk with the role alone. Each piece of a call has a
// chunk of its own, and so has its beginning: SDKs join the strings of all chunks, so
// a name that came twice would be doubled.
func (e *chatEncoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	if d.First && (len(d.Reasoning) > 0 || len(d.Calls) > 0) {
		dst = e.appendChunk(dst, &answer.Delta{Choice: d.Choice, First: true, Usage: d.Usage}, nil)
	}
	if len(d.Calls) == 0 {
		return e.appendChunk(dst, d, nil)
	}
	part := *d
	for i := range d.Calls {
		p := d.Calls[i]
		if p.Begins() && len(p.Arguments) > 0 {
			dst = e.appendChunk(dst, &part, &answer.CallPart{Index: p.Index, ID: p.ID, Name: p.Name, Custom: p.Custom})
			part.IDs, p.Name = nil, ""
		}
		dst = e.appendChunk(dst, &part, &p)
		part.IDs = nil // they are told once
	}
	return dst
}

// appendChunk appends one chunk of a delta: with call that piece of a call, without
// one what else the delta holds.
func (e *chatEncoder) appendChunk(dst []byte, d *answer.Delta, call *answer.CallPart) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Choice), 10)
	dst = append(dst, `,"delta":{`...)
	switch {
	case call != nil:
		dst = e.appendCallPart(dst, call)
	case len(d.Reasoning) > 0:
		dst = e.appendReasoning(dst, d.Reasoning)
	default:
		if d.First {
			dst = append(dst, `"role":"assistant",`...)
		}
		if d.First || len(d.Content) > 0 {
			dst = append(dst, `"content":`...)
			dst = api.AppendString(dst, d.Content)
		}
	}
	dst = append(dst, '}')
	dst = e.appendLogprobs(dst, d)
	dst = e.appendReason(dst, d)
	return e.closeChunk(dst, d)
}

// appendReasoning appends the text of a thought under the names that the server's
// operator chose.
func (e *chatEncoder) appendReasoning(dst, thought []byte) []byte {
	for i, name := range e.job.Params.Reasoning.Names() {
		dst = append(api.AppendString(api.AppendComma(dst, i), name), ':')
		dst = api.AppendString(dst, thought)
	}
	return dst
}

// appendCallPart appends a delta's tool_calls, or its function_call to a request of the
// older shape.
func (e *chatEncoder) appendCallPart(dst []byte, p *answer.CallPart) []byte {
	if e.job.Tools().Legacy {
		return p.AppendCalled(append(dst, `"function_call":`...))
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(p.Index), 10)
	if p.Begins() {
		dst = api.AppendString(append(dst, `,"id":`...), p.ID)
		dst = append(append(append(dst, `,"type":"`...), p.Kind()...), '"')
	}
	dst = append(append(append(dst, `,"`...), p.Kind()...), `":`...)
	return append(p.AppendCalled(dst), "}]"...)
}

// AppendPulse implements answer.Encoder.
func (e *chatEncoder) AppendPulse(dst []byte) []byte {
	return e.closeChunk(append(dst, e.head...), nil)
}

// closeChunk ends a chunk behind its choices, which d is unless it is nil.
func (e *chatEncoder) closeChunk(dst []byte, d *answer.Delta) []byte {
	dst = e.appendTail(dst, d)
	dst = e.appendPromptIDs(dst)
	return append(dst, "}\n\n"...)
}

// AppendWhole implements answer.Encoder.
func (e *chatEncoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	dst = e.appendHead(dst, "chat.completion")
	for i := range choices {
		dst = e.appendMessage(api.AppendComma(dst, i), &choices[i])
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, u)
	dst = e.appendPromptLogprobs(dst, &choices[0])
	dst = e.appendPromptIDs(dst)
	return append(dst, '}')
}

func (e *chatEncoder) appendMessage(dst []byte, d *answer.Delta) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(d.Choice), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(d.Content) == 0 && len(d.Calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = api.AppendString(dst, d.Content)
	}
	if len(d.Reasoning) > 0 {
		dst = e.appendReasoning(append(dst, ','), d.Reasoning)
	}
	dst = e.appendCalls(dst, d.Calls)
	dst = append(dst, `,"refusal":null}`...)
	dst = e.appendLogprobs(dst, d)
	return e.appendReason(dst, d)
}

// appendCalls appends the tool_calls of a whole answer, where there are any.
func (e *chatEncoder) appendCalls(dst []byte, calls []answer.CallPart) []byte {
	switch {
	case len(calls) == 0:
		return dst
	case e.job.Tools().Legacy:
		return calls[0].AppendCalled(append(dst, `,"function_call":`...))
	}
	dst = append(dst, `,"tool_calls":[`...)
	for i := range calls {
		dst = api.AppendString(append(api.AppendComma(dst, i), `{"id":`...), calls[i].ID)
		kind := calls[i].Kind()
		dst = append(append(append(dst, `,"type":"`...), kind...), `","`...)
		dst = append(append(dst, kind...), `":`...)
		dst = append(calls[i].AppendCalled(dst), '}')
	}
	return append(dst, ']')
}

// appendPromptIDs appends the ids of the prompt to the object that comes
// first, where asked for.
func (e *chatEncoder) appendPromptIDs(dst []byte) []byte {
	if !e.promptIDs {
		return e.appendNull(dst, `,"prompt_token_ids":null`)
	}
	e.promptIDs = false
	dst = append(dst, `,"prompt_token_ids":`...)
	return appendTokens(dst, e.job.Prompts[0].IDs)
}

// appendLogprobs appends {"content":[…],"refusal":null}.
func (e *chatEncoder) appendLogprobs(dst []byte, d *answer.Delta) []byte {
	dst = append(dst, `,"logprobs":`...)
	if !e.logprobs(d) {
		return append(dst, "null"...)
	}
	dst = e.names.AppendRecords(append(dst, `{"content":[`...), d.Tokens)
	return append(dst, `],"refusal":null}`...)
}
