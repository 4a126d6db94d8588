// Package edge leads requests to the endpoints of the protocols (Mux), and holds what all protocols of the API listener share: who calls, by
// when an answer is due, how errors of backends are told, how requests are named,
// counted and drained, and the hooks that report them. api/openai and api/predict
// build their endpoints on it.
package edge

import (
	"net/http"
	"time"

	"weir/api/moderation"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// Hooks are called as requests go by, from the connections' goroutines, so
// that metrics and logs need no import of this package's insides. A nil hook
// is skipped. Hooks must be safe for concurrent use and must not block.
type Hooks struct {
	// StartTrace gives a request for a generation its place in a distributed
	// trace, from its header fields traceparent and tracestate, which any client
	// may write. The zero Trace is none.
	StartTrace func(traceparent, tracestate string) Trace
	// OnRequestStart: a generating request was parsed and is about to be submitted
	// to its backend.
	OnRequestStart func(RequestStart)
	// OnFirstToken: the first token of a request came, after that long since
	// its arrival. Once per prompt of a request.
	OnFirstToken func(r *RequestStart, sinceArrival time.Duration)
	// OnTokenGap: a further token of a choice came after that long since the
	// choice's token before. Tokens that arrive together report gaps near 0.
	// slowest: the request had no longer gap before.
	OnTokenGap func(r *RequestStart, gap time.Duration, slowest bool)
	// OnRequestFinish: every request that OnRequestStart has seen ends here,
	// once.
	OnRequestFinish func(RequestFinish)
	// OnWork: a request took processor time beside the engine: for tokens, a template, the format of an answer.
	OnWork func(Work)
	// OnResponse: any request was answered; for a stream, its header is out.
	// route is a pattern of the protocol's route list, or "other".
	OnResponse func(route, method string, status int, took time.Duration)
	// OnRefused: a request was answered with an error, by whichever part.
	OnRefused func(Refusal)
	// OnClientRetry: a request for a generation came that its client says it has sent
	// before, however it ends.
	OnClientRetry func()
	// OnDisconnect: the client hung up on a running request.
	OnDisconnect func(model string)
	// OnKey: what happened to a request with an idempotency key, one of the Key
	// constants, and with KeyFailed what the store of keys failed with.
	OnKey func(how string, err error)
	// OnPanic: a bug was caught at a boundary ("handler", "stream").
	OnPanic func(where string, value any, stack []byte)
}

// Trace is a request's place in a distributed trace. Its fields other than
// Header and State are for the hooks, which get them back.
type Trace struct {
	ID      string // of the trace, as logs write it
	Header  string // a traceparent that names the request's own span: sent back as traceresponse, and on to upstreams
	State   string // tracestate for upstreams
	Sampled bool   // the trace will be exported, however the request ends
	Context any
}

// RequestStart describes a request that is about to run. Hooks that get a
// pointer to one must not keep or change it.
type RequestStart struct {
	ID           string     // ours, unique
	Endpoint     string     // "/v1/chat/completions"
	Model        string     // id of the served model
	Version      string     // of the model
	Arm          router.Arm // of the rollout that chose the version
	Tenant       string
	Key          string // id of the caller's API key; "" where another proof counted
	Class        inference.Class
	Stream       bool
	Prompts      int
	PromptTokens int   // summed over prompts; of an upstream known at the end, where it tells
	N            int   // choices per prompt
	MaxTokens    int   // per choice
	Seed         int64 // of the draws, the client's or ours: a request that says it gets the same answer
	Sampled      bool  // there were draws: the temperature is above 0
	Retries      int   // x-stainless-retry-count: how often the client tried before
	Arrived      time.Time
	LoadBegan    time.Time // it waited from then on for its model to be in memory; the zero time: it did not
	Loaded       time.Time // until then
	Parsed       time.Time // the request was understood, and its prompt not tokenised yet
	Submitted    time.Time // its prompt was tokenised, or it is sent on
	Relayed      bool      // to an upstream, which tokenises
	Prefix       bool      // the prompt is computed alone, for a peer that has the answer computed elsewhere and counted there
	Counted      bool      // what it uses is counted by another weir on the same store, which has passed it on
	Prediction   bool      // by a classical model: PromptTokens are rows, and there is one stage of computing
	Trace        Trace
}

// RequestFinish describes a request's end. Times are zero where the moment
// never came.
type RequestFinish struct {
	RequestStart
	Status       int                      // HTTP status sent; 499 when the client hung up first
	Code         string                   // error code where there was an error
	Limit        string                   // of the tenant, that ended the answer: its name in the configuration
	Reasons      []inference.FinishReason // per choice; owned by the hook
	OutputTokens int                      // summed over choices
	CachedTokens int                      // of PromptTokens
	Estimated    bool                     // an upstream has not told its tokens: they were counted here, or guessed
	FromCache    bool                     // of the responses: nothing was computed
	Admitted     time.Time                // by the engine: the first of the prompts
	Lives        []inference.Lived        // what the engine has done with the first prompts, and why; nil: no engine of this process has seen it
	Compute      time.Duration            // of the engine; 0 for an upstream's answer
	Cost         quota.Money              // at the model's prices
	FirstToken   time.Time
	LastToken    time.Time
	Finished     time.Time
	Moderated    *moderation.Report // what the model's policy found in the request and its answer; nil: nothing was looked for
	Unreadable   int                // calls of which not everything could be read, and was told as text
	Empty        bool               // the answer is whole and has no text
	Refuses      bool               // the answer says that it does not do what was asked; of arms only
	Texts        *Texts             // of a tenant with LogPrompts; of others nil
	Cause        error              // what an upstream did wrong; for logs, never sent

	Replica     string // of a relayed request: the server that answered, and why it was picked
	RouteReason string
	Attempts    int               // servers that were asked
	Tried       []*router.Attempt // what happened to it at each
}

// Work is processor time that a request took beside the engine.
type Work struct {
	Tenant *tenant.Tenant
	Model  string // id of the served model; "": none is asked
	Key    string // id of the caller's API key; "" where another proof counted
	Ended  time.Time
	Took   time.Duration

	Started bool // OnRequestStart has seen the request, and OnRequestFinish tells the time, too
}

// Charged reports whether what was computed for a request is charged. What an error of the server's own ended is not, but
// what an upstream's stream has delivered before it broke.
func (f *RequestFinish) Charged() bool {
	return f.Status < http.StatusInternalServerError || f.Relayed && !f.FirstToken.IsZero()
}

// Refusal describes a request that got an error for an answer.
type Refusal struct {
	ID         string // as sent back in x-request-id
	Route      string // a pattern of the protocol's route list, or "other"
	Method     string
	Remote     string // address of the peer
	Status     int    // HTTP status
	Code       string // of the error object
	Tenant     string // of the caller; "" is also that of all callers where no proof is asked for
	Known      bool   // it is known who called
	Model      string // id of the served model; "" where it is none or not known yet: never what a client wrote
	Version    string // of the model, where one was chosen
	Arm        router.Arm
	Prediction bool // of a classical model
	Trace      Trace
	Arrived    time.Time
	Moderation *Moderation // of a request that a policy refused; of others nil
	Started    bool        // OnRequestStart has seen it, and OnRequestFinish its end
	Early      bool        // it asked for a generation, and OnRequestStart has not seen it
	Reason     string      // why a caller was denied, which the caller is not told
}

// By notes who called.
func (r *Refusal) By(c *tenant.Caller) {
	if c.Tenant != nil {
		r.Tenant, r.Known = c.Tenant.Name, true
	}
}

// Moderation says which policy refused a request.
type Moderation struct {
	Model, Tenant string
	Report        *moderation.Report
}

// Texts are what a request of a tenant with LogPrompts asked and was answered, as they
// were: a hook that keeps them scrubs them first.
type Texts struct {
	Answers []string // of all choices; those of one prompt stand together

	// Prompts are the prompts as the model read them. It takes the time of decoding
	// them: hooks call it later, on a goroutine of their own.
	Prompts     func() []string
	PromptBytes int // about what the prompts hold in memory
}

// Bytes is about what the texts hold in memory.
func (t *Texts) Bytes() int {
	bytes := t.PromptBytes
	for _, text := range t.Answers {
		bytes += len(text)
	}
	return bytes
}
