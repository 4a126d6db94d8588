package openai

import (
	"github.com/valyala/fasthttp"

	"weir/api/openai/jsonbody"
)

// warningsHeader tells what was ignored of a request.
const warningsHeader = "X-Weir-Warnings"

// warn names in a header what was ignored or changed.
func warn(ctx *fasthttp.RequestCtx, n *jsonbody.Notes) {
	if text := n.Header(); text != "" {
		ctx.Response.Header.Set(warningsHeader, text)
	}
}
