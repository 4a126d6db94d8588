package openai

import (
	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
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

// takesContent refuses a body that is no JSON. Ollama's API asks for no type, and no example of it has one.
func takesContent(c *call) *api.Error {
	h := &c.ctx.Request.Header
	if c.route.dialect() == ollamas && !fromPage(h) {
		return nil
	}
	return edge.IsJSON(h)
}

// fromPage reports whether a request comes from a page in a browser, which says so in one of these fields.
func fromPage(h *fasthttp.RequestHeader) bool {
	return len(h.Peek("Origin")) > 0 || len(h.Peek("Sec-Fetch-Site")) > 0 || len(h.Peek("Referer")) > 0
}
