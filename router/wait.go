package router

import (
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

func positive(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && f > 0
}

func scaled(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(MaxWait)))
}
