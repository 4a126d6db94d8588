// Package turnstile lets few prompts be rendered and tokenised at once, so that the engine has most of the processors.
package turnstile

import (
	"errors"
	"runtime"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/internal/semaphore"
	"weir/tokenizer"
)

// Rendering and tokenising a prompt takes processor time beside the engine's steps, and much memory where it is long. So a
// long prompt needs a turn, and while sequences run a short one does, too: few are given at once, fairly between tenants,
// and they rest. A client that hangs up while it waits for a turn is not tokenised.

// FreeBytes is the size up to which bodies need no turn while no sequence runs.
const FreeBytes = 16 << 10

const (
	tinyBytes   = 1 << 10          // bodies up to this size need none: a step takes many times as long as they do
	maxTurns    = 128              // requests of a tenant that have or want a turn
	turnTimeout = 30 * time.Second // the longest wait for one
	restShare   = 3                // a rest is this many times as long as the work before it
)

// Turnstile lets few prompts be tokenised at once.
type Turnstile struct {
	what  string // waits, for the refusals
	queue *semaphore.Semaphore
	busy  func() bool // sequences are running
}

// New leaves three of four cores to the engine, and on small machines
// all but one.
func New(what string, aborted <-chan struct{}, busy func() bool) *Turnstile {
	return &Turnstile{what: what, busy: busy, queue: semaphore.New(semaphore.Config{Permits: max(1, runtime.NumCPU()/4), PerTenant: maxTurns, Busy: busy, Rest: restShare, Timeout: turnTimeout, Closed: aborted})}
}

// Needed reports whether a body of some bytes needs a turn.
func (s *Turnstile) Needed(bytes int) bool {
	return bytes > FreeBytes || bytes > tinyBytes && s.busy()
}

// Turn is a request's permission to tokenise. One goroutine uses it. The turn of a
// request that needs none is nil, which never pauses.
type Turn struct {
	from  *Turnstile
	own   *semaphore.Permit
	fault *api.Error // why the work was ended
}

// Taken is how many turns are taken or waited for.
func (s *Turnstile) Taken() int { return s.queue.Pieces() }

// Take waits for a turn of a tenant. gone is closed when the client hangs up. The caller
// must end the turn.
func (s *Turnstile) Take(gone <-chan struct{}, tenant string) (*Turn, *api.Error) {
	own, err := s.queue.Acquire(gone, tenant)
	if err != nil {
		return nil, s.fault(err)
	}
	return &Turn{from: s, own: own}, nil
}

// fault is why there is no turn.
func (s *Turnstile) fault(err error) *api.Error {
	switch {
	case errors.Is(err, semaphore.ErrCancelled):
		return edge.ClientGone()
	case errors.Is(err, semaphore.ErrClosed):
		return edge.ShuttingDown()
	case errors.Is(err, semaphore.ErrFull):
		return Busy("too many " + s.what + " of your tenant; retry later")
	default:
		return Busy("too many " + s.what + ", and the request waited too long for its turn; retry later")
	}
}

// Busy refuses a request because too many others wait.
func Busy(message string) *api.Error {
	return api.Refuse("server_is_overloaded", message)
}

// End gives the turn back.
func (t *Turn) End() {
	if t != nil {
		t.own.Release()
	}
}

// pause is called between slices of work. It returns false when the work shall
// end, because of a hang-up or a shutdown; fault then says why.
func (t *Turn) pause() bool {
	if t.fault == nil {
		if err := t.own.Yield(); err != nil {
			t.fault = t.from.fault(err)
		}
	}
	return t.fault == nil
}

// breathe pauses if the last pause is longer ago than a slice: many short texts
// add up to one long piece of work.
func (t *Turn) breathe() {
	if t != nil {
		t.pause()
	}
}

// Continue is breathe between slices of work; false ends the work.
func (t *Turn) Continue() bool {
	t.breathe()
	return t.Fault() == nil
}

// Options adds to o where the work rests.
func (t *Turn) Options(o tokenizer.EncodeOptions) tokenizer.EncodeOptions {
	if t != nil {
		o.Pause = t.pause
	}
	return o
}

// Fault is the reason why the result is not needed any more; nil while it is.
func (t *Turn) Fault() *api.Error {
	if t == nil {
		return nil
	}
	return t.fault
}

// Encode gives the ids of spans. Where o has a limit, no more than that may
// come: what cannot fit is refused before it is encoded, or as soon as the ids
// are too many. part names the field that holds the text.
func (t *Turn) Encode(m *models.Model, part string, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	if least := m.Tokenizer.MinTokens(spans); o.Limit > 0 && least > o.Limit {
		return nil, promptTooLong(part, least, m.MaxModelLen)
	}
	ids, fault := t.Tokenise(m, spans, o)
	if fault != nil {
		return nil, fault
	}
	if o.Limit > 0 && len(ids) > o.Limit {
		return nil, promptTooLong(part, len(ids), m.MaxModelLen)
	}
	return ids, nil
}

// Tokenise gives the ids of spans, as far as o's limit. The fault is that no client
// waits for them any more.
func (t *Turn) Tokenise(m *models.Model, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	t.breathe()
	ids := m.Tokenizer.AppendSpans([]int32{}, spans, t.Options(o))
	return ids, t.Fault()
}

// Away is how long the turn has rested or waited since it began.
func (t *Turn) Away() time.Duration {
	if t == nil {
		return 0
	}
	return t.own.Away()
}

// promptTooLong refuses a prompt whose tokens were not all counted; the words
// are those of contextExceeded.
func promptTooLong(part string, least, context int) *api.Error {
	return api.RefuseParam("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested at least %d tokens in the %s. Please reduce the length of the %s.",
		context, least, part, part)
}
