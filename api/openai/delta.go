package openai

import "weir/internal/inference"

// delta is a piece of one choice's answer. A generation yields deltas and does not
// depend on the endpoint; an encoder writes them in an endpoint's format. Each
// kind of content has a field of its own, empty where there is none, so that
// reasoning, tool calls and refusals can become further fields.
//
// A stream's delta holds either content or the end of the choice. An answer that
// is no stream is one delta per choice, which holds both.
type delta struct {
	choice int  // index in the response
	prompt int  // index of the prompt that is answered
	first  bool // no delta of the choice came before

	content []byte                 // text of the answer
	tokens  []tokenRecord          // log-probabilities of content's tokens, where asked for
	ids     []inference.TokenID    // sampled since the delta before, where asked for
	finish  inference.FinishReason // FinishNone while the choice runs
	stopped stopReason             // with finish

	promptTokens []tokenRecord // the prompt's log-probabilities, where asked for; in the first delta
	usage        usage         // of this choice so far, where asked for
}

// stopReason is the request's own stop string or stop token that ended a
// choice; the zero value where something else did, as the model's end token.
type stopReason struct {
	text    string
	token   inference.TokenID
	isToken bool
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
	prompt int
	output int
	cached int // of prompt, taken from the prefix cache
}
