package openai

import (
	"errors"
	"io"
	"runtime/debug"
	"strconv"
	"time"

	"weir/api"
	"weir/internal/inference"
)

// eventStream is a response body: it reads as server-sent events. The
// connection's goroutine calls Read, which waits for the backend, the client
// and the clock, so a stream costs no goroutine and no pipe of its own.
//
// Chunks follow the OpenAI API as its clients parse it: data lines only, the
// role together with the first text, one chunk per token that yields text,
// then one with the finish reason; an error is an event of its own and is not
// followed by [DONE].
type eventStream struct {
	g     *generation
	leave func() // tells the server that the stream is over

	head []byte // of every chunk, up to choices' bracket
	buf  []byte // written, not read yet: buf[read:]
	read int

	timer     *time.Timer
	beat      time.Time // when the next heartbeat is due
	progress  inference.Progress
	promptIDs bool // prompt_token_ids are still due
	over      bool
	closed    bool
}

// chunkBytes is how much a Read gathers before it returns although more news
// is there; it is what the HTTP server takes at once.
const chunkBytes = 4 << 10

const (
	doneEvent = "data: [DONE]\n\n"
	heartbeat = ": ping\n"
)

var errHungUp = errors.New("the client closed the connection")

func newEventStream(g *generation, leave func()) *eventStream {
	object := "text_completion"
	if g.job.chat {
		object = "chat.completion.chunk"
	}
	r := &eventStream{g: g, leave: leave, promptIDs: g.job.chat && g.job.params.returnTokenIDs}
	r.head = g.appendHead([]byte("data: "), object)
	r.rest()
	r.timer = time.NewTimer(r.untilTimer())
	return r
}

// rest sets the next heartbeat, because something was sent just now.
func (r *eventStream) rest() { r.beat = time.Now().Add(r.g.server.config.HeartbeatEvery) }

// Read blocks until there are events. A panic below it ends this stream with
// an error event and nothing else.
func (r *eventStream) Read(p []byte) (n int, err error) {
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

func (r *eventStream) copy(p []byte) int {
	n := copy(p, r.buf[r.read:])
	r.read += n
	return n
}

func (r *eventStream) panicked(v any) {
	if h := r.g.server.config.Hooks.OnPanic; h != nil {
		h("stream", v, debug.Stack())
	}
	r.over = true
	r.buf, r.read = r.buf[:0], 0
	r.fault(internalError("the server hit a bug while it wrote this stream"))
}

// Close is called by the HTTP server after the last byte, or when the
// connection broke.
func (r *eventStream) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.timer.Stop()
	r.g.end()
	r.leave()
	return nil
}

// fill writes what there is to buf; if that is nothing, it waits once.
func (r *eventStream) fill() error {
	if r.news(); len(r.buf) > 0 || r.over {
		r.rest()
		return nil
	}
	r.timer.Reset(r.untilTimer())
	switch r.g.wait(r.timer.C) {
	case wokeGone:
		r.over = true
		r.g.hungUp()
		return errHungUp
	case wokeAbort:
		r.fault(shuttingDown())
	case wokeTimer:
		r.tick()
	case wokeNews:
	}
	return nil
}

// news handles what the backend has sent.
func (r *eventStream) news() {
	for len(r.buf) < chunkBytes {
		if r.g.open == 0 {
			r.finish()
			return
		}
		c, more, err := r.g.step()
		if err != nil {
			r.fault(fromBackend(err))
			return
		}
		if !more {
			return
		}
		if c != nil {
			r.choice(c)
		}
	}
}

// choice writes what a choice has: a chunk for its text, one for its end.
func (r *eventStream) choice(c *choice) {
	ended := c.finish != inference.FinishNone
	if len(c.text) == 0 && !ended {
		return
	}
	if r.g.job.echo && !c.began {
		r.g.echoed(c)
	}
	if len(c.text) > 0 || c.ready() > 0 {
		c.holdReason = true
		r.chunk(c)
		c.holdReason = false
	}
	if ended {
		r.chunk(c)
	}
}

// chunk writes one chunk with all that the choice may give, and takes it.
func (r *eventStream) chunk(c *choice) {
	n := c.ready()
	r.buf = append(r.buf, r.head...)
	if r.g.job.chat {
		r.delta(c, n)
	} else {
		r.buf = r.g.appendTextChoice(r.buf, c, n, !c.began)
	}
	r.tail()
	c.taken(n)
}

// delta writes the choice of a chat's chunk.
func (r *eventStream) delta(c *choice, records int) {
	r.buf = append(r.buf, `{"index":`...)
	r.buf = strconv.AppendInt(r.buf, int64(c.index), 10)
	r.buf = append(r.buf, `,"delta":{`...)
	if !c.began {
		r.buf = append(r.buf, `"role":"assistant",`...)
	}
	if !c.began || len(c.text) > 0 {
		r.buf = append(r.buf, `"content":`...)
		r.buf = api.AppendString(r.buf, c.text)
	}
	r.buf = append(r.buf, `},"logprobs":`...)
	r.buf = r.g.appendLogprobs(r.buf, c, records)
	r.buf = r.g.appendEnd(r.buf, c)
}

// tail ends a chunk after its choices.
func (r *eventStream) tail() {
	r.buf = append(r.buf, ']')
	if r.g.job.params.includeUsage {
		r.buf = append(r.buf, `,"usage":null`...)
	}
	if r.promptIDs {
		r.promptIDs = false
		r.buf = append(r.buf, `,"prompt_token_ids":`...)
		r.buf = appendTokens(r.buf, r.g.job.prompts[0].ids)
	}
	r.buf = append(r.buf, "}\n\n"...)
}

// finish writes the usage chunk where asked for, and the end.
func (r *eventStream) finish() {
	r.over = true
	if r.g.job.params.includeUsage {
		r.buf = append(r.buf, r.head...)
		r.buf = append(r.buf, `],"usage":`...)
		r.buf = r.g.appendUsage(r.buf)
		r.buf = append(r.buf, "}\n\n"...)
	}
	r.buf = append(r.buf, doneEvent...)
}

// fault ends the stream with an error event. A client must never take a
// broken answer for a short one, so no [DONE] follows.
func (r *eventStream) fault(e *api.Error) {
	r.over = true
	r.g.fail(e)
	r.buf = append(r.buf, "data: "...)
	r.buf = e.AppendJSON(r.buf)
	r.buf = append(r.buf, "\n\n"...)
}
