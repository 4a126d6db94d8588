package api

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// writes notes what each write was.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// fasthttp writes the last chunk of a stream and the line behind it at once, and each chunk before it for itself: a client is not woken
// twice at the end.
func TestEndOfAStreamIsOneWrite(t *testing.T) {
	var to writes
	var r fasthttp.Response
	r.SetBodyStream(struct{ *strings.Reader }{strings.NewReader("abc")}, -1)
	buffered := bufio.NewWriter(&to)
	if err := r.Write(buffered); err != nil {
		t.Fatal(err)
	}
	if err := buffered.Flush(); err != nil {
		t.Fatal(err)
	}
	if last := to[max(0, len(to)-1):]; len(to) < 2 || !slices.Equal(last, writes{"0\r\n\r\n"}) || !strings.HasSuffix(to[len(to)-2], "3\r\nabc\r\n") {
		t.Errorf("written: %q", to)
	}
}
