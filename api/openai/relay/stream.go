package relay

import (
	"bytes"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/router"
	"weir/router/chunk"
)

// Stream is the body of a relayed stream: it reads as the upstream sends.
type Stream struct {
	exchange *Exchange
	line     []byte // of the answer, not complete yet; it passes once it is
	long     bool   // a line that is too long to be read is passing
	out      []byte // may be passed on: out[read:]
	read     int
	done     bool // the upstream has sent the end of the answer
	last     bool // and the empty line behind it
	name     bool // the last line was the name of an event, whose data is to come

	dropped bool // the last line was left out, and what ends its event is to be, too
	over    bool // nothing but out is to come

	direct  api.Direct // to the client; its zero value: all is read
	started bool       // a piece was read, and the header has gone before it
	unsent  []byte     // of the last chunk, what the client had no room for
	lost    error      // what writing to it failed with

	silent bool // the reader of the stream writes its fault

	begun    []byte // of Responses: the event that began the stream, which one that breaks repeats
	sequence int64  // of Responses: of the last event

	failed *api.Error // what rest says
}

// NewStream passes the events of an answer on, by the direct way to the client where there is one.
func NewStream(p *Exchange, direct api.Direct) *Stream { return &Stream{exchange: p, direct: direct} }

// NewUnseenStream reads the events of an answer that no client gets: what broke it is its Failure.
func NewUnseenStream(p *Exchange) *Stream { return &Stream{exchange: p, silent: true} }

// maxLineBytes bounds what is kept of a line; a longer one passes as it is, unread.
const maxLineBytes = 1 << 20

// Read passes on what has come, by whole lines. A stream that breaks ends with an error
// event: a client must never take a broken answer for a short one.
func (r *Stream) Read(buf []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			if h := r.exchange.Relay.Hooks.OnPanic; h != nil {
				h("stream", v, debug.Stack())
			}
			r.over, n, err = true, 0, io.ErrUnexpectedEOF
		}
	}()
	for r.read == len(r.out) {
		if r.over {
			return 0, io.EOF
		}
		if err := r.follow(); err != nil {
			return 0, err
		}
		r.out, r.read = r.out[:0], 0
		n, err := r.exchange.Answer.Events.Read(buf)
		if r.look(buf[:n]); err != nil {
			if err = r.stop(err); err != nil {
				return 0, err
			}
		}
	}
	n = copy(buf, r.out[r.read:])
	r.read += n
	r.started = true
	return n, nil
}

// lengthRoom is where the length of a chunk stands before its data: eight digits of 16, and the end of the line.
const lengthRoom = "00000000\r\n"

// follow writes to the client what comes, as long as nothing needs Read. The error is that of a write.
func (r *Stream) follow() error {
	stream, ok := r.exchange.Answer.Events.(router.Follower)
	if !ok || !r.started || !r.direct.Can() {
		return nil
	}
	for {
		r.unsent = nil
		stream.Follow(r.send)
		if r.lost == nil && len(r.unsent) > 0 {
			if _, r.lost = r.direct.Write(r.unsent); r.lost == nil {
				continue
			}
		}
		return r.lost
	}
}

// send passes a piece on as a chunk (RFC 9112, 7.1), and reports whether the client had room for all of it.
func (r *Stream) send(piece []byte) bool {
	r.out = append(r.out[:0], lengthRoom...)
	if r.look(piece); len(r.out) == len(lengthRoom) {
		return true
	}
	from := len(lengthRoom) - len("\r\n")
	for n := len(r.out) - len(lengthRoom); n > 0; n >>= 4 {
		from--
		r.out[from] = "0123456789abcdef"[n&15]
	}
	r.out = append(r.out, "\r\n"...)
	sent, err := r.direct.TryWrite(r.out[from:])
	r.unsent, r.lost = r.out[from+sent:], err
	return err == nil && len(r.unsent) == 0
}

