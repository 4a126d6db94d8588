// Package replay gives requests answers that were computed before: one that carries an
// idempotency key the answer of its first execution (Claims, Answer), and one that
// would be computed again bit by bit what was kept of it (Cache).
package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Request is what a client asks for under an idempotency key.
type Request struct {
	Tenant      string
	Key         string   // as the client sent it
	Fingerprint [32]byte // of the body: one key stands for one body
	// TTL is how long the key stands, counted from the beginning of its execution. An
	// execution that takes longer keeps its key until it ends.
	TTL time.Duration
}

// State says where a key stands.
type State uint8

// The states of a key, as Look and Begin find them.
const (
	Free     State = iota + 1 // Begin may give the caller the execution
	Begun                     // the caller is the one to execute the request
	InFlight                  // another execution is under way
	Answered                  // the answer is there
	Differs                   // the key stands for another body
)

// Claim is the right to execute one request once. It ends with Finish or Abandon.
type Claim struct {
	Tenant string
	Key    [32]byte // hash of the client's key
	ID     string
}

// Outcome is what Look or Begin found: a Claim with Begun, an Answer with Answered.
type Outcome struct {
	State  State
	Claim  Claim
	Answer []byte
}

// ErrClaimLost ends a claim that no longer stands: the process lost its lease, or the
// key its time, and the key was given to another execution or forgotten.
var ErrClaimLost = errors.New("the idempotency key was given to another execution meanwhile")

// ErrClaimTaken is ErrClaimLost where another execution has the key: its answer is the one that repetitions get, and this one's
// is not sent.
var ErrClaimTaken = fmt.Errorf("%w, whose answer counts", ErrClaimLost)

// MaxAnswerBytes bounds a stored answer.
const MaxAnswerBytes = 16 << 20

// Claims keeps keys and answers; internal/store has it. All methods may be called at
// the same time, also from several processes.
//
// A key is executed once. The exceptions: its claim was abandoned, its time is over,
// or the process that executed it died. A process holds its claims by a lease that it
// renews; once the lease of a dead process has run out, the next Begin with the same
// body is Begun, and until then it is InFlight. An execution whose process was only
// slow and lost its lease cannot store its answer: Finish says ErrClaimTaken where another one has begun, ErrClaimLost where the key
// is gone.
type Claims interface {
	// Look says where a key stands, and changes nothing: Free, InFlight, Answered or
	// Differs. So a request can be refused for other reasons before it takes its key.
	Look(ctx context.Context, r Request) (Outcome, error)
	// Begin asks for the execution of a request, whose key Look found Free. At most one
	// of several calls at the same time is Begun; the others get what Look would say
	// then. An error leaves no claim behind.
	Begin(ctx context.Context, r Request) (Outcome, error)
	// Finish stores the answer of a claim; it may be called again after an error.
	Finish(ctx context.Context, c Claim, answer []byte) error
	// Abandon gives a claim up: the next Begin may execute the request. A claim that
	// is lost is none to give up, and no error.
	Abandon(ctx context.Context, c Claim) error
}
