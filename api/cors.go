package api

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// Cross-origin resource sharing (CORS): the header fields that a browser needs
// before a page of another origin may read an answer. Where Access lets no other page
// call none of them is sent.

// exposedHeaders are those of our answers that a page may read beside the few
// that every page may.
var exposedHeaders = strings.Join([]string{
	"Request-Id", "Retry-After", "Retry-After-Ms", "Traceresponse", "X-Request-Id", "X-Should-Retry",
	"X-Weir-Arm", "X-Weir-Attempts", "X-Weir-Brownout", "X-Weir-Cache", "X-Weir-Fallback", "X-Weir-Quota", "X-Weir-Reason", "X-Weir-Replayed",
	"X-Weir-Replica", "X-Weir-Route-Reason", "X-Weir-Version", "X-Weir-Warnings",
	"X-RateLimit-Limit-Requests", "X-RateLimit-Limit-Tokens", "X-RateLimit-Remaining-Requests",
	"X-RateLimit-Remaining-Tokens", "X-RateLimit-Reset-Requests", "X-RateLimit-Reset-Tokens",
}, ", ")

// share adds the fields with which the page that sent a request may read the
// answer, if the page's origin is allowed.
func (a *Access) share(ctx *fasthttp.RequestCtx) {
	if len(a.Origins) == 0 && !a.LocalPages {
		return
	}
	h := &ctx.Response.Header
	allowed := anyName
	if !slices.Contains(a.Origins, anyName) {
		allowed = string(originField.Of(&ctx.Request.Header))
		if allowed != "" || len(a.Origins) > 0 {
			h.Add(fasthttp.HeaderVary, "Origin") // caches must not give one page's answer to another
		}
		if allowed == "" || !a.listsOrigin(allowed) {
			return
		}
	}
	h.Set(fasthttp.HeaderAccessControlAllowOrigin, allowed)
	h.Set(fasthttp.HeaderAccessControlExposeHeaders, exposedHeaders)
}

// preflight answers a browser's question whether a page may send a request.
// The question never carries a key. Which paths and methods there are is left
// to the request itself: its refusal can then be read, too.
func (a *Access) preflight(ctx *fasthttp.RequestCtx) (asks bool, e *Error) {
	asked := &ctx.Request.Header
	origin := string(originField.Of(asked))
	if !ctx.IsOptions() || origin == "" || len(asked.Peek(fasthttp.HeaderAccessControlRequestMethod)) == 0 {
		return false, nil
	}
	if !a.listsOrigin(origin) {
		return true, refuseOrigin(origin) // the browser shows it to the page's author, beside its own words
	}
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.Set(fasthttp.HeaderAccessControlAllowMethods, "GET, HEAD, POST, DELETE, OPTIONS")
	h.Set(fasthttp.HeaderAccessControlMaxAge, "600")
	h.Add(fasthttp.HeaderVary, "Access-Control-Request-Headers")
	if names := asked.Peek(fasthttp.HeaderAccessControlRequestHeaders); isHeaderList(names) {
		h.SetBytesV(fasthttp.HeaderAccessControlAllowHeaders, names) // SDKs send many of their own
	}
	if string(asked.Peek("Access-Control-Request-Private-Network")) == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	return true, nil
}

const maxHeaderListBytes = 2 << 10

// isHeaderList tells lists of field names, which may be sent back.
func isHeaderList(list []byte) bool {
	for _, c := range list {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("-_, ", rune(c)) {
			return false
		}
	}
	return len(list) > 0 && len(list) <= maxHeaderListBytes
}