// stop notes how the upstream's stream ended, and with what the client's does. A line that broke off is
// dropped where an error follows: clients would fail at its torn JSON, and not read the error.
func (r *Stream) stop(err error) error {
	r.over = true
	rest := r.line
	r.line = nil
	if errors.Is(err, io.EOF) {
		r.out = append(r.out, rest...)
		return nil
	}
	fault := r.exchange.broken(err)
	if fault.Status == edge.StatusHungUp {
		return edge.ErrHungUp
	}
	if r.failed = fault; r.silent {
		return nil
	}
	if !r.name { // the error takes the place of an event of which only the name has passed
		r.out = append(r.out, "\n\n"...)
	}
	r.out = r.appendFault(r.out, fault)
	return nil
}

// look reads the lines of a piece of the stream, and passes those on that are complete.
func (r *Stream) look(piece []byte) {
	for len(piece) > 0 {
		line, rest, complete := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		if r.long || !complete || len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		switch {
		case complete && r.long:
			r.out = append(append(r.out, line...), '\n')
		case complete:
			r.appendLine(line)
		case len(line) > maxLineBytes:
			r.long = true
			r.out = append(r.out, line...)
		default:
			return
		}
		r.line, r.long = r.line[:0], r.long && !complete
	}
}

// appendLine reads a line, and appends what of it the client gets.
func (r *Stream) appendLine(line []byte) {
	if dropped := r.dropped; dropped {
		if r.dropped = false; len(bytes.TrimSpace(line)) == 0 {
			return
		}
	}
	whole := true
	if c, line := r.event(line); c != nil {
		r.out, whole = r.exchange.appendChunk(r.out, line, c)
	} else {
		r.out = appendUnderName(r.out, line, r.exchange.Name)
	}
	if r.dropped = !whole; whole {
		r.out = append(r.out, '\n')
	}
}

// event reads one line, and gives what the client gets of it: of a chat or a completion, that is still to be read out of the chunk.
func (r *Stream) event(line []byte) (*chunk.Chunk, []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if r.name = !ok && bytes.HasPrefix(line, []byte("event:")); !ok {
		r.last = r.last || r.done && len(bytes.TrimSpace(line)) == 0
		return nil, line
	}
	res := &r.exchange.Result
	res.LastToken = time.Now()
	if res.FirstToken.IsZero() {
		res.FirstToken = res.LastToken
		r.exchange.inTime()
		if h := r.exchange.Relay.Hooks.OnFirstToken; h != nil {
			h(&res.RequestStart, res.FirstToken.Sub(res.Arrived))
		}
	}
	r.exchange.Texts.Read(r.exchange.Form, data)
	if r.exchange.Form == ChatForm && bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		r.done = true
		if !r.silent {
			r.out = r.exchange.appendOwnUsage(r.out)
		}
		return nil, line
	}
	c := r.exchange.Account.Chunk(data)
	if c == nil {
		return nil, line
	}
	over := false
	switch r.exchange.Form {
	case ChatForm:
		if c.HasUsage() || c.Finished != 0 {
			r.exchange.Read(data, c)
		}
		return c, line
	case ResponseForm:
		over = r.responseEvent(data, c)
	case MessageForm:
		over = r.messageEvent(data, c)
	}
	if at, own := r.exchange.correction(data, c, over); own != nil {
		head := len(line) - len(data)
		line = slices.Concat(line[:head+at.From], own, line[head+at.To:])
	}
	if r.begun == nil && string(c.Type.Of(data)) == `"response.created"` {
		r.begun = bytes.Clone(line[len("data:"):])
	}
	return nil, line
}

// Failure is the error whose event ended the stream, nil where none did.
func (r *Stream) Failure() *api.Error { return r.failed }

// IsComplete reports whether the last byte was read.
func (r *Stream) IsComplete() bool { return r.last && r.read == len(r.out) }

// Close is called by the HTTP server after the last byte, or when the
// connection broke.
func (r *Stream) Close() error {
	if !r.over && !r.done {
		r.exchange.Cancel(edge.ErrHungUp)     // the client did not take the answer to its end
		_ = r.exchange.broken(edge.ErrHungUp) // no client is left to be told
	}
	r.exchange.End()
	return nil
}
