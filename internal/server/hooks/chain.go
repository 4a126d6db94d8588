package hooks

import (
	"time"

	"weir/api/edge"
)

// observer is one of those that are told of the edge's requests.
type observer struct {
	name  string
	why   string // why it has its place, behind those above it and before those below it
	hooks edge.Hooks
}

// joined calls all observers in their order. What only one of them listens to is called without a detour: gaps between tokens
// are told by the thousand.
func joined(list []observer) edge.Hooks {
	var h edge.Hooks
	for i := range list {
		o := &list[i].hooks
		if h.StartTrace == nil {
			h.StartTrace = o.StartTrace
		}
		h.OnRequestStart = both(h.OnRequestStart, o.OnRequestStart)
		h.OnRequestFinish = both(h.OnRequestFinish, o.OnRequestFinish)
		h.OnRefused = both(h.OnRefused, o.OnRefused)
		h.OnWork = both(h.OnWork, o.OnWork)
		h.OnDisconnect = both(h.OnDisconnect, o.OnDisconnect)
		if first, next := h.OnFirstToken, o.OnFirstToken; first == nil {
			h.OnFirstToken = next
		} else if next != nil {
			h.OnFirstToken = func(r *edge.RequestStart, since time.Duration) { first(r, since); next(r, since) }
		}
		if first, next := h.OnTokenGap, o.OnTokenGap; first == nil {
			h.OnTokenGap = next
		} else if next != nil {
			h.OnTokenGap = func(r *edge.RequestStart, gap time.Duration, slowest bool) {
				first(r, gap, slowest)
				next(r, gap, slowest)
			}
		}
		if first, next := h.OnResponse, o.OnResponse; first == nil {
			h.OnResponse = next
		} else if next != nil {
			h.OnResponse = func(route, method string, status int, took time.Duration) {
				first(route, method, status, took)
				next(route, method, status, took)
			}
		}
		if first, next := h.OnClientRetry, o.OnClientRetry; first == nil {
			h.OnClientRetry = next
		} else if next != nil {
			h.OnClientRetry = func() { first(); next() }
		}
		if first, next := h.OnKey, o.OnKey; first == nil {
			h.OnKey = next
		} else if next != nil {
			h.OnKey = func(how string, err error) { first(how, err); next(how, err) }
		}
		if first, next := h.OnPanic, o.OnPanic; first == nil {
			h.OnPanic = next
		} else if next != nil {
			h.OnPanic = func(where string, value any, stack []byte) { first(where, value, stack); next(where, value, stack) }
		}
	}
	return h
}

// both calls two hooks, of which either may be nil, one behind the other.
func both[T any](first, next func(T)) func(T) {
	switch {
	case first == nil:
		return next
	case next == nil:
		return first
	}
	return func(v T) { first(v); next(v) }
}
