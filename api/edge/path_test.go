package edge

import (
	"strings"
	"testing"
)

// Only one slash at the end of a path is left out: what is two is no other path.
func TestRequestPath(t *testing.T) {
	for target, want := range map[string]string{
		"/": "/", "/v1/models": "/v1/models", "/v1/models/?a=b": "/v1/models", "/a%20b": "/a b", "/v1/models%2F": "/v1/models",
		"//": "//", "/%2F": "//", "///": "///", "/v1/models//": "/v1/models//", "/v1//models": "/v1//models", "/%zz": "/%zz",
		"http://host": "/", "http://host/v1/models": "/v1/models", "*": "*",
	} {
		if got := RequestPath([]byte(target)); got != want {
			t.Errorf("%q is %q, want %q", target, got, want)
		}
		if got := PathView([]byte(target)); got != want {
			t.Errorf("%q is viewed as %q, want %q", target, got, want)
		}
	}
}

// A refused method is told as the client wrote it, though metrics know no such label.
func TestMethodsAreToldAsTheyWereSent(t *testing.T) {
	for method, want := range map[string]string{
		"PUT": "/a/{id} does not take PUT; it takes GET, HEAD, POST", "get": `/a/{id} does not take \"get\"; it takes GET, HEAD, POST`,
		"PURGEPURGEPURGEPURGEPURGE": `does not take \"PURGEPURGEPURGEPURGE\"`,
	} {
		m, _, _ := newSpoken(t)
		ctx := asking(method, "/a/x", "sk-0123456789")
		m.Handle(ctx)
		if got := string(ctx.Response.Body()); ctx.Response.StatusCode() != 405 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", method, ctx.Response.StatusCode(), got)
		}
	}
}
