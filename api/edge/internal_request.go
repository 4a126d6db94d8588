package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"weir/api/tenant"
)

// InternalRequest is a request that the process itself makes in a caller's name, without a connection: a line of
// a batch. It goes the way of any request, with the caller's quotas, limits and errors. Its context is a
// fasthttp.RequestCtx that was initialised (Init) with the request; the response is in it afterwards,
// and is never a stream where the body does not ask for one.
type InternalRequest struct {
	Caller tenant.Caller
	Gone   <-chan struct{} // closed when the answer is not wanted any more, as a hang-up is; nil: never

	PricePercent int  // of the model's prices that the request costs; 100 is the whole price
	Trial        bool // the server tries a version: predictions are not logged, and count for no drift
}

// Handler answers internal requests: the servers of the protocols do.
type Handler interface {
	HandleFor(ctx *fasthttp.RequestCtx, r *InternalRequest)
}

// Post sends the request with a JSON body, and returns what is answered.
func (e *InternalRequest) Post(to Handler, path string, body []byte) (status int, answer []byte) {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(fasthttp.MethodPost)
	ctx.Request.SetRequestURI(path)
	ctx.Request.Header.SetContentType("application/json")
	ctx.Request.SetBodyRaw(body)
	to.HandleFor(ctx, e)
	return ctx.Response.StatusCode(), bytes.Clone(ctx.Response.Body())
}
