package api

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fasthttp"
)

// Uploads is a Handler that reads the bodies of some requests itself, as they arrive: they may be
// larger than MaxRequestBytes and take none of the memory of bodies. Such a body is only read once the
// request's head has passed (Handler.Takes).
type Uploads interface {
	Handler
	// Upload is the largest body of a request whose body the handler reads with UploadOf, and the name
	// of the setting that says so; 0 leaves the body to the server.
	Upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string)
}

// slowestUpload is how fast the bytes of an upload must come on average, in bytes per second, beside
// ReadTimeout for the beginning: a client that sends more slowly would keep a connection for hours.
const slowestUpload = 16 << 10

// Upload is a request's body while it arrives. One goroutine reads it, the one that handles the request.
type Upload struct {
	ctx     *fasthttp.RequestCtx
	body    io.Reader
	began   time.Time
	grace   time.Duration
	most    int64
	setting string
	arrived int64
	fault   *Error // what ended the body early
	ended   bool   // by its own end
}

// uploadKey is the request's user value that holds its Upload.
const uploadKey = "weir upload"

// UploadOf is the body of a request that the handler's Upload names; nil for any other request, and for
// one without a body.
func UploadOf(ctx *fasthttp.RequestCtx) *Upload {
	u, _ := ctx.UserValue(uploadKey).(*Upload)
	return u
}

// Arrived is how many bytes have been read.
func (u *Upload) Arrived() int64 { return u.arrived }

// Fault is why Read failed, as the client is told; nil where it did not.
func (u *Upload) Fault() *Error { return u.fault }

// Read implements io.Reader. After an error other than io.EOF, Fault says what the client did wrong.
func (u *Upload) Read(p []byte) (int, error) {
	if u.fault != nil {
		return 0, u.fault
	}
	if u.ended {
		return 0, io.EOF
	}
	if c := connOf(u.ctx); c != nil {
		by := u.began.Add(u.grace + time.Duration(u.arrived)*time.Second/slowestUpload)
		if err := c.SetReadDeadline(by); err != nil {
			return 0, u.fail(unreadable(u.ctx, err))
		}
	}
	n, err := u.body.Read(p)
	u.arrived += int64(n)
	declared := int64(u.ctx.Request.Header.ContentLength())
	switch {
	case u.arrived > u.most:
		return 0, u.fail(u.tooLarge())
	case errors.Is(err, io.EOF) && u.arrived < declared:
		return n, u.fail(unreadable(u.ctx, io.ErrUnexpectedEOF))
	case errors.Is(err, io.EOF):
		u.ended = true
		return n, io.EOF
	case err != nil:
		return n, u.fail(unreadable(u.ctx, err))
	}
	return n, nil
}

func (u *Upload) fail(fault *Error) error {
	u.fault = fault
	return fault
}

func (u *Upload) tooLarge() *Error { return uploadTooLarge(u.most, u.setting) }

func uploadTooLarge(most int64, setting string) *Error {
	return Refuse("request_too_large", fmt.Sprintf("the request body is larger than the %d bytes that this path takes (%s)", most, setting))
}

// upload is what the handler says of a request's body; 0 where the server reads it.
func (s *Server) upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string) {
	if s.uploads == nil {
		return 0, ""
	}
	return s.uploads.Upload(h)
}

// serveUpload has the handler answer a request whose body it reads itself. Where it did not read the
// body to the end, the rest is dropped, with the connection.
func (s *Server) serveUpload(ctx *fasthttp.RequestCtx, most int64, setting string) {
	u := &Upload{ctx: ctx, body: bodyStream(ctx), began: time.Now(), grace: s.config.ReadTimeout, most: most, setting: setting}
	if u.body != nil {
		ctx.SetUserValue(uploadKey, u)
	}
	connOf(ctx).work()
	s.handler.Handle(ctx)
	if u.body != nil && !u.ended {
		linger(ctx)
	}
}
