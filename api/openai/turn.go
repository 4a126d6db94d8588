package openai

import (
	"runtime"
	"sync/atomic"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/tokenizer"
)

// Rendering and tokenising a long prompt takes as much processor time as many
// steps of the engine, and much memory. So a long prompt needs a turn: few are
// given at once, other requests wait for one, and while sequences are running the
// work of a turn pauses between slices of at most longestSlice.

const (
	freeBytes    = 16 << 10         // bodies up to this size need no turn: tokenising them takes less than a step
	maxTurnQueue = 128              // requests that wait for a turn
	turnTimeout  = 30 * time.Second // the longest wait for one
	longestSlice = time.Millisecond
	restShare    = 3 // a pause is this many times as long as the slice before it
	maxRest      = 20 * time.Millisecond
)

// turnstile lets few long prompts be tokenised at once.
type turnstile struct {
	what    string        // waits, for the refusals
	free    chan struct{} // one value for each turn that may be taken
	waiting atomic.Int64
	aborted <-chan struct{}
	busy    func() bool // sequences are running
}

// newTurnstile leaves three of four cores to the engine, and on small machines
// all but one.
func newTurnstile(what string, aborted <-chan struct{}, busy func() bool) *turnstile {
	turns := max(1, runtime.NumCPU()/4)
	s := &turnstile{what: what, free: make(chan struct{}, turns), aborted: aborted, busy: busy}
	for range turns {
		s.free <- struct{}{}
	}
	return s
}

// turn is a request's permission to tokenise. One goroutine uses it. The turn of a
// request with a short body is nil, which never pauses.
type turn struct {
	from  *turnstile
	gone  <-chan struct{}
	began time.Time  // of this slice of work
	fault *api.Error // why the work was ended

	rested time.Duration // between slices
}

// take waits for a turn. gone is closed when the client hangs up. The caller
// must end the turn.
func (s *turnstile) take(gone <-chan struct{}) (*turn, *api.Error) {
	if s.waiting.Add(1) > maxTurnQueue {
		s.waiting.Add(-1)
		return nil, turnsBusy("too many " + s.what + "; retry later")
	}
	defer s.waiting.Add(-1)
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	select {
	case <-s.free:
		return &turn{from: s, gone: gone, began: time.Now()}, nil
	case <-gone:
		return nil, edge.ClientGone()
	case <-s.aborted:
		return nil, edge.ShuttingDown()
	case <-timer.C:
		return nil, turnsBusy("too many " + s.what + ", and the request waited too long for its turn; retry later")
	}
}

func turnsBusy(message string) *api.Error {
	return api.Refuse("server_is_overloaded", message)
}

// end gives the turn back.
func (t *turn) end() {
	if t != nil {
		t.from.free <- struct{}{}
	}
}

// pause is called between slices of work. It returns false when the work shall
// end, because of a hang-up or a shutdown; fault then says why.
func (t *turn) pause() bool {
	if t.from.busy() {
		timer := time.NewTimer(min(restShare*time.Since(t.began), maxRest))
		defer timer.Stop()
		rests := time.Now()
		select {
		case <-timer.C:
		case <-t.gone:
		case <-t.from.aborted:
		}
		t.rested += time.Since(rests)
	}
	select {
	case <-t.gone:
		t.fault = edge.ClientGone()
	case <-t.from.aborted:
		t.fault = edge.ShuttingDown()
	default:
	}
	t.began = time.Now()
	return t.fault == nil
}

// breathe pauses if the last pause is longer ago than a slice: many short texts
// add up to one long piece of work.
func (t *turn) breathe() {
	if t != nil && time.Since(t.began) > longestSlice {
		t.pause()
	}
}

// goOn is breathe between slices of work; false ends the work.
func (t *turn) goOn() bool {
	t.breathe()
	return t.ended() == nil
}

// options adds to o where the work rests.
func (t *turn) options(o tokenizer.EncodeOptions) tokenizer.EncodeOptions {
	if t != nil {
		o.Pause = t.pause
	}
	return o
}

// ended is the reason why the result is not needed any more; nil while it is.
func (t *turn) ended() *api.Error {
	if t == nil {
		return nil
	}
	return t.fault
}

// encode gives the ids of spans. Where o has a limit, no more than that may
// come: what cannot fit is refused before it is encoded, or as soon as the ids
// are too many. part names the field that holds the text.
func (t *turn) encode(m *Model, part string, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	if least := m.Tokenizer.MinTokens(spans); o.Limit > 0 && least > o.Limit {
		return nil, promptTooLong(part, least, m.MaxModelLen)
	}
	ids, fault := t.tokenise(m, spans, o)
	if fault != nil {
		return nil, fault
	}
	if o.Limit > 0 && len(ids) > o.Limit {
		return nil, promptTooLong(part, len(ids), m.MaxModelLen)
	}
	return ids, nil
}

// tokenise gives the ids of spans, as far as o's limit. The fault is that nobody
// waits for them any more.
func (t *turn) tokenise(m *Model, spans []tokenizer.Span, o tokenizer.EncodeOptions) ([]int32, *api.Error) {
	t.breathe()
	ids := m.Tokenizer.AppendSpans([]int32{}, spans, t.options(o))
	return ids, t.ended()
}

// countedLimit is how far a prompt is counted that must fit the context. Twice
// the context, so that whoever is a little above it learns by how much.
func (m *Model) countedLimit() int { return 2 * m.MaxModelLen }

// promptTooLong refuses a prompt whose tokens were not all counted; the words
// are those of contextExceeded.
func promptTooLong(part string, least, context int) *api.Error {
	return badRequest("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested at least %d tokens in the %s. Please reduce the length of the %s.",
		context, least, part, part)
}
