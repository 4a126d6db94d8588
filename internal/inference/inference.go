// Package inference holds the types that edge, engine and scheduler share: a request
// as the engine sees it (token ids, never text), the events it answers with,
// the stream that carries them, and the sentinel errors that the API maps to
// HTTP statuses. Beside the standard library it imports the tensors of predict requests.
package inference

import "time"

// TokenID indexes a model's vocabulary. It is an alias so that slices of ids
// cross package borders (kvcache imports nothing of ours) without copies.
type TokenID = int32

// Class is a priority class; lower values are served first.
type Class uint8

// The classes in order of precedence.
const (
	Interactive Class = iota
	Default
	Batch
	NumClasses = 3
)

// String is the class's name in configurations, metrics and answers.
func (c Class) String() string {
	return [...]string{"interactive", "default", "batch", "unknown"}[min(c, NumClasses)]
}

// Pooling says how the hidden states of a text become its vector. Ids are those
// of GGUF's pooling_type.
type Pooling uint8

// Pooling kinds; a model with PoolingNone generates text.
const (
	PoolingNone Pooling = 0
	PoolingMean Pooling = 1
	PoolingCLS  Pooling = 2
	PoolingLast Pooling = 3
	PoolingRank Pooling = 4 // a classifier's scores instead of a vector
)

// String is the pooling's name in messages.
func (p Pooling) String() string {
	return [...]string{"none", "mean", "cls", "last", "rank", "unknown"}[min(p, 5)]
}

// Toggle is a switch of a request: on, off, or unset, which leaves the choice to
// the server.
type Toggle uint8

// The zero value is unset.
const (
	ToggleUnset Toggle = iota
	ToggleOn
	ToggleOff
)

// Or is the toggle's value, or the given default of the server where it is unset.
func (t Toggle) Or(server bool) bool { return t == ToggleOn || t == ToggleUnset && server }

// TokenBias is added to one token's logit before sampling.
type TokenBias struct {
	ID   TokenID
	Bias float32
}

// Sampling holds the parameters of one request's sampler. The zero value is
// not useful; start from DefaultSampling.
type Sampling struct {
	Temperature       float32 // 0 is greedy
	TopK              int     // <= 0 keeps every token
	TopP              float32 // (0,1], 1 keeps every token
	MinP              float32 // [0,1], 0 keeps every token
	TypicalP          float32 // (0,1], 1 keeps every token
	RepetitionPenalty float32 // > 0, 1 is off; over prompt and output
	PresencePenalty   float32 // [-2,2], over output
	FrequencyPenalty  float32 // [-2,2], over output
	LogitBias         []TokenBias
	AllowedTokens     []TokenID   // only these are sampled; empty allows all
	BadWords          [][]TokenID // sequences of at least one id that the output must not complete
	Seed              uint64      // choice i samples with Seed+i
	Logprobs          int         // alternatives reported per token; -1 reports none
	LogprobTokens     []TokenID   // with Logprobs >= 0: reported with the token itself in the place of the likeliest
}

// DefaultSampling is plain sampling from the model's distribution.
func DefaultSampling() Sampling {
	return Sampling{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, Logprobs: -1}
}

// Request is one generation. The engine owns it from Submit
// on; it is not changed afterwards.
type Request struct {
	ID          string
	Tenant      string // unit of fairness
	Weight      int    // the tenant's share relative to others, 1 to 4096; 0 is 1
	Class       Class
	CacheDomain string // isolation domain of the prefix cache
	Adapter     string // name of the LoRA adapter that is added to the model's weights; "" is none
	OverQuota   bool   // the tenant is beyond a quota that bends: shed first
	Retries     int    // times that the client says it has tried before: shed before first tries

	// Deadlines; the zero time is none. A request that cannot have its first
	// token, or its last one, in time is refused with ErrDeadlineUnreachable,
	// and one that passes a deadline ends with ErrDeadline, waiting or running.
	FirstTokenBy, DoneBy time.Time
	// WaitUntil ends a request that still waits then with ErrQueueTimeout. The
	// zero time is never.
	WaitUntil time.Time

	Prompt         []TokenID // at least one id
	MaxTokens      int       // output tokens per choice; 0 only with PromptLogprobs >= 0, and always with KV.DoRemoteDecode
	MinTokens      int       // end-of-generation tokens are masked before this many
	N              int       // choices, >= 1; they share the prompt's blocks
	StopTokens     []TokenID // end a choice, beside the model's own
	IgnoreEOS      bool      // the model's end-of-generation tokens do not end a choice
	PromptLogprobs int       // alternatives per prompt token; -1 is none. Disables prefix reuse
	Sampling       Sampling
	Speculation    Toggle // speculative decoding, which changes no answer, only its speed

	// Constraint is what the answers must obey, in its state before the first token: each
	// choice has a fork. nil is none. Where nothing but the end may follow, a choice ends
	// even if MinTokens or IgnoreEOS ask for more.
	Constraint Constraint

	// Given are the tokens of the choices, for a request that asks how likely texts are: N lists of at least one id and at most
	// MaxTokens. Nothing is sampled: an event of each token has its Logprob, and a choice ends with FinishStop behind its
	// last one. The request's rows are computed without rounding activations, and share no cached prefixes with others. nil:
	// tokens are sampled.
	Given [][]TokenID
	// Marks are the places in the prompt where options end, for a model with a decision head, in ascending order: one of each choice, whose
	// given token is one of no meaning. Its event has the head's score as Logprob. nil: there are none.
	Marks []int

	KV KVTransfer // where blocks of the prompt's keys and values are

	Arrived time.Time // when the edge received the request; TTFT counts from here
}

