package bench

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// events reads everything, one event per element.
func events(from io.Reader) (list []string, err error) {
	r := newEventReader(from)
	for {
		data, err := r.next()
		if err != nil {
			return list, err
		}
		list = append(list, string(data))
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"one", "data: a\n\n", []string{"a"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"one space only", "data:  a\n\n", []string{" a"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\n", []string{"a", "b"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"byte order mark later", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []string{"a"}},
		{"comments", ": ping\n\n: x\ndata: a\n: y\n\n", []string{"a"}},
		{"other fields", "event: m\nid: 1\nretry: 9\ndata: a\n\nevent: x\n\n", []string{"a"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"empty data", "data\n\ndata:\n\n", []string{"", ""}},
		{"empty second line", "data: a\ndata\n\n", []string{"a\n"}},
		{"blank lines between", "\n\n\ndata: a\n\n\n\n", []string{"a"}},
		{"cut event is dropped", "data: a\n\ndata: b\n", []string{"a"}},
		{"cut line is dropped", "data: a\n\ndata: b", []string{"a"}},
		{"done without its blank line", "data: a\n\ndata: [DONE]\n", []string{"a", "[DONE]"}},
		{"done without a line end", "data: a\n\ndata: [DONE]", []string{"a", "[DONE]"}},
		{"longer name", "database: a\n\n", nil},
		{"nothing", "", nil},
	} {
		for _, read := range []struct {
			how  string
			from io.Reader
		}{
			{"whole", strings.NewReader(c.stream)},
			{"in bytes", iotest.OneByteReader(strings.NewReader(c.stream))},
			{"with the error", iotest.DataErrReader(strings.NewReader(c.stream))},
		} {
			got, err := events(read.from)
			if !errors.Is(err, io.EOF) || strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
				t.Errorf("%s, read %s: %q, %v, want %q", c.name, read.how, got, err, c.want)
			}
		}
	}
}

// An event is there when its blank line is: a CR must not wait for a LF.
func TestEventsComeWhenComplete(t *testing.T) {
	in, out := io.Pipe()
	r := newEventReader(in)
	for _, stream := range []string{"data: a\r\r", "data: b\r\n\r\n", "data: c\n\n"} {
		go out.Write([]byte(stream))
		if data, err := r.next(); err != nil || string(data) != stream[6:7] {
			t.Errorf("%q: got %q, %v", stream, data, err)
		}
	}
}

// endless gives the same bytes for ever.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestEventLimits(t *testing.T) {
	for _, stream := range []string{"data: aaaaaaaaaaaaaaa", "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"} {
		if _, err := events(endless(stream)); !errors.Is(err, errEventSize) {
			t.Errorf("endless %q: %v, want %v", stream, err, errEventSize)
		}
	}
	broken := errors.New("broken")
	if _, err := events(io.MultiReader(strings.NewReader("data: [DONE]"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v, want %v", err, broken)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\ndata: [DONE]\n\n")
	f.Add("\xef\xbb\xbf: c\rdata: a\r\ndata\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := events(strings.NewReader(stream))
		if !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
		}
		parts, _ := events(iotest.HalfReader(strings.NewReader(stream)))
		if strings.Join(whole, "\x00") != strings.Join(parts, "\x00") {
			t.Fatalf("read whole %q, in parts %q", whole, parts)
		}
		var again strings.Builder // what was read and written again reads the same
		for _, data := range whole {
			again.WriteString("data: " + strings.ReplaceAll(data, "\n", "\ndata: ") + "\n\n")
		}
		back, _ := events(strings.NewReader(again.String()))
		if strings.Join(whole, "\x00") != strings.Join(back, "\x00") {
			t.Fatalf("read %q, then %q", whole, back)
		}
	})
}

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
