package api

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// uploading answers uploads with the digest of their bytes, and other bodies with themselves.
func uploading(most int64) *handlerFunc {
	return &handlerFunc{uploads: most, handle: func(ctx *fasthttp.RequestCtx) {
		u := UploadOf(ctx)
		if u == nil {
			ctx.SetBody(ctx.PostBody())
			return
		}
		sum := sha256.New()
		n, err := io.Copy(sum, u)
		if err != nil {
			u.Fault().Write(ctx)
			return
		}
		fmt.Fprintf(ctx, "%d %x", n, sum.Sum(nil))
	}}
}

func TestUploadsPassTheLimitOfBodies(t *testing.T) {
	config := DefaultConfig()
	config.MaxRequestBytes, config.BodyMemoryBytes = 64<<10, 128<<10
	addr, s := serve(t, config, uploading(3<<20))
	c := dial(t, addr)
	br := bufio.NewReader(c)
	for _, size := range []int{1, 64<<10 + 1, 3 << 20} {
		body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		want := fmt.Sprintf("%d %x", size, sha256.Sum256([]byte(body)))
		send(t, c, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, body))
		expectBody(t, br, want)
		send(t, c, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, body))
		expectBody(t, br, want)
		if held := s.Stats().BodyBytes; held != 0 {
			t.Errorf("an upload of %d bytes took %d of the memory of bodies", size, held)
		}
	}
	send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi") // the connection goes on
	expectBody(t, br, "hi")
}

func TestUploadsHaveALimitOfTheirOwn(t *testing.T) {
	addr, _ := serve(t, DefaultConfig(), uploading(1<<20))
	c := dial(t, addr)
	send(t, c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")
	wantError(t, c, http.StatusRequestEntityTooLarge, "request_too_large")
	c = dial(t, addr)
	send(t, c, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", 2<<20, strings.Repeat("x", 1<<20+1)))
	if res := wantError(t, c, http.StatusRequestEntityTooLarge, "request_too_large"); !res.Close {
		t.Error("the connection of a body that was not read goes on")
	}
	c = dial(t, addr)
	send(t, c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	_ = c.CloseWrite()
	wantError(t, c, statusHungUp, "client_closed_request")
}

// A refusal by the head costs not one byte of the body.
func TestUploadIsNotReadBeforeItsHeadPasses(t *testing.T) {
	h := uploading(1 << 30)
	h.takes = func(head *fasthttp.RequestHeader) bool { return len(head.Peek("Authorization")) > 0 }
	handle := h.handle
	h.handle = func(ctx *fasthttp.RequestCtx) {
		if len(ctx.Request.Header.Peek("Authorization")) == 0 {
			if UploadOf(ctx) != nil {
				t.Error("a refused request has an upload")
			}
			Refuse("invalid_api_key", "no").Write(ctx)
			return
		}
		handle(ctx)
	}
	addr, _ := serve(t, DefaultConfig(), h)
	c := dial(t, addr)
	send(t, c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
	wantError(t, c, http.StatusUnauthorized, "invalid_api_key")
}

// An upload may take longer than the time for a request, as long as its bytes come.
func TestUploadThatStopsIsEnded(t *testing.T) {
	config := DefaultConfig()
	config.ReadTimeout = 50 * time.Millisecond
	addr, _ := serve(t, config, uploading(1<<20))
	c := dial(t, addr)
	send(t, c, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it")
	wantError(t, c, http.StatusRequestTimeout, "request_timeout")
}
