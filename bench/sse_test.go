package bench

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A stream of any bytes ends in an outcome of a known kind, and times never
// contradict each other.
func FuzzStream(f *testing.F) {
	f.Add(`data: {"choices":[{"text":"a"}],"usage":null}` + "\n\ndata: [DONE]\n\n")
	f.Add(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}}` + "\n\n")
	f.Add(`data: {"error":{"message":"x"}}` + "\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		var out Outcome
		s := streamed{out: &out, keepText: true}
		kind, err := s.read(strings.NewReader(stream))
		s.count()
		known := map[string]bool{"": true, failTruncated: true, failStream: true, failBad: true, failEmpty: true}
		if !known[kind] || (kind == "") != (err == nil) {
			t.Fatalf("kind %q, error %v", kind, err)
		}
		if err == nil && (out.Chunks == 0 || len(out.ITLs) != out.Chunks-1) {
			t.Fatalf("%d chunks, %d gaps", out.Chunks, len(out.ITLs))
		}
	})
}

// Some servers leave out what ends their last event; other events that the stream's end cuts off are dropped.
func TestDoneWithoutItsEnd(t *testing.T) {
	for stream, want := range map[string][]string{
		"data: a\n\ndata: [DONE]\n": {"a", "[DONE]"}, "data: a\n\ndata: [DONE]": {"a", "[DONE]"}, "data: a\n\ndata: b\n": {"a"},
	} {
		r, got := newEventReader(strings.NewReader(stream)), []string(nil)
		for {
			data, err := r.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%q: %v", stream, err)
				}
				break
			}
			if got = append(got, string(data)); string(data) == "[DONE]" {
				break
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q", stream, got, want)
		}
	}
	if _, err := newEventReader(strings.NewReader("data: " + strings.Repeat("a", maxEventBytes+1<<15))).next(); !errors.Is(err, errEventSize) {
		t.Errorf("an endless event: %v, want %v", err, errEventSize)
	}
}
