package inference

import (
	"errors"
	"fmt"
	"time"
)

// Sentinel errors; the API has one table that maps them to HTTP statuses.
var (
	ErrContextLength       = errors.New("context length exceeded")                         // 400: longer than the model's context
	ErrNeverFits           = errors.New("request can never fit")                           // 400: more KV blocks than the pool has
	ErrInvalid             = errors.New("invalid request")                                 // 400: a field the engine cannot serve
	ErrNoAdapter           = errors.New("no such adapter")                                 // 404: Request.Adapter, which may have been unloaded meanwhile
	ErrSchema              = errors.New("feature schema differs")                          // 409: rows built for another version of the features
	ErrQueueFull           = errors.New("queue is full")                                   // 503: bounded queue at its limit
	ErrTenantQueueFull     = errors.New("the tenant's share of the queue is full")         // 429: others may still wait
	ErrQueueTimeout        = errors.New("the longest time to wait passed in the queue")    // 503: Request.WaitUntil
	ErrShed                = errors.New("shed from the queue in favour of other requests") // 503: see admission
	ErrDeadline            = errors.New("deadline passed")                                 // 408: Request.FirstTokenBy or DoneBy
	ErrDeadlineUnreachable = errors.New("deadline cannot be met")                          // 429: refused at once, by the estimate
	ErrUnavailable         = errors.New("engine is not serving")                           // 503: loading, draining or stopped
	ErrCancelled           = errors.New("request was cancelled")                           // the caller's own cancel
	ErrSlowConsumer        = errors.New("client reads too slowly")                         // the event ring overflowed
	ErrInternal            = errors.New("internal engine error")                           // 500: a recovered panic, or a fault
	ErrFormatTooComplex    = errors.New("the format of the answer takes too much work")    // 400: a constraint's limit of work or memory
	ErrConstraint          = errors.New("constrained decoding failed")                     // 500: a grammar that allows nothing more, or broke
	ErrOutOfCache          = errors.New("kv cache is exhausted")                           // the protected request alone cannot grow
)

// LimitError wraps one of the sentinels with the counts a user needs to act.
type LimitError struct {
	Err    error  // sentinel
	What   string // "prompt tokens + max_tokens", "KV blocks", "waiting requests"
	Need   int
	Limit  int
	Remedy string // the way out, as a clause: "shorten the prompt or raise --max-model-len"

	RetryAfter time.Duration // when another try is worth while; 0 is unknown
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %s %d, limit %d; %s", e.Err, e.What, e.Need, e.Limit, e.Remedy)
}

func (e *LimitError) Unwrap() error { return e.Err }