// KVTransfer is what a router tells a replica of the keys and values of a request's prompt, in vLLM's words. The zero value is
// an ordinary request.
type KVTransfer struct {
	DoRemotePrefill bool   `json:"do_remote_prefill,omitempty"` // another replica has blocks of the prompt, to be fetched
	RemoteURL       string `json:"remote_url,omitempty"`        // its admin listener
	RemoteModel     string `json:"remote_model,omitempty"`      // its name of the model
	RemoteTokens    int    `json:"remote_tokens,omitempty"`     // of the prompt that it is thought to have; 0: not known

	// RemoteComputed is how many of RemoteTokens, the last ones, the other replica has computed for this request: they are no
	// cached tokens of its usage.
	RemoteComputed int `json:"remote_computed_tokens,omitempty"`

	DoRemoteDecode bool `json:"do_remote_decode,omitempty"` // the prompt's blocks are wanted alone: another replica computes the answer
}

// FinishReason says why a choice ended.
type FinishReason uint8

// Finish reasons; FinishNone means the choice runs on.
const (
	FinishNone      FinishReason = iota
	FinishStop                   // end-of-generation token, stop token or stop string
	FinishLength                 // MaxTokens or the context is used up
	FinishCancelled              // the client, a deadline or a drain ended it
	FinishError                  // the stream's error says why
	FinishFiltered               // the model's policy ended it; said by the edge, never by an engine
)

// String gives the OpenAI spelling.
func (f FinishReason) String() string {
	switch f {
	case FinishNone:
		return ""
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	case FinishCancelled:
		return "cancelled"
	case FinishError:
		return "error"
	case FinishFiltered:
		return "content_filter"
	}
	return "unknown"
}

// TokenLogprob is a token and the natural logarithm of its probability under
// the model (temperature 1, before penalties and filters).
type TokenLogprob struct {
	ID      TokenID
	Logprob float32
}

// EventKind says which fields of an Event are set.
type EventKind uint8

// The kinds of events.
const (
	// EventToken is one sampled token of a choice: Choice, Token, and with
	// logprobs asked Logprob and Top. An end-of-generation or stop token is
	// reported too (the edge hides its text), followed by EventFinish.
	EventToken EventKind = iota
	// EventFinish ends a choice: Choice, Finish.
	EventFinish
	// EventPrompt is one prompt token's logprob (Request.PromptLogprobs >= 0),
	// in order; the first token has none and reports NaN.
	EventPrompt
)

// Event is one thing that happened to a request.
type Event struct {
	Kind    EventKind
	Finish  FinishReason
	Choice  int
	Token   TokenID
	Logprob float32
	Rank    int32          // of an EventPrompt's token by its likelihood, from 1; 0 is not known
	Top     []TokenLogprob // best first; nil unless asked for
}

// Load says how busy an engine is at one moment, for routing and readiness.
type Load struct {
	Running       int     // sequences in the running batch
	Waiting       int     // requests queued
	WaitingTokens int     // prompt tokens queued
	KVBlocks      int     // usable blocks of the pool
	KVBlocksUsed  int     // referenced by live sequences
	FetchRate     float64 // prompt tokens a second whose KV blocks come from other replicas; 0: none do
	Ready         bool
	Why           string // it is not ready; "" where that is not known
}

// PeerSigner tells another weir in whose name a request is sent, and where it finds KV blocks; it is called for each attempt.
type PeerSigner func(now time.Time, kv KVTransfer) string
