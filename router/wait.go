package router

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxWait bounds what a server may ask for: a day.
const MaxWait = 24 * time.Hour

// WaitOf is the time that a server's answer asks to wait before the next request: retry-after-ms, or
// Retry-After as seconds, fractions allowed, or as a date. 0 is none.
func WaitOf(h http.Header, now time.Time) time.Duration {
	if ms, ok := positive(h.Get("Retry-After-Ms")); ok {
		return scaled(ms, time.Millisecond)
	}
	after := h.Get("Retry-After")
	if s, ok := positive(after); ok {
		return scaled(s, time.Second)
	}
	if at, err := http.ParseTime(after); err == nil {
		return min(max(at.Sub(now), 0), MaxWait)
	}
	return 0
}

// RetryAdvice is what a server's refusal says of trying again.
type RetryAdvice struct {
	After time.Duration // when that is worth while; 0: not known
	Never bool          // clients shall not send the same request again by themselves
}

// RetryAdviceOf is the advice of a refusal: x-should-retry and the time to wait. Where it says nothing its status decides.
func RetryAdviceOf(status int, h http.Header, now time.Time) RetryAdvice {
	a := RetryAdvice{After: WaitOf(h, now)}
	transient := status == http.StatusTooManyRequests || status >= http.StatusInternalServerError && status != http.StatusNotImplemented
	switch said := h.Get("X-Should-Retry"); {
	case said == "false":
		a.Never = true
	case said == "true" || transient:
		a.After = cmp.Or(a.After, time.Second)
	default:
		a.Never = a.After == 0
	}
	return a
}

// RetryAdviceError is a refusal by another server, with its advice.
type RetryAdviceError struct {
	Err    error
	Advice RetryAdvice
}

func (e *RetryAdviceError) Error() string { return e.Err.Error() }

func (e *RetryAdviceError) Unwrap() error { return e.Err }

func positive(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && f > 0
}

func scaled(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(MaxWait)))
}
