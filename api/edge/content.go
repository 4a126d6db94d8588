package edge

import (
	"fmt"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// IsJSON lets only JSON pass. A page in a browser can send other types to a server on the same machine without asking, JSON it cannot.
func IsJSON(h *fasthttp.RequestHeader) *api.Error {
	kind, _, err := mime.ParseMediaType(string(h.ContentType()))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return api.Refuse("unsupported_media_type", "the body must be JSON; send the header Content-Type: application/json")
	}
	return Uncoded(h)
}

// Uncoded refuses a body with a content coding, for endpoints that take bodies as they are.
func Uncoded(h *fasthttp.RequestHeader) *api.Error {
	if coding := h.ContentEncoding(); len(coding) > 0 && string(coding) != "identity" {
		return api.Refuse("unsupported_media_type", fmt.Sprintf("the content coding is %.40q, and this path takes bodies as they are; send no Content-Encoding", coding))
	}
	return nil
}
