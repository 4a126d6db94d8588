package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/replay"
	"weir/api/tenant"
)

// How requests with an idempotency key end, as Hooks.OnKey is told.
const (
	KeyExecuted = "executed"  // and its answer was stored
	KeyFreed    = "freed"     // it was refused, failed for now, or was too large to keep
	KeyReplayed = "replayed"  // it got the stored answer
	KeyInFlight = "in_flight" // 409
	KeyReused   = "reused"    // 422: the key stands for another body
	KeyFailed   = "failed"    // the store of keys failed
)

// KeyHeader is the header field of idempotency keys.
const KeyHeader = "Idempotency-Key"

const (
	// AskTimeout bounds a question that a request waits for before it is executed: a store that hangs refuses it soon.
	AskTimeout = 2 * time.Second
	// keyTimeout bounds what follows the execution: the answer is not lost as soon.
	keyTimeout = 5 * time.Second
)

// Keys executes requests with an idempotency key once. A repetition gets 409 while the execution runs, and its
// bytes afterwards, on this server or on any that shares its store.
//
// What is kept: answers that are complete, and the 500 of an execution that hit a bug. The key is free again after
// a refusal (4xx, 429, 503), after an upstream that did not answer (502), and after an answer above MaxAnswerBytes.
type Keys struct {
	Claims         replay.Claims
	TTL            time.Duration // a key stands this long from its execution's beginning; 0: keys are ignored
	MaxAnswerBytes int           // a larger answer is not kept
	Ended          func(how string, err error)
}

// Read is a request's key; "" is none. Where TTL is 0 no key is read.
func (k *Keys) Read(h *fasthttp.RequestHeader) (string, *api.Error) {
	fields := h.PeekAll(KeyHeader)
	if len(fields) == 0 || k.TTL <= 0 {
		return "", nil
	}
	if len(fields) > 1 {
		return "", unfitKey(errors.New("the request has several keys; one execution has one"))
	}
	key, err := replay.ParseKey(string(fields[0]))
	if err != nil {
		return "", unfitKey(err)
	}
	return key, nil
}

func unfitKey(err error) *api.Error {
	return api.Refuse("invalid_idempotency_key", fmt.Sprintf("%s: %v; send 1 to %d visible ASCII characters", KeyHeader, err, replay.MaxKeyBytes))
}

func (k *Keys) ended(how string, err error) {
	if k.Ended != nil {
		k.Ended(how, err)
	}
}

// Execution is the one execution of a request under its key. One goroutine at a time
// owns it.
type Execution struct {
	keys    *Keys
	request replay.Request
	claim   replay.Claim

	Claimed bool // this execution holds the key, and has neither finished nor freed it
	Over    bool // the request is answered without an execution
	Lost    bool // the store did not take the answer
	Taken   bool // another execution has the key, and its answer is the one: this one's is not given out

	withheld bool // of a tenant of which nothing is kept: the key is, its answer not
}

// Execution is that of a tenant's request to a route.
func (k *Keys) Execution(t *tenant.Tenant, key, route string, body []byte) *Execution {
	return &Execution{keys: k, withheld: t.KeepsNothing(), request: replay.Request{Tenant: t.Name, Key: key, Fingerprint: replay.Fingerprint(route, body), TTL: k.TTL}}
}

// Look asks where the key stands. The answer is that of an earlier execution, or nil. Where the key is not free, Over is set.
func (x *Execution) Look() (*replay.Answer, *api.Error) { return x.ask(x.keys.Claims.Look) }

// Begin takes the key, otherwise as Look.
func (x *Execution) Begin() (*replay.Answer, *api.Error) { return x.ask(x.keys.Claims.Begin) }

func (x *Execution) ask(how func(context.Context, replay.Request) (replay.Outcome, error)) (*replay.Answer, *api.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), AskTimeout)
	defer cancel()
	outcome, err := how(ctx, x.request)
	if err == nil && outcome.State == replay.Free {
		return nil, nil
	}
	if err == nil && outcome.State == replay.Begun {
		x.claim, x.Claimed = outcome.Claim, true
		return nil, nil
	}
	x.Over = true
	switch {
	case err != nil:
		x.keys.ended(KeyFailed, err)
		return nil, api.Refuse("idempotency_unavailable",
			"the store of idempotency keys does not answer, and without it this request might run twice; retry, or leave out "+KeyHeader)
	case outcome.State == replay.InFlight:
		x.keys.ended(KeyInFlight, nil)
		return nil, InFlight()
	case outcome.State == replay.Differs:
		x.keys.ended(KeyReused, nil)
		return nil, api.Refuse("idempotency_key_reused",
			"this "+KeyHeader+" came with another body or to another endpoint before; send a new key with a new request")
	}
	a, err := replay.Decode(outcome.Answer)
	if err != nil {
		x.keys.ended(KeyFailed, err)
		return nil, api.Refuse("internal_error", "the answer that is stored for this "+KeyHeader+" cannot be read; send a new key")
	}
	x.keys.ended(KeyReplayed, nil)
	if a.Withheld {
		return nil, api.Refuse("idempotency_answer_not_kept", "the request with this "+KeyHeader+" was executed, and its answer is not kept: "+
			"nothing of this tenant is (retention: none); send a new key to execute it again")
	}
	return a, nil
}

