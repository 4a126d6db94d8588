package edge

import (
	"bytes"
	"fmt"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/internal/coding"
)

// IsJSON lets only JSON pass. A page in a browser can send other types to a server on the same machine without asking, JSON it cannot.
func IsJSON(h *fasthttp.RequestHeader) *api.Error {
	kind, _, err := mime.ParseMediaType(string(h.ContentType()))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return api.Refuse("unsupported_media_type", "the body must be JSON; send the header Content-Type: application/json")
	}
	return nil
}

// Uncoded refuses a body with a content coding, for endpoints that read bodies as they arrive.
func Uncoded(h *fasthttp.RequestHeader) *api.Error {
	if name := h.ContentEncoding(); len(name) > 0 && string(name) != "identity" {
		return api.Refuse("unsupported_media_type", fmt.Sprintf("the content coding is %.40q, and this path takes bodies as they are; send no Content-Encoding", name))
	}
	return nil
}

var codingField = api.NewField("Content-Encoding")

// codingOf is the content coding of a request's body, "" where it has none.
func codingOf(h *fasthttp.RequestHeader) (string, *api.Error) {
	values := make([]string, 0, 1)
	for _, v := range h.PeekAll(string(codingField)) {
		values = append(values, string(v))
	}
	name, known := coding.Parse(values...)
	if !known {
		return "", api.Refuse("unsupported_media_type", fmt.Sprintf("the content coding %.40q is not supported; send %s, one of them, or no Content-Encoding", name, coding.Known))
	}
	return name, nil
}

// decode undoes the content coding of a request's body, which may have most bytes then. The protocols read it as if it had come so.
func decode(ctx *fasthttp.RequestCtx, most int) *api.Error {
	if len(codingField.Of(&ctx.Request.Header)) == 0 || api.UploadOf(ctx) != nil || len(ctx.Request.Body()) == 0 {
		return nil
	}
	name, fault := codingOf(&ctx.Request.Header)
	if fault != nil {
		return fault
	}
	if name != "" {
		r, err := coding.Open(name, bytes.NewReader(ctx.Request.Body()))
		if err != nil {
			return api.Refuse("malformed_request", fmt.Sprintf("the request body is no %s: %v", name, err))
		}
		defer func() { _ = r.Close() }()
		plain, fault := api.ReadDecoded(ctx, r, most)
		if fault != nil {
			return fault
		}
		ctx.Request.SetBodyRaw(plain)
		ctx.Request.Header.SetContentLength(len(plain))
	}
	ctx.Request.Header.DelBytes(codingField)
	return nil
}
