package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"weir/internal/inference"
	"weir/internal/memory"
)

// ErrNoReplica says that an upstream has no server that could take a request now.
var ErrNoReplica = errors.New("no replica takes requests")

// ErrNoMemory says that an answer has come for which this server has no memory now.
var ErrNoMemory = errors.New("no memory is left for the answer")

// ErrOversized says that an answer has come for which this server never has memory.
var ErrOversized = errors.New("the answer is larger than this server takes")

// ErrResidency says that servers are left, and none of them is where the caller's data stays. It stands beside ErrNoReplica.
var ErrResidency = errors.New("no replica in the regions of the tenant's residency takes requests")

// UpstreamFault is an error of a server's answer. Its kind is the label kind of weir_route_errors_total.
type UpstreamFault interface {
	error
	FaultKind() string
	Told() string  // what the server does, as its callers may know it
	Lasting() bool // only an operator can change it
}

// StreamedFault is an error that a server has written into its stream.
type StreamedFault interface {
	error
	// Refusal is the error as an answer that is no stream would have it.
	Refusal() (status int, body []byte)
}

// Upstream passes requests on to servers that have their own tokenizer and template:
// bytes go in and bytes come out. Implementations are safe for concurrent use.
type Upstream interface {
	// Send passes a request on and returns when its answer has begun: for a stream
	// with the first event that carries content, for anything else with the whole
	// answer. Until then it may have tried several servers. Ending ctx ends the request
	// there, too. Errors wrap ErrNoReplica where no server was there to be asked.
	Send(ctx context.Context, c *Call) (*Answer, error)
	// Offers reports whether all servers have a feature. Chat completions all of them have.
	Offers(what Feature) bool
	// Load is the state of the servers together, by what is known here.
	Load() Load
}

// Feature is something that not every server behind a model has.
type Feature string

// The features.
const (
	Responses  Feature = "responses" // POST /v1/responses
	Messages   Feature = "messages"  // POST /v1/messages, and count_tokens below it
	Continuing Feature = "continue"  // continue_final_message: an answer goes on with the assistant's last message
)

// Call is a request to an upstream.
type Call struct {
	Path   string // below the base URL: "/chat/completions"
	Head   Head
	Body   []byte // the client's JSON object without its model, of which each server has a name of its own
	Stream bool   // the client asked for events

	// StreamOptions are of a stream: as servers get them, with usage at the end, and as the client has sent them, for
	// servers that know no such field. Either is JSON, or nil where there is none. Body does not have them.
	StreamOptions struct{ Sent, Asked []byte }

	Prompt []Part  // what the model reads, in its order, as far as it decides which server is best; nil: not known
	Tokens []int32 // of the prompt, as every server makes them of it; nil: not known
	Salt   string  // cache_salt: servers whose caches tenants share keep the prompts of different ones apart
	// Residency is the regions where the request may go: a server of another one, or of which none is known, gets nothing of
	// it. None: everywhere.
	Residency []string

	Domain string // tenants that share prefixes of prompts have the same
	Output int    // expected output tokens
	// MostBytes is what a whole answer can have at most, by what was asked for; 0: not known. A server whose answer is larger, and
	// larger than this server takes, is at fault.
	MostBytes int

	Session string // a hint: requests of one session profit from one server; "" is none
	Resume  bool   // a stream that breaks goes on at another server

	// Tried hears of each server that was asked, once its part is over; nil: not wanted. Calls
	// do not overlap.
	Tried func(*Attempt)

	Infer *Inference // of a request to a classical model; nil for all others
}

// Inference says of a call that it asks a classical model: its body is JSON and tensors of the Open Inference
// Protocol, for the path that a server has for its name of the model.
type Inference struct {
	Header int                                     // bytes of the body that are JSON; tensors follow
	Read   func(h http.Header, whole []byte) error // reads an answer; one that cannot be read is the server's failure
}

// Part is a piece of a request that the model reads: its tools, its messages, its prompt.
type Part struct {
	Kind string
	Text []byte // as the client sent it: JSON
}

// PromptBytes is the size of the prompt's parts, or of the body where they are not known.
func (c *Call) PromptBytes() int {
	if c.Prompt == nil {
		return len(c.Body)
	}
	n := 0
	for _, p := range c.Prompt {
		n += len(p.Text)
	}
	return n
}

// Head is what an upstream is told of a request beside its body: what its own logs and
// traces need to name it, on whose behalf it is sent, and its deadlines.
type Head struct {
	RequestID   string
	Traceparent string // W3C Trace Context; empty: not sent
	Tracestate  string // as above
	Version     string // the field anthropic-version of a request of Messages, for Anthropic's own API; "" is none
	Beta        string // the client's anthropic-beta

	// Caller makes the header field CallerHeader, which tells another weir who calls, again
	// for each attempt; nil: no other weir is told.
	Caller inference.PeerSigner
	// Counted is the header field CountedHeader for other weirs; "" is none.
	Counted string
	Class   string // that the client's header asked for; "" is none

	FirstTokenBy, DoneBy time.Time // the time that is left is sent; zero is none
}

// CallerHeader is the field in which a weir tells another one who calls.
const CallerHeader = "X-Weir-Caller"

// CountedHeader is the field in which a weir tells another one on the same store that it counts what the request uses.
const CountedHeader = "X-Weir-Counted"

// Write adds the fields of the head to a request's header, except for the caller.
func (h *Head) Write(to http.Header) {
	to.Set("X-Request-Id", h.RequestID)
	if h.Traceparent != "" {
		to.Set("Traceparent", h.Traceparent)
	}
	if h.Tracestate != "" {
		to.Set("Tracestate", h.Tracestate)
	}
	if h.Class != "" {
		to.Set("X-Weir-Class", h.Class)
	}
	for name, at := range map[string]time.Time{"X-Weir-Ttft-Ms": h.FirstTokenBy, "X-Weir-Deadline-Ms": h.DoneBy} {
		if !at.IsZero() {
			to.Set(name, strconv.FormatInt(max(time.Until(at).Milliseconds(), 1), 10))
		}
	}
}

// Follower is a stream whose pieces can be had without a goroutine that waits for each.
type Follower interface {
	// Follow calls take with what comes, and returns when take has had enough, or when the stream cannot be followed, now or any more:
	// Read then tells the rest. take must neither block nor keep the piece.
	Follow(take func(piece []byte) bool)
}

// Answer is an upstream's answer: a refusal, a whole one, or a stream.
type Answer struct {
	Status int
	Header http.Header

	Fault  UpstreamFault // what a refusal says of the server; nil: nothing is known
	Whole  []byte        // of an answer that is no stream
	Memory memory.Share  // what Whole and what is made of it hold; see Release
	Events io.ReadCloser // of a stream; nil where Whole counts. The caller closes it exactly once

	Untold func(tokens int) // is told how many tokens were counted here, because the server did not tell them; nil: not wanted

	Replica  string // the server that it is from
	Reason   string // why that server was picked
	Attempts int    // servers that were asked
}

// Release gives the memory of a whole answer back, once nothing more is made of it. Whole may still be read.
func (a *Answer) Release() {
	if a != nil {
		a.Memory.Release()
	}
}
