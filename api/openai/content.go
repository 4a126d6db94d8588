package openai

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
)

// checkContent lets only JSON pass. A page in a browser can send other types
// to a server on the same machine without asking, JSON it cannot.
func checkContent(h *fasthttp.RequestHeader) *api.Error {
	kind, _, err := mime.ParseMediaType(string(h.ContentType()))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return api.Refuse("unsupported_media_type", "the body must be JSON; send the header Content-Type: application/json")
	}
	return edge.Uncoded(h)
}

// warningsHeader tells what was ignored of a request.
const warningsHeader = "X-Weir-Warnings"

// warn names in a header what was ignored or changed.
func warn(ctx *fasthttp.RequestCtx, n *jsonbody.Notes) {
	if text := n.Header(); text != "" {
		ctx.Response.Header.Set(warningsHeader, text)
	}
}
