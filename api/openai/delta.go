package openai

import (
	"weir/api/openai/toolset"
	"weir/internal/inference"
)

// delta is a piece of one choice's answer. A generation yields deltas and does not
// depend on the endpoint; an encoder writes them in an endpoint's format. Each
// kind of content has a field of its own, empty where there is none.
//
// A stream's delta holds one of reasoning, content, calls and the end of the
// choice, so that the order of deltas is the order of the answer. An answer that is
// no stream is one delta per choice, which holds all of them; each of its calls is
// one part then.
type delta struct {
	choice int  // index in the response
	prompt int  // index of the prompt that is answered
	first  bool // no delta of the choice came before

	reasoning []byte     // text of the thought
	calls     []callPart // pieces of tool calls, in order

	callText []byte // holds the arguments of calls

	content []byte                 // text of the answer
	tokens  []tokenRecord          // log-probabilities of content's tokens, where asked for
	ids     []inference.TokenID    // sampled since the delta before, where asked for
	finish  inference.FinishReason // FinishNone while the choice runs
	stopped stopReason             // with finish
	called  bool                   // with finish: the choice stopped cleanly after at least one call

	promptTokens []tokenRecord // the prompt's log-probabilities, where asked for; in the first delta
	usage        usage         // of this choice so far, where asked for
}

// isEmpty reports whether d has no text, calls or records of tokens.
func (d *delta) isEmpty() bool {
	return len(d.content) == 0 && len(d.tokens) == 0 && len(d.reasoning) == 0 && len(d.calls) == 0
}

// callPart is a piece of one tool call. Parts of different calls never alternate:
// a part of another index ends the call before it.
type callPart struct {
	index     int    // of the call in its choice, from 0 without gaps
	id, name  string // of the part that begins the call; "" in those that follow
	custom    bool   // the tool takes a text instead of arguments
	arguments []byte // a piece of the JSON text of the arguments, or of that text; the part that begins a call may have one, too
}

// begins reports whether the part is the first one of its call.
func (p *callPart) begins() bool { return p.name != "" }

// kind is the type of the call in a chat.
func (p *callPart) kind() string {
	if p.custom {
		return toolset.Custom
	}
	return toolset.Function
}

// stopReason is the request's own stop string or stop token that ended a
// choice, or the tenant's limit that did; the zero value where something else did, as
// the model's end token.
type stopReason struct {
	text    string
	token   inference.TokenID
	isToken bool
	limit   string // its name in the configuration; the choice ends with FinishLength
}

// tokenRecord is a token with its log-probabilities and its place in the text.
type tokenRecord struct {
	id      inference.TokenID
	logprob float32
	top     []inference.TokenLogprob
	start   position
	end     int // bytes
}

// position counts text in bytes and in runes.
type position struct{ bytes, runes int }

// usage counts tokens.
type usage struct {
	prompt    int
	output    int
	cached    int  // of prompt, taken from the prefix cache
	reasoning int  // of output, spent on thoughts
	thinks    bool // thoughts are told apart in this answer; reasoning is 0 otherwise
}
