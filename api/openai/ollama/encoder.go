package ollama

import (
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/logprob"
	"weir/internal/inference"
)

// encoder writes the objects of /api/chat and /api/generate, whole or as a line each. A call is one piece, which is written once all of its
// arguments are there.
type encoder struct {
	job     *job.Job
	request *Request
	names   logprob.Names
	head    []byte // of each object, up to and with created_at's name

	call      *answer.CallPart // not ended yet; nil: none
	arguments []byte           // of call so far
	ids       []inference.TokenID
	last      answer.Delta // with the end of the answer
}

// NewEncoder writes the answer to a request.
func NewEncoder(j *job.Job) answer.Encoder {
	e := &encoder{job: j, request: RequestOf(j), names: logprob.Names{Tokenizer: j.Model.Tokenizer}}
	e.head = append(api.AppendString([]byte(`{"model":`), e.request.model), `,"created_at":`...)
	return e
}

// AppendDelta implements answer.Encoder.
func (e *encoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	e.ids = append(e.ids, d.IDs...)
	for i := range d.Calls {
		p := &d.Calls[i]
		if p.Begins() {
			dst = e.endCall(dst)
			own := *p
			own.Arguments, e.call = nil, &own
		}
		e.arguments = append(e.arguments, p.Arguments...)
	}
	if len(d.Calls) > 0 {
		return dst
	}
	dst = e.endCall(dst)
	if d.Finish != inference.FinishNone {
		e.last = answer.Delta{Finish: d.Finish, Stopped: d.Stopped}
	}
	if d.IsEmpty() {
		return dst
	}
	return e.appendPiece(dst, d)
}

// endCall writes the call that has ended, if there is one.
func (e *encoder) endCall(dst []byte) []byte {
	if e.call == nil {
		return dst
	}
	e.call.Arguments = e.arguments
	dst = e.appendPiece(dst, &answer.Delta{Calls: []answer.CallPart{*e.call}})
	e.call, e.arguments = nil, e.arguments[:0]
	return dst
}

// appendPiece appends the line of a piece of the answer.
func (e *encoder) appendPiece(dst []byte, d *answer.Delta) []byte {
	dst = append(e.appendSaid(dst, d), `,"done":false`...)
	return append(e.appendLogprobs(dst, d), "}\n"...)
}

// appendSaid appends an object up to what the model said.
func (e *encoder) appendSaid(dst []byte, d *answer.Delta) []byte {
	dst = append(append(append(dst, e.head...), '"'), time.Now().UTC().Format(time.RFC3339Nano)...)
	if e.request.generates {
		dst = api.AppendString(append(dst, `","response":`...), d.Content)
		if len(d.Reasoning) > 0 {
			dst = api.AppendString(append(dst, `,"thinking":`...), d.Reasoning)
		}
		return dst
	}
	dst = api.AppendString(append(dst, `","message":{"role":"assistant","content":`...), d.Content)
	if len(d.Reasoning) > 0 {
		dst = api.AppendString(append(dst, `,"thinking":`...), d.Reasoning)
	}
	if len(d.Calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range d.Calls {
			dst = appendCall(api.AppendComma(dst, i), &d.Calls[i])
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendCall(dst []byte, p *answer.CallPart) []byte {
	dst = api.AppendString(append(dst, `{"id":`...), p.ID)
	dst = strconv.AppendInt(append(dst, `,"function":{"index":`...), int64(p.Index), 10)
	dst = api.AppendString(append(dst, `,"name":`...), p.Name)
	return append(p.AppendObject(append(dst, `,"arguments":`...)), "}}"...)
}

func (e *encoder) appendLogprobs(dst []byte, d *answer.Delta) []byte {
	if !e.job.Params.Logprobs || len(d.Tokens) == 0 {
		return dst
	}
	return append(e.names.AppendRecords(append(dst, `,"logprobs":[`...), d.Tokens), ']')
}

// AppendPulse implements answer.Encoder.
func (e *encoder) AppendPulse(dst []byte) []byte { return e.appendPiece(dst, &answer.Delta{}) }

// AppendEnd implements answer.Encoder.
func (e *encoder) AppendEnd(dst []byte, u answer.Usage) []byte {
	return append(e.appendLast(e.endCall(dst), &e.last, u), '\n')
}

// AppendWhole implements answer.Encoder.
func (e *encoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	e.ids = choices[0].IDs
	return e.appendLast(dst, &choices[0], u)
}

// appendLast appends the object that ends an answer.
func (e *encoder) appendLast(dst []byte, d *answer.Delta, u answer.Usage) []byte {
	dst = append(e.appendSaid(dst, d), `,"done":true,"done_reason":"`...)
	dst = append(append(dst, doneReason(d.Finish)...), '"')
	if e.request.tells {
		dst = append(dst, `,"context":[`...)
		for i, id := range e.job.Prompts[0].IDs {
			dst = strconv.AppendInt(api.AppendComma(dst, i), int64(id), 10)
		}
		for _, id := range e.ids {
			dst = strconv.AppendInt(append(dst, ','), int64(id), 10)
		}
		dst = append(dst, ']')
	}
	return append(e.appendLogprobs(e.appendTimes(dst, u), d), '}')
}

// doneReason is Ollama's word for an answer's end; it has none for what a policy cut off.
func doneReason(f inference.FinishReason) string {
	switch f {
	case inference.FinishLength:
		return "length"
	case inference.FinishFiltered:
		return "content_filter"
	default:
		return "stop"
	}
}

// appendTimes appends durations in nanoseconds, and the counts of tokens. A duration is at least 1, since clients divide by it.
func (e *encoder) appendTimes(dst []byte, u answer.Usage) []byte {
	j, t := e.job, &u.Times
	now, read, first, last := time.Now(), t.Admitted, t.FirstToken, t.LastToken
	if read.IsZero() {
		read = j.Arrived // other servers compute the answer
	}
	if first.IsZero() {
		first, last = read, now
	}
	for _, f := range []struct {
		name     string
		from, to time.Time
	}{
		{"total_duration", j.Arrived, now}, {"load_duration", j.Arrived, j.Parsed},
		{"prompt_eval_duration", read, first}, {"eval_duration", first, last},
	} {
		d := time.Duration(1)
		if !f.from.IsZero() && f.to.After(f.from) {
			d = f.to.Sub(f.from)
		}
		dst = strconv.AppendInt(append(append(append(dst, `,"`...), f.name...), `":`...), int64(d), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"prompt_eval_count":`...), int64(u.Prompt), 10)
	return strconv.AppendInt(append(dst, `,"eval_count":`...), int64(u.Output), 10)
}

// AppendFault implements answer.Encoder.
func (e *encoder) AppendFault(dst []byte, fault *api.Error) []byte {
	return append(AppendFault(dst, fault, e.request.model), '\n')
}

// AppendIdle appends the answer to a request that asks for none: its model was loaded, or is unloaded.
func AppendIdle(dst []byte, model string, generates, unloads bool) []byte {
	e := &encoder{request: &Request{generates: generates}, head: append(api.AppendString([]byte(`{"model":`), model), `,"created_at":`...)}
	reason := "load"
	if unloads {
		reason = "unload"
	}
	dst = append(e.appendSaid(dst, &answer.Delta{}), `,"done":true,"done_reason":"`...)
	return append(append(dst, reason...), `"}`...)
}
