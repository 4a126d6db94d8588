package generation

import (
	"io"
	"runtime/debug"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/internal/inference"
)

// EventStream is a response body: it reads as server-sent events. The
// connection's goroutine calls Read, which waits for the backend, the client
// and the clock, so a stream costs no goroutine and no pipe of its own.
//
// There is one delta per token that yields text, then one with the finish
// reason; an error is an event of its own, and nothing follows it.
type EventStream struct {
	g       *Generation
	Encoder answer.Encoder
	leave   func() // tells the server that the stream is over

	delta answer.Delta // being written
	buf   []byte       // written, not read yet: buf[read:]
	read  int

	refusal *api.Error // ended the generation before a byte was written; only await sets it
	waiting bool       // await is running

	timer    *time.Timer
	beat     time.Time // when the next heartbeat is due
	progress inference.Progress
	over     bool
	failed   *api.Error // whose event ended the stream
	closed   bool
}

// ChunkBytes is how much a Read gathers before it returns although more news
// is there; it is what the HTTP server takes at once.
const ChunkBytes = 4 << 10

// NewEventStream answers with a generation; leave tells the server that the stream is over.
func NewEventStream(g *Generation, leave func()) *EventStream {
	r := &EventStream{g: g, Encoder: g.Job.Encoder(), leave: leave}
	r.rest()
	r.timer = time.NewTimer(r.untilTimer())
	return r
}

// rest sets the next heartbeat, because something was sent just now.
func (r *EventStream) rest() { r.beat = time.Now().Add(r.g.runner.HeartbeatEvery) }

// Read blocks until there are events. A panic below it ends this stream with
// an error event and nothing else.
func (r *EventStream) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked(v)
			n, err = r.copy(p), nil
		}
	}()
	for r.read == len(r.buf) {
		if r.over {
			return 0, io.EOF
		}
		r.buf, r.read = r.buf[:0], 0
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	return r.copy(p), nil
}

func (r *EventStream) copy(p []byte) int {
	n := copy(p, r.buf[r.read:])
	r.read += n
	return n
}

func (r *EventStream) panicked(v any) {
	if h := r.g.runner.Hooks.OnPanic; h != nil {
		h("stream", v, debug.Stack())
	}
	r.over = true
	r.buf, r.read = r.buf[:0], 0
	r.fault(api.Refuse("internal_error", "the server hit a bug while it wrote this stream"))
}

// Failure is the error whose event ended the stream, nil where none did.
func (r *EventStream) Failure() *api.Error { return r.failed }

// IsComplete reports whether the last byte was read.
func (r *EventStream) IsComplete() bool { return r.over && r.read == len(r.buf) }

// Close is called by the HTTP server after the last byte, or when the
// connection broke.
func (r *EventStream) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.timer.Stop()
	r.g.runner.Hooks.Guarded("stream", r.g.End)
	r.leave()
	return nil
}

// fill writes what there is to buf; if that is nothing, it waits once.
func (r *EventStream) fill() error {
	if r.news(); len(r.buf) > 0 || r.over {
		r.rest()
		return nil
	}
	r.timer.Reset(r.untilTimer())
	switch r.g.wait(r.timer.C) {
	case wokeGone:
		r.over = true
		if fault := r.g.hungUp(); r.g.Job.Background {
			r.failed, r.buf = fault, r.Encoder.AppendFault(r.buf, fault)
			return nil
		}
		return edge.ErrHungUp
	case wokeAbort:
		r.fault(edge.ShuttingDown())
	case wokeTimer:
		r.tick()
	case wokeNews:
	}
	return nil
}

// news handles the events that the backend has sent.
func (r *EventStream) news() {
	for len(r.buf) < ChunkBytes {
		if r.g.open == 0 {
			r.over = true
			r.buf = r.Encoder.AppendEnd(r.buf, r.g.usage())
			return
		}
		c, more, err := r.g.step()
		if err != nil {
			r.fault(edge.Fault(err))
			return
		}
		if !more {
			return
		}
		for c != nil && c.Next(&r.delta) {
			r.buf = r.Encoder.AppendDelta(r.buf, &r.delta)
		}
	}
}

// Await waits until there is something to send: events of the backend, or a heartbeat
// that is due. What ends the generation before is an error with a status of its own,
// which clients handle better than an event in a stream: SDKs try again. The progress
// that some requests ask for begins at once.
func (r *EventStream) Await() *api.Error {
	r.waiting = true
	defer func() { r.waiting = false }()
	for !r.wantsProgress() && time.Now().Before(r.beat) {
		if r.news(); len(r.buf) > 0 || r.over {
			r.rest()
			return r.refusal
		}
		r.timer.Reset(r.untilTimer())
		switch r.g.wait(r.timer.C) {
		case wokeGone:
			return r.g.hungUp()
		case wokeAbort:
			r.fault(edge.ShuttingDown())
			return r.refusal
		case wokeTimer, wokeNews:
		}
	}
	return nil
}

// fault ends the stream with an error event.
func (r *EventStream) fault(e *api.Error) {
	r.over, r.failed = true, e
	r.g.Fail(e)
	if r.waiting && len(r.buf) == 0 {
		r.refusal = e
		return
	}
	r.buf = r.Encoder.AppendFault(r.buf, e)
}