// InFlight says that another execution of a request runs.
func InFlight() *api.Error {
	return api.Refuse("idempotency_in_flight", "the request with this "+KeyHeader+" is still running; retry with the same key after Retry-After to get its answer")
}

// IsFinal tells the statuses of answers that are kept.
func IsFinal(status int) bool {
	return status < http.StatusBadRequest || status == http.StatusInternalServerError
}

// Conclude ends the execution with its answer, and reports whether it is kept.
func (x *Execution) Conclude(a *replay.Answer) (kept bool) {
	if !x.Claimed {
		return false
	}
	if x.withheld && IsFinal(a.Status) { // the key stays taken, so that nothing runs twice
		a = &replay.Answer{Status: a.Status, Withheld: true}
	}
	if !IsFinal(a.Status) || len(a.Body) > x.keys.MaxAnswerBytes {
		x.Free()
		return false
	}
	x.Claimed = false
	form, err := a.Encode()
	if err == nil {
		if err = x.finish(form); errors.Is(err, context.DeadlineExceeded) { // the process may have stood still, and another one have the key
			err = x.finish(form)
		}
		if err == nil {
			x.keys.ended(KeyExecuted, nil)
			return true
		}
	}
	x.keys.ended(KeyFailed, err)
	if x.Taken = errors.Is(err, replay.ErrClaimTaken); x.Taken {
		return false
	}
	x.Lost = true // the client gets the answer all the same
	x.abandon()
	return false
}

func (x *Execution) finish(form []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
	defer cancel()
	return x.keys.Claims.Finish(ctx, x.claim, form)
}

// Free lets the next request with the key execute.
func (x *Execution) Free() {
	if !x.Claimed {
		return
	}
	x.Claimed = false
	x.keys.ended(KeyFreed, nil)
	x.abandon()
}

func (x *Execution) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
	defer cancel()
	if err := x.keys.Claims.Abandon(ctx, x.claim); err != nil {
		x.keys.ended(KeyFailed, err)
	}
}

// Freed tells of a request that was refused before it took its key.
func (x *Execution) Freed() { x.keys.ended(KeyFreed, nil) }

// keptHeaders are the header fields of an answer that are kept with it, beside its type.
var keptHeaders = []string{"Inference-Header-Content-Length", "X-Weir-Version", "X-Weir-Arm"}

// Once executes a request to an endpoint whose answers are whole, or answers it with what its key stands for. errorBody is an error
// in the endpoint's form.
func (k *Keys) Once(ctx *fasthttp.RequestCtx, t *tenant.Tenant, route string, errorBody func(*api.Error) []byte, execute func() *api.Error) *api.Error {
	key, fault := k.Read(&ctx.Request.Header)
	if fault != nil {
		return fault
	}
	if key == "" {
		return execute()
	}
	x := k.Execution(t, key, route, ctx.Request.Body())
	stored, fault := x.Begin()
	if x.Over {
		if stored != nil {
			WriteReplay(ctx, stored)
		}
		return fault
	}
	defer x.Free() // after a panic
	if fault = execute(); fault != nil {
		kept := x.Conclude(&replay.Answer{Status: fault.Status, ContentType: "application/json", Body: errorBody(fault)})
		if x.Taken {
			return InFlight()
		}
		fault.NoRetry = fault.NoRetry || kept // the same would come back
		return fault
	}
	h := &ctx.Response.Header
	a := &replay.Answer{Status: ctx.Response.StatusCode(), ContentType: string(h.ContentType()), Body: ctx.Response.Body(),
		Warnings: string(h.Peek("X-Weir-Warnings"))}
	for _, name := range keptHeaders {
		if value := h.Peek(name); len(value) > 0 {
			a.Headers = append(a.Headers, name+": "+string(value))
		}
	}
	x.Conclude(a)
	if x.Taken {
		for _, name := range keptHeaders { // of the answer that is not sent
			h.Del(name)
		}
		return InFlight()
	}
	if x.Lost {
		WarnLost(ctx)
	}
	return nil
}

// WarnLost tells the client that a repetition will not get the answer.
func WarnLost(ctx *fasthttp.RequestCtx) {
	text := "the answer is not kept for its " + KeyHeader + ": the store failed, and a repetition executes again"
	if own := ctx.Response.Header.Peek("X-Weir-Warnings"); len(own) > 0 {
		text = string(own) + ", " + text
	}
	ctx.Response.Header.Set("X-Weir-Warnings", text)
}

// WriteReplay answers with what is stored. The caller writes the bytes of a stream.
func WriteReplay(ctx *fasthttp.RequestCtx, a *replay.Answer) {
	h := &ctx.Response.Header
	h.Set("X-Weir-Replayed", "true")
	h.Del("X-Weir-Warnings") // of a request that lost its key at the last moment
	if a.Warnings != "" {
		h.Set("X-Weir-Warnings", a.Warnings)
	}
	for _, field := range a.Headers {
		if name, value, ok := strings.Cut(field, ": "); ok {
			h.Set(name, value)
		}
	}
	if a.Status >= http.StatusInternalServerError {
		h.Set("X-Should-Retry", "false") // the same comes back each time
	}
	ctx.SetStatusCode(a.Status)
	if !a.Stream {
		ctx.SetContentType(a.ContentType)
		ctx.SetBody(a.Body)
	}
}
