// Package limiter lets few prompts be rendered and tokenised at once, so that the engine has most of the processors. Rates of
// requests and tokens are limited elsewhere, by quotas.
package limiter

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
// long prompt needs a permit, and while sequences run a short one does, too: few are given at once, fairly between tenants,
// and they rest. A client that hangs up while it waits for a permit is not tokenised.

// FreeBytes is the size up to which bodies need no permit while no sequence runs.
const FreeBytes = 16 << 10

const (
	tinyBytes     = 1 << 10          // bodies up to this size need none: a step takes many times as long as they do
	maxPermits    = 128              // requests of a tenant that have or want a permit
	permitTimeout = 30 * time.Second // the longest wait for one
	restShare     = 3                // a rest is this many times as long as the work before it
)

// Limiter lets few prompts be tokenised at once.
type Limiter struct {
	what    string // waits, for the refusals
	permits *semaphore.Semaphore
	busy    func() bool // sequences are running
}

// New leaves three of four cores to the engine, and on small machines
// all but one.
func New(what string, aborted <-chan struct{}, busy func() bool) *Limiter {
	return &Limiter{what: what, busy: busy, permits: semaphore.New(semaphore.Config{
		Permits: max(1, runtime.NumCPU()/4), PerTenant: maxPermits, Busy: busy, Rest: restShare, Timeout: permitTimeout, Closed: aborted,
	})}
}

// Needed reports whether a body of some bytes needs a permit.
func (l *Limiter) Needed(bytes int) bool {
	return bytes > FreeBytes || bytes > tinyBytes && l.busy()
}

// Permit is a request's permission to tokenise. One goroutine uses it. The permit of a
// request that needs none is nil, which never pauses.
type Permit struct {
	from  *Limiter
	own   *semaphore.Permit
	fault *api.Error // why the work was ended
}

// Taken is how many permits are taken or waited for.
func (l *Limiter) Taken() int { return l.permits.Pieces() }

// Acquire waits for a permit of a tenant. gone is closed when the client hangs up. The caller
// must release the permit.
func (l *Limiter) Acquire(gone <-chan struct{}, tenant string) (*Permit, *api.Error) {
	own, err := l.permits.Acquire(gone, tenant)
	if err != nil {
		return nil, l.fault(err)
	}
	return &Permit{from: l, own: own}, nil
}

// fault is why there is no permit.
func (l *Limiter) fault(err error) *api.Error {
	switch {
	case errors.Is(err, semaphore.ErrCancelled):
		return edge.ClientGone()
	case errors.Is(err, semaphore.ErrClosed):
		return edge.ShuttingDown()
	case errors.Is(err, semaphore.ErrFull):
		return Busy("too many " + l.what + " of your tenant; retry later")
	default:
		return Busy("too many " + l.what + ", and the request waited too long for its turn; retry later")
	}
}

// Busy refuses a request because too many others wait.
func Busy(message string) *api.Error {
	return api.Refuse("server_is_overloaded", message)
}

// Release gives the permit back.
func (p *Permit) Release() {
	if p != nil {
		p.own.Release()
	}
}

// pause is called between slices of work. It returns false when the work shall
// end, because of a hang-up or a shutdown; fault then says why.
func (p *Permit) pause() bool {
	if p.fault == nil {
		if err := p.own.Yield(); err != nil {
			p.fault = p.from.fault(err)
		}
	}
	return p.fault == nil
}

// breathe pauses if the last pause is longer ago than a slice: many short texts
// add up to one long piece of work.
func (p *Permit) breathe() {
	if p != nil {
		p.pause()
	}
}

// Continue is breathe between slices of work; false ends the work.
func (p *Permit) Continue() bool {
	p.breathe()
	return p.Fault() == nil
}

// Options adds to o where the work rests.
func (p *Permit) Options(o tokenizer.EncodeOptions) tokenizer.EncodeOptions {
	if p != nil {
		o.Pause = p.pause
	}
	return o
}

// Fault is the reason why the result is not needed any more; nil while it is.
func (p *Permit) Fault() *api.Error {
	if p == nil {
		return nil
	}
	return p.fault
}

// Encode gives the ids of spans. Where o has a limit, no more than that may
// come: what cannot fit is refused before it is encoded, or as soon as the ids
// are too many. part names the field that holds the text.
func (p *Permit) Encode(m *models.Model, part string, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	if least := m.Tokenizer.MinTokens(spans); o.Limit > 0 && least > o.Limit {
		return nil, promptTooLong(part, least, m.MaxModelLen)
	}
	ids, fault := p.Tokenise(m, spans, o)
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
func (p *Permit) Tokenise(m *models.Model, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	p.breathe()
	ids := m.Tokenizer.AppendSpans([]int32{}, spans, p.Options(o))
	return ids, p.Fault()
}

// Away is how long the work has rested or waited since it began.
func (p *Permit) Away() time.Duration {
	if p == nil {
		return 0
	}
	return p.own.Away()
}

// promptTooLong refuses a prompt whose tokens were not all counted; the words
// are those of contextExceeded.
func promptTooLong(part string, least, context int) *api.Error {
	return api.RefuseExceeded(api.Exceeded{Prompt: least, Context: context}, part,
		"This model's maximum context length is %d tokens. However, you requested at least %d tokens in the %s. Please reduce the length of the %s.",
		context, least, part, part)
}
