package openai

import (
	"io"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
	"weir/api/replay"
)

// A request to a model may carry an Idempotency-Key. It is executed once: a
// repetition gets 409 while the execution runs and the same bytes afterwards, on this
// server or on any that shares its store.
//
//   - The key is looked up before anything but the caller's right to the model, since a replay needs no quota. It is
//     taken last, once the request is read and its quota reserved, so that a refusal
//     leaves nothing behind in the store. One of several requests that reserve at the
//     same time takes the key; the others give their quota back.
//   - A client that hangs up does not end the execution, since it will ask again for
//     the answer. The rest is generated, stored and paid for.
//   - The answer is stored before its last byte is sent: who has read it to the end
//     can read it again, whatever happens to the process.
//   - An execution that has lost its key to another one, because its process was slow,
//     does not send its answer: a stream ends with an error in the place of its end.
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

// requestKey is the idempotency key of a call, if it has one.
type requestKey struct {
	*call
	execution *execution // under the key; nil: there is none
	ignored   bool       // the request has a key, and the server keeps none
}

// once executes a request to a service, or answers with what its idempotency key
// stands for.
func (k *requestKey) once(s *service, execute func() *api.Error) *api.Error {
	key, fault := k.read()
	if fault != nil {
		return fault
	}
	if key == "" {
		return execute()
	}
	if !k.server.running.Enter() { // until the answer is stored
		return edge.ShuttingDown()
	}
	x := &execution{Execution: k.server.keys.Execution(k.caller.Tenant, key, s.route, k.ctx.PostBody()), call: k.call, server: k.server}
	defer x.end()
	if k.mayReplay() {
		if fault = x.answered(x.Look()); x.Over {
			return fault
		}
	}
	k.execution = x
	fault = execute()
	switch {
	case x.Over:
	case k.ctx.Response.IsBodyStream(): // the recording ends the execution
		x.handedOver = true
	case !x.Claimed: // refused before it took its key
		x.Freed()
	case fault != nil:
		kept := x.conclude(&replay.Answer{Status: fault.Status, ContentType: "application/json", Body: k.route.AppendFault(nil, fault)})
		if x.Taken {
			return edge.InFlight()
		}
		fault.NoRetry = fault.NoRetry || kept // the same would come back
	default:
		h := &k.ctx.Response.Header
		x.conclude(&replay.Answer{Status: k.ctx.Response.StatusCode(), ContentType: string(h.ContentType()), Body: k.ctx.Response.Body()})
		if x.Taken {
			return edge.InFlight()
		}
	}
	return fault
}

// mayReplay reports whether the caller may use the model that the request names, so that what another key of its tenant was
// answered is for it, too. Where that is not known yet the request goes on, and take asks after its model was looked up.
func (k *requestKey) mayReplay() bool {
	if k.caller.UsesAll() {
		return true
	}
	body := k.ctx.PostBody()
	if len(body) > limiter.FreeBytes { // parsing it needs a permit
		return false
	}
	o, fault := jsonbody.Parse(body, false)
	if fault == nil {
		_, fault = k.resolve(o)
	}
	return fault == nil
}

// take takes the idempotency key of a request that has one: the last step before the
// request is executed. answered is set where the key was not free any more; then the
// request must not run, and fault, if there is one, is its answer.
func (k *requestKey) take() (fault *api.Error, answered bool) {
	if k.execution == nil || k.execution.Claimed { // by the model that was asked before
		return nil, false
	}
	fault = k.execution.answered(k.execution.Begin())
	return fault, k.execution.Over
}

// read reads the request's key; "" is none.
func (k *requestKey) read() (string, *api.Error) {
	if k.server.config.Idempotency.TTL <= 0 && len(k.ctx.Request.Header.Peek(edge.KeyHeader)) > 0 {
		if k.server.config.Strict {
			return "", api.RefuseParam("unsupported_header", "",
				"this server keeps no idempotency keys (--idempotency-ttl 0); leave out %s", edge.KeyHeader)
		}
		k.ignored = true
	}
	return k.server.keys.Read(&k.ctx.Request.Header)
}

// execution is the execution of a generation or a pooling, which may be a stream.
type execution struct {
	*edge.Execution
	call       *call
	handedOver bool // to a recording
	left       bool

	// Copies for the time after the call, whose context serves further requests then.
	server   *Server
	warnings string
}

// answered answers with what Look or Begin has found, where the key is not free.
func (x *execution) answered(a *replay.Answer, fault *api.Error) *api.Error {
	if a == nil {
		return fault
	}
	edge.WriteReplay(x.call.ctx, a)
	if a.Stream {
		x.call.events(io.NopCloser(strings.NewReader(string(a.Body))))
	}
	return nil
}

// conclude ends the execution with its answer, and reports whether it is kept.
func (x *execution) conclude(a *replay.Answer) (kept bool) {
	a.Warnings = x.warnings
	if x.Claimed && !a.Stream {
		a.Warnings = string(x.call.ctx.Response.Header.Peek(warningsHeader))
	}
	kept = x.Conclude(a)
	if x.Lost && !a.Stream { // the head of a stream is sent
		edge.WarnLost(x.call.ctx)
	}
	return kept
}

// end leaves the server's running requests, unless a recording does. A claim that is
// left then is a panic's.
func (x *execution) end() {
	if x.handedOver || x.left {
		return
	}
	x.left = true
	x.Free()
	x.server.running.Leave()
}
