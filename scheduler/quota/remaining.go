package quota

import "time"

// Remaining is what is left of the limits per minute, as the headers of an answer
// tell it.
type Remaining struct {
	Requests, Tokens Window
}

// Window is one limit per minute.
type Window struct {
	Limit int64 // 0: there is none
	Left  int64
	Reset time.Duration // until all of it is left, if nothing else is asked for
}

// tighter is the window with less left. Left alone decides: it is what the next
// request meets.
func tighter(a, b Window) Window {
	if a.Limit == 0 || b.Limit != 0 && b.Left < a.Left {
		return b
	}
	return a
}

func (s *State) window(l *Limits, k Kind) Window {
	limit := l.bucket(k)
	if limit <= 0 {
		return Window{}
	}
	w := Window{Limit: limit, Left: min(max(s.room(k, limit), 0), limit)}
	if s.Level[k] > 0 || s.heldIn(k) > 0 {
		w.Reset = s.wait(k, limit, limit)
	}
	return w
}

// add takes in the windows of a state: of several, the tightest is told.
func (r *Remaining) add(s *State, l *Limits) {
	r.Requests = tighter(r.Requests, s.window(l, Requests))
	for _, k := range [...]Kind{Tokens, InputTokens, OutputTokens} {
		r.Tokens = tighter(r.Tokens, s.window(l, k))
	}
}
