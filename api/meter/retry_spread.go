package meter

import (
	"errors"
	"maps"
	"sync"
	"time"

	"weir/scheduler/quota"
)

// RetrySpread is a Meter that tells refused callers of one limit per minute consecutive times to
// come back: the first when there is room for its request, the next when there is room for
// one more, and so on. All told the same time, all but one would be refused again.
//
// Nothing is kept for who was told a time: a caller that comes when there is room is let in. A
// time that has passed is forgotten.
type RetrySpread struct {
	Meter

	mu   sync.Mutex
	last map[limitKey]time.Time // that somebody was told
}

// limitKey names a limit.
type limitKey struct {
	tenant, model, account string
	kind                   quota.Kind
}

// maxTurns bounds the limits whose callers are told consecutive times at once.
const maxTurns = 4096

// NewRetrySpread returns a meter that counts as m does.
func NewRetrySpread(m Meter) *RetrySpread {
	return &RetrySpread{Meter: m, last: map[limitKey]time.Time{}}
}

// Reserve implements Meter.
func (t *RetrySpread) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	g, err := t.Meter.Reserve(who, ask)
	if r, ok := errors.AsType[*quota.Refusal](err); ok && r.Kind <= quota.OutputTokens && r.RetryAfter > 0 {
		r.RetryAfter = t.next(limitKey{who.Tenant, r.Model, accountOf(&who, r), r.Kind}, r, time.Now())
	}
	return g, err
}

// accountOf is that of the key whose limit refused; "" where it was the tenant's.
func accountOf(who *quota.Holder, r *quota.Refusal) string {
	if r.Key == "" {
		return ""
	}
	return who.KeyAccount
}

// next is how long a refused caller has to wait for its turn: for room, and until the one
// before it has taken its own. Beyond longestWait there are no turns, since clients wait no
// longer by themselves.
func (t *RetrySpread) next(k limitKey, r *quota.Refusal, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	needs := min(r.Need, r.Limit)
	at := now.Add(r.RetryAfter)
	if last, told := t.last[k]; told && last.After(now) {
		after := last.Add(time.Duration((needs*60_000+r.Limit-1)/r.Limit) * time.Millisecond)
		if after.After(at) {
			at = after
		}
	}
	if wait := at.Sub(now); wait > longestWait {
		return max(r.RetryAfter, longestWait)
	}
	if len(t.last) >= maxTurns {
		maps.DeleteFunc(t.last, func(_ limitKey, last time.Time) bool { return !last.After(now) })
	}
	if len(t.last) < maxTurns {
		t.last[k] = at
	}
	return at.Sub(now)
}
