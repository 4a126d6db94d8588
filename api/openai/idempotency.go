package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/replay"
)

// A request to a model may carry an Idempotency-Key. It is executed once: a
// repetition gets 409 while the execution runs and the same bytes afterwards, on this
// server or on any that shares its store.
//
//   - The key is looked up before anything else, since a replay needs no quota. It is
//     taken last, once the request is read and its quota reserved, so that a refusal
//     leaves nothing behind in the store. Of several requests that reserve at the same
//     time one takes the key; the others give their quota back.
//   - A client that hangs up does not end the execution, since it will ask again for
//     the answer. The rest is generated, stored and paid for.
//   - The answer is stored before its last byte is sent: who has read it to the end
//     can read it again, whatever happens to the process.
//   - What is kept: answers that are complete, and the 500 of an execution that hit a
//     bug. The key is free again after a refusal (4xx, 429, 503), after an upstream that
//     did not answer (502), and after an answer above the limit of bytes.

// Idempotency says how keys are kept.
type Idempotency struct {
	TTL            time.Duration // a key stands this long from its execution's beginning; 0: keys are ignored
	MaxAnswerBytes int           // a larger answer is not kept
	TenantBytes    int64         // answers of one tenant, as stored; the oldest go first
	Claims         replay.Claims // nil: in memory
}

// What becomes of a request with an idempotency key, as Hooks.OnKey is told.
const (
	KeyExecuted = "executed"  // and its answer was stored
	KeyFreed    = "freed"     // it was refused, failed for now, or was too large to keep
	KeyReplayed = "replayed"  // it got the stored answer
	KeyInFlight = "in_flight" // 409
	KeyReused   = "reused"    // 422: the key stands for another body
	KeyFailed   = "failed"    // the store of keys failed
)

// storeTimeout bounds each call of the store.
const storeTimeout = 5 * time.Second

const keyHeader = "Idempotency-Key"

// once executes a request to a service, or answers with what its idempotency key
// stands for.
func (c *call) once(s *service, execute func() *api.Error) *api.Error {
	key, fault := c.idempotencyKey()
	if fault != nil {
		return fault
	}
	if key == "" {
		return execute()
	}
	if !c.server.running.Enter() { // until the answer is stored
		return edge.ShuttingDown()
	}
	x := &execution{call: c, server: c.server, request: replay.Request{
		Tenant: c.caller.Tenant.Name, Key: key, Fingerprint: replay.Fingerprint(s.route, c.ctx.PostBody()),
		TTL: c.server.config.Idempotency.TTL,
	}}
	defer x.end()
	if fault = x.ask(c.server.config.Idempotency.Claims.Look); x.over {
		return fault
	}
	c.execution = x
	fault = execute()
	switch {
	case x.over:
	case c.ctx.Response.IsBodyStream(): // the recording ends the execution
		x.handedOver = true
	case !x.claimed: // refused before it took its key
		x.server.keyEnded(KeyFreed, nil)
	case fault != nil:
		kept := x.conclude(&replay.Answer{Status: fault.Status, ContentType: "application/json", Body: c.route.appendFault(nil, fault)})
		fault.NoRetry = fault.NoRetry || kept // the same would come back
	default:
		h := &c.ctx.Response.Header
		x.conclude(&replay.Answer{Status: c.ctx.Response.StatusCode(), ContentType: string(h.ContentType()), Body: c.ctx.Response.Body()})
	}
	return fault
}

// takeKey takes the idempotency key of a request that has one: the last step before the
// request is executed. answered is set where the key was not free any more; then the
// request must not run, and fault, if there is one, is its answer.
func (c *call) takeKey() (fault *api.Error, answered bool) {
	if c.execution == nil || c.execution.claimed { // by the model that was asked before
		return nil, false
	}
	fault = c.execution.ask(c.server.config.Idempotency.Claims.Begin)
	return fault, c.execution.over
}

// idempotencyKey reads the request's key; "" is none.
func (c *call) idempotencyKey() (string, *api.Error) {
	fields := c.ctx.Request.Header.PeekAll(keyHeader)
	if len(fields) == 0 {
		return "", nil
	}
	if c.server.config.Idempotency.TTL <= 0 {
		if c.server.config.Strict {
			return "", badRequest("unsupported_header", "",
				"this server keeps no idempotency keys (--idempotency-ttl 0); leave out %s", keyHeader)
		}
		c.keyIgnored = true
		return "", nil
	}
	if len(fields) > 1 {
		return "", invalidIdempotencyKey(errors.New("the request has several keys; one execution has one"))
	}
	key, err := replay.ParseKey(string(fields[0]))
	if err != nil {
		return "", invalidIdempotencyKey(err)
	}
	return key, nil
}

func invalidIdempotencyKey(err error) *api.Error {
	return badRequest("invalid_idempotency_key", "",
		"%s: %v; send 1 to %d visible ASCII characters", keyHeader, err, replay.MaxKeyBytes)
}

