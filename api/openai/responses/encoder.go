// Package responses is OpenAI's API of responses: requests translated into chats, and their answers written as items and typed events.
//
//	w, fault := responses.Translate(o)
//	w.Finish(o.Object)
//	j, fault := readChat(w.Chat) // as any other
package responses

import (
	"strconv"
	"strings"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/logprob"
	"weir/internal/inference"
)

// Prefix begins the ids of responses.
const Prefix = "resp_"

// Encoder writes the response objects of POST /v1/responses, whole or as typed
// events. Both are made of the same items: an answer that is no stream is a stream whose
// events that no client reads.
//
// The answer's thought, text and calls become items in the order in which they come. One
// item is open at a time; it is closed by the first delta of another kind, of another call,
// or by the choice's end. The last object of a stream lists the items as they were closed.
type Encoder struct {
	job      *job.Job
	request  *Request
	names    logprob.Names
	ids      string // of all items, behind the prefix of their kind
	sequence int64  // of the next event
	queued   bool   // the events of a response in the background are written
	begun    bool   // the first events are written

	output []byte // JSON of the closed items
	items  int    // that were begun
	open   answer.ItemKind
	text   []byte // of the open item: thought, text, arguments
	scores []byte // of the open text: JSON of its tokens' log-probabilities
	call   answer.CallPart
	cut    bool   // the answer reached its limit of tokens, or its model's policy ended it
	why    string // of cut
	limit  string // of the tenant, that ended the answer
}

// itemPrefixes begin the ids of items, by kind.
var itemPrefixes = [...]string{answer.ThoughtItem: "rs_", answer.MessageItem: "msg_", answer.CallItem: "fc_", answer.InputItem: "ctc_"}

// NewEncoder writes the answer of a response.
func NewEncoder(j *job.Job) answer.Encoder {
	return &Encoder{job: j, request: RequestOf(j), ids: strings.TrimPrefix(j.ID, Prefix),
		names: logprob.Names{Tokenizer: j.Model.Tokenizer, AsIDs: j.Params.TokensAsIDs}}
}

// appendEvent begins an event: its name twice, as SDKs read either, and its number.
func (e *Encoder) appendEvent(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, e.sequence, 10)
	e.sequence++
	return dst
}

func (e *Encoder) appendBegin(dst []byte) []byte {
	if e.begun {
		return dst
	}
	e.begun = true
	for _, name := range []string{"response.created", "response.in_progress"} {
		if name == "response.created" && e.queued {
			continue
		}
		dst = e.appendResponse(e.appendEvent(dst, name), State{status: "in_progress"})
	}
	return dst
}

// AppendQueued appends the first events of a response in the background, before anything of
// it is computed.
func (e *Encoder) AppendQueued(dst []byte) []byte {
	e.queued = true
	for _, name := range []string{"response.created", "response.queued"} {
		dst = e.appendResponse(e.appendEvent(dst, name), State{status: "queued"})
	}
	return dst
}

func (e *Encoder) appendResponse(dst []byte, state State) []byte {
	dst = append(dst, `,"response":`...)
	return append(e.appendObject(dst, state), answer.EventEnd...)
}

// AppendDelta implements answer.Encoder.
func (e *Encoder) AppendDelta(dst []byte, d *answer.Delta) []byte {
	dst = e.appendBegin(dst)
	if len(d.Reasoning) > 0 {
		dst = e.appendPiece(e.openItem(dst, answer.ThoughtItem), d.Reasoning, nil)
	}
	if len(d.Content) > 0 || len(d.Tokens) > 0 {
		dst = e.appendPiece(e.openItem(dst, answer.MessageItem), d.Content, d.Tokens)
	}
	for i := range d.Calls {
		p := &d.Calls[i]
		if p.Begins() {
			dst = e.closeItem(dst)
			e.call = *p
		}
		kind := answer.CallItem
		if p.Custom {
			kind = answer.InputItem
		}
		dst = e.openItem(dst, kind)
		if len(p.Arguments) > 0 {
			dst = e.appendPiece(dst, p.Arguments, nil)
		}
	}
	if d.Finish != inference.FinishNone {
		dst = e.finish(dst, d)
	}
	return dst
}

// finish closes what is open. An answer without anything has an empty message: clients
// look for one.
func (e *Encoder) finish(dst []byte, d *answer.Delta) []byte {
	switch d.Finish {
	case inference.FinishLength:
		e.cut, e.why, e.limit = true, "max_output_tokens", d.Stopped.Limit
	case inference.FinishFiltered:
		e.cut, e.why = true, d.Finish.String()
	case inference.FinishNone, inference.FinishStop, inference.FinishCancelled, inference.FinishError:
	}
	if e.items == 0 && !e.cut {
		dst = e.openItem(dst, answer.MessageItem)
	}
	return e.closeItem(dst)
}

// AppendPulse implements answer.Encoder. There is no event without content: a stream that has
// begun sends a comment.
func (e *Encoder) AppendPulse(dst []byte) []byte {
	if e.begun {
		return append(dst, answer.Heartbeat...)
	}
	return e.appendBegin(dst)
}

// AppendEnd implements answer.Encoder.
func (e *Encoder) AppendEnd(dst []byte, u answer.Usage) []byte {
	state := e.ended(u)
	dst = e.appendEvent(e.appendBegin(dst), "response."+state.status)
	return e.appendLastEvent(dst, state)
}

func (e *Encoder) appendLastEvent(dst []byte, state State) []byte {
	return append(e.appendLast(append(dst, `,"response":`...), state), answer.EventEnd...)
}

// AppendFault implements answer.Encoder. What an item had so far stays in the object.
func (e *Encoder) AppendFault(dst []byte, fault *api.Error) []byte {
	e.cut = true
	dst = e.closeItem(e.appendBegin(dst))
	state := State{status: "failed", fault: fault}
	if fault.Code == edge.CodeCancelled {
		state = State{status: conversation.Cancelled}
	}
	return e.appendLastEvent(e.appendEvent(dst, "response."+state.status), state)
}

// AppendWhole implements answer.Encoder.
func (e *Encoder) AppendWhole(dst []byte, choices []answer.Delta, u answer.Usage) []byte {
	e.begun = true
	_ = e.AppendDelta(nil, &choices[0]) // its items are what is wanted, not its events
	return e.appendLast(dst, e.ended(u))
}

func (e *Encoder) ended(u answer.Usage) State {
	if e.cut {
		return State{status: "incomplete", reason: e.why, limit: e.limit, usage: &u}
	}
	return State{status: "completed", usage: &u}
}
