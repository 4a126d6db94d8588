package edge

import (
	"fmt"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// Uncoded refuses a body with a content coding, for endpoints that take bodies as they are.
func Uncoded(h *fasthttp.RequestHeader) *api.Error {
	if coding := h.ContentEncoding(); len(coding) > 0 && string(coding) != "identity" {
		return api.Refuse("unsupported_media_type", fmt.Sprintf("the content coding is %.40q, and this path takes bodies as they are; send no Content-Encoding", coding))
	}
	return nil
}
