package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// events reads everything, one event per element.
func events(from io.Reader) (list []string, err error) {
	r := NewReader(from, Limits{Event: 1 << 16})
	for {
		data, err := r.Next()
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
	r := NewReader(in, Limits{})
	for _, stream := range []string{"data: a\r\r", "data: b\r\n\r\n", "data: c\n\n"} {
		go out.Write([]byte(stream))
		if data, err := r.Next(); err != nil || string(data) != stream[6:7] {
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
	for stream, want := range map[string]error{
		"data: aaaaaaaaaaaaaaa": ErrLine, "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n": ErrEvent, ": beat\n": ErrStream,
	} {
		r := NewReader(endless(stream), Limits{Event: 1 << 16, Stream: 1 << 20})
		if _, err := r.Next(); !errors.Is(err, want) {
			t.Errorf("endless %q: %v, want %v", stream, err, want)
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

// What a stream's end cuts off is there for those who want it.
func TestRest(t *testing.T) {
	for stream, want := range map[string]struct {
		data  string
		whole bool
	}{
		"data: a\n\ndata: b\n": {"b", true}, "data: a\n\ndata: [DONE]": {"[DONE]", false}, "data: a\n\n": {"", true},
		"data: b\ndata: c": {"b\nc", false}, "data: b\r": {"b", true},
	} {
		r := NewReader(strings.NewReader(stream), Limits{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		if data, whole := r.Rest(); string(data) != want.data || whole != want.whole {
			t.Errorf("%q: the rest is %q, whole %v, want %q and %v", stream, data, whole, want.data, want.whole)
		}
	}
}
