// Package answer holds the pieces of an answer, as a generation yields them and each API writes them in its own form.
package answer

import (
	"time"

	"weir/api/openai/toolset"
	"weir/internal/inference"
)

// Delta is a piece of one choice's answer. A generation yields deltas and does not
// depend on the endpoint; an encoder writes them in an endpoint's format. Each
// kind of content has a field of its own, empty where there is none.
//
// A stream's delta holds one of reasoning, content, calls and the end of the
// choice, so that the order of deltas is the order of the answer. An answer that is
// no stream is one delta per choice, which holds all of them; each of its calls is
// one part then.
type Delta struct {
	Choice int  // index in the response
	Prompt int  // index of the prompt that is answered
	First  bool // no delta of the choice came before

	Reasoning []byte     // text of the thought
	Calls     []CallPart // pieces of tool calls, in order

	CallText []byte // holds the arguments of calls

	Content []byte                 // text of the answer
	Tokens  []TokenRecord          // log-probabilities of content's tokens, where asked for
	IDs     []inference.TokenID    // sampled since the delta before, where asked for
	Finish  inference.FinishReason // FinishNone while the choice runs
	Stopped StopReason             // with finish
	Called  bool                   // with finish: the choice stopped cleanly after at least one call

	PromptTokens []TokenRecord // the prompt's log-probabilities, where asked for; in the first delta
	Usage        Usage         // of this choice so far, where asked for
}

// IsEmpty reports whether d has no text, calls or records of tokens.
func (d *Delta) IsEmpty() bool {
	return len(d.Content) == 0 && len(d.Tokens) == 0 && len(d.Reasoning) == 0 && len(d.Calls) == 0
}

// CallPart is a piece of one tool call. Parts of different calls never alternate:
// a part of another index ends the call before it.
type CallPart struct {
	Index     int    // of the call in its choice, from 0 without gaps
	ID, Name  string // of the part that begins the call; "" in those that follow
	Custom    bool   // the tool takes a text instead of arguments
	Arguments []byte // a piece of the JSON text of the arguments, or of that text; the part that begins a call may have one, too
}

// Begins reports whether the part is the first one of its call.
func (p *CallPart) Begins() bool { return p.Name != "" }

// Kind is the type of the call in a chat.
func (p *CallPart) Kind() string {
	if p.Custom {
		return toolset.Custom
	}
	return toolset.Function
}

// StopReason is the request's own stop string or stop token that ended a
// choice, or the tenant's limit that did; the zero value where something else did, as
// the model's end token.
type StopReason struct {
	Text    string
	Token   inference.TokenID
	IsToken bool
	Limit   string // its name in the configuration; the choice ends with FinishLength
}

// TokenRecord is a token with its log-probabilities and its place in the text.
type TokenRecord struct {
	ID      inference.TokenID
	Logprob float32
	Rank    int32 // of a token of the prompt by its likelihood, from 1; 0 is not known
	Top     []inference.TokenLogprob
	Start   Position
	End     int // bytes
}

// Position counts text in bytes and in runes.
type Position struct{ Bytes, Runes int }

// Usage counts tokens.
type Usage struct {
	Prompt    int
	Output    int
	Cached    int  // of prompt, taken from the prefix cache
	Reasoning int  // of output, spent on thoughts
	Thinks    bool // thoughts are told apart in this answer; reasoning is 0 otherwise

	Times Times // of the whole answer; zero in a stream's deltas
}

// Times are moments of a generation, the zero time where one never came.
type Times struct {
	Admitted   time.Time // by the engine: the prompt is computed from here on
	FirstToken time.Time
	LastToken  time.Time
}
