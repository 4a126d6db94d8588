package edge

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
)

// RequestPath is the decoded path of a request's target, without a slash at
// its end. It is not normalised: a path with // or .. in it matches no route,
// since a proxy in front may have checked another one.
func RequestPath(target []byte) string {
	path, _, _ := strings.Cut(string(target), "?")
	if !strings.HasPrefix(path, "/") { // absolute form
		if _, rest, absolute := strings.Cut(path, "://"); absolute {
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return path
	}
	if len(decoded) > 1 {
		decoded = strings.TrimSuffix(decoded, "/")
	}
	return decoded
}

// IsNormal is false for paths that normalising would change.
func IsNormal(path string) bool {
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// MethodName is a method that may be a metric's label.
func MethodName(h *fasthttp.RequestHeader) string {
	switch m := string(h.Method()); m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return m
	}
	return "other"
}
