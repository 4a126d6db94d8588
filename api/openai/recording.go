package openai

import (
	"errors"
	"io"
	"net/http"

	"weir/api"
	"weir/api/edge"
	"weir/api/replay"
)

// answerStream is a response body that reads as server-sent events.
type answerStream interface {
	io.ReadCloser
	// failure is the error whose event ended the stream, nil where none did.
	Failure() *api.Error
	// isComplete reports whether the last byte of the answer has been read.
	IsComplete() bool
}

// recording keeps the bytes of a stream for its idempotency key while they pass. The
// execution ends when they end, whether or not the client has read them.
type recording struct {
	x    *execution
	body answerStream
	kept []byte
	rest []byte // in the place of the last bytes, of an execution that has lost its key to another one
	over bool   // the execution is concluded
	shut bool

	route *route
}

// record makes a recording of a stream, which takes over the execution.
func (x *execution) record(body answerStream) io.ReadCloser {
	x.warnings = string(x.call.ctx.Response.Header.Peek(warningsHeader))
	return &recording{x: x, body: body, route: x.call.route}
}

// Read passes bytes on; the last ones once they are stored.
func (r *recording) Read(p []byte) (int, error) {
	if r.rest != nil {
		return r.readRest(p)
	}
	n, err := r.body.Read(p)
	if r.over {
		return n, err
	}
	if limit := r.x.server.config.Idempotency.MaxAnswerBytes; len(r.kept) <= limit { // one byte above tells that it is too large
		r.kept = append(r.kept, p[:min(n, limit+1-len(r.kept))]...)
	}
	switch {
	case errors.Is(err, io.EOF) || err == nil && r.body.IsComplete():
		r.conclude()
		if r.x.Taken {
			r.rest = r.route.appendFaultEvent(nil, edge.InFlight())
			return r.readRest(p)
		}
	case err != nil:
		r.over = true
		r.x.Free()
	}
	return n, err
}

func (r *recording) readRest(p []byte) (n int, err error) {
	n = copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		err = io.EOF
	}
	return n, err
}

// conclude stores what was read. A stream that ended with an error is kept as the error's
// status says.
func (r *recording) conclude() {
	r.over = true
	a := &replay.Answer{Status: http.StatusOK, ContentType: r.route.streamType(), Stream: true, Body: r.kept}
	if fault := r.body.Failure(); fault != nil && !edge.IsFinal(fault.Status) {
		r.x.Free()
		return
	}
	r.x.conclude(a)
	r.kept = nil
}

// Close is called by the HTTP server after the last byte, or when the client has hung
// up: then the rest of the answer is read here.
func (r *recording) Close() error {
	if r.shut {
		return nil
	}
	r.shut = true
	if r.over {
		return r.leave()
	}
	go func() {
		defer func() { _ = r.leave() }()                   // the streams' Close has no errors
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{r}) // Read has concluded whatever happened
	}()
	return nil
}

// leave ends the stream and the execution.
func (r *recording) leave() error {
	r.over = true
	err := r.body.Close()
	r.x.handedOver = false
	r.x.end()
	return err
}
