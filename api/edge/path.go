package edge

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// PathView is RequestPath without a copy where the target is its path already, as most are: it is valid as long as the
// target's bytes.
func PathView(target []byte) string {
	if len(target) < 2 || target[0] != '/' || target[len(target)-1] == '/' || bytes.IndexByte(target, '?') >= 0 || bytes.IndexByte(target, '%') >= 0 {
		return RequestPath(target)
	}
	return unsafe.String(unsafe.SliceData(target), len(target))
}

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
	if len(decoded) > 1 && !strings.HasSuffix(decoded, "//") {
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

var methods = [...]string{
	http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect,
}

const otherMethod = "other"

// MethodName is a method that may be a metric's label.
func MethodName(h *fasthttp.RequestHeader) string {
	method := h.Method()
	for _, m := range methods {
		if string(method) == m {
			return m
		}
	}
	return otherMethod
}
