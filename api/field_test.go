package api

import (
	"testing"

	"github.com/valyala/fasthttp"
)

func TestFieldIsWhatPeekReturns(t *testing.T) {
	var h fasthttp.RequestHeader
	for _, name := range []string{"X-Request-Id", "x-weir-user", "ETAG", "Expect", "Host", "Content-Type", "Cookie", "Connection", "Origin"} {
		h.Set(name, "value of "+name)
		if got, want := string(NewField(name).Of(&h)), string(h.Peek(name)); got != want || want == "" {
			t.Errorf("the field %s is %q, Peek returns %q", name, got, want)
		}
	}
	if got := NewField("X-Absent").Of(&h); got != nil {
		t.Errorf("an absent field is %q", got)
	}
}

func BenchmarkField(b *testing.B) {
	var h fasthttp.RequestHeader
	h.Set("X-Request-Id", "1")
	name := NewField("X-Weir-Deadline-Ms")
	for b.Loop() {
		name.Of(&h)
	}
}