// watch is the channel that says that the client hung up: of an execution under a key
// it is nil, which never does.
func (c *call) watch() <-chan struct{} {
	if c.execution != nil {
		return nil
	}
	return c.gone()
}

// execution is the one execution of a request under its key. One goroutine at a time
// owns it.
type execution struct {
	call       *call
	request    replay.Request
	claim      replay.Claim
	claimed    bool // claim is held, and nobody has given it up or finished it
	over       bool // the call is answered without an execution
	handedOver bool // to a recording
	left       bool

	// Copies for the time after the call, whose context serves further requests then.
	server   *Server
	warnings string
}

// ask asks the store for the key, by Look or Begin, and answers where the key is not free.
func (x *execution) ask(how func(context.Context, replay.Request) (replay.Outcome, error)) *api.Error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	outcome, err := how(ctx, x.request)
	if err == nil && outcome.State == replay.Free {
		return nil
	}
	if err == nil && outcome.State == replay.Begun {
		x.claim, x.claimed = outcome.Claim, true
		return nil
	}
	x.over = true
	switch {
	case err != nil:
		x.server.keyEnded(KeyFailed, err)
		return api.Refuse("idempotency_unavailable",
			"the store of idempotency keys does not answer, and without it this request might run twice; retry, or leave out "+keyHeader)
	case outcome.State == replay.InFlight:
		x.server.keyEnded(KeyInFlight, nil)
		return api.Refuse("idempotency_in_flight", "the request with this "+keyHeader+" is still running; retry later to get its answer")
	case outcome.State == replay.Differs:
		x.server.keyEnded(KeyReused, nil)
		return api.Refuse("idempotency_key_reused",
			"this "+keyHeader+" came with another body or to another endpoint before; send a new key with a new request")
	}
	return x.call.replay(outcome.Answer)
}

// replay answers with what is stored.
func (c *call) replay(stored []byte) *api.Error {
	a, err := replay.Decode(stored)
	if err != nil {
		c.server.keyEnded(KeyFailed, err)
		return internalError("the answer that is stored for this " + keyHeader + " cannot be read; send a new key")
	}
	c.server.keyEnded(KeyReplayed, nil)
	h := &c.ctx.Response.Header
	h.Set("X-Weir-Replayed", "true")
	h.Del(warningsHeader) // of a request that lost its key at the last moment
	if a.Warnings != "" {
		h.Set(warningsHeader, a.Warnings)
	}
	if a.Status >= statusInternal {
		h.Set("X-Should-Retry", "false") // the same comes back each time
	}
	c.ctx.SetStatusCode(a.Status)
	if a.Stream {
		c.events(io.NopCloser(strings.NewReader(string(a.Body))))
		return nil
	}
	c.ctx.SetContentType(a.ContentType)
	c.ctx.SetBody(a.Body)
	return nil
}

// isFinal tells the statuses of answers that are kept.
func isFinal(status int) bool { return status < http.StatusBadRequest || status == statusInternal }

// conclude ends the execution with its answer, and reports whether it is kept.
func (x *execution) conclude(a *replay.Answer) (kept bool) {
	if !x.claimed {
		return false
	}
	if !isFinal(a.Status) || len(a.Body) > x.server.config.Idempotency.MaxAnswerBytes {
		x.free()
		return false
	}
	x.claimed = false
	a.Warnings = x.warnings
	if !a.Stream {
		a.Warnings = string(x.call.ctx.Response.Header.Peek(warningsHeader))
	}
	return x.server.finish(x.claim, a)
}

// free lets the next request with the key execute.
func (x *execution) free() {
	if !x.claimed {
		return
	}
	x.claimed = false
	x.server.keyEnded(KeyFreed, nil)
	x.server.abandon(x.claim)
}

// end leaves the server's running requests, unless a recording does. A claim that is
// left then is a panic's.
func (x *execution) end() {
	if x.handedOver || x.left {
		return
	}
	x.left = true
	x.free()
	x.server.running.Leave()
}

// finish stores an answer. The client gets it even where the store fails.
func (s *Server) finish(claim replay.Claim, a *replay.Answer) (stored bool) {
	form, err := a.Encode()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err = s.config.Idempotency.Claims.Finish(ctx, claim, form); err == nil {
			s.keyEnded(KeyExecuted, nil)
			return true
		}
	}
	s.keyEnded(KeyFailed, err)
	s.abandon(claim)
	return false
}

func (s *Server) abandon(claim replay.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := s.config.Idempotency.Claims.Abandon(ctx, claim); err != nil {
		s.keyEnded(KeyFailed, err)
	}
}

func (s *Server) keyEnded(how string, err error) {
	if h := s.config.Hooks.OnKey; h != nil {
		h(how, err)
	}
}
