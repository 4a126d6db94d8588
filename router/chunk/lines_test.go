package chunk

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// eventsOf are the data of a stream's events by the letter of the standard's section 9.2.6, which has no limits and reads
// the whole stream at once. A last line without an end counts, as for guard.
func eventsOf(stream string) (list []string) {
	stream = strings.TrimPrefix(stream, byteOrder)
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var data []string
	for line := range strings.SplitSeq(stream+"\n\n", "\n") {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && len(data) > 0:
			list, data = append(list, strings.Join(data, "\n")), nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return list
}

// fieldsOf are the lines of a stream that are neither data nor blank, in their order.
func fieldsOf(stream string) (list []string) {
	stream = strings.TrimPrefix(stream, byteOrder)
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	for line := range strings.SplitSeq(stream, "\n") {
		if line != "" && line != bareData && !strings.HasPrefix(line, dataField) {
			list = append(list, line)
		}
	}
	return list
}

// passed are the pieces of a stream, put into the one form.
func passed(pieces ...string) string {
	var l Lines
	var all []byte
	for _, p := range pieces {
		all = append(all, l.Add([]byte(p))...)
	}
	return string(append(all, l.End()...))
}

// streams are what servers may write.
var streams = []string{
	"data: {\"a\":1}\n\ndata: [DONE]\n\n",
	"data: {\"a\":1}\r\n\r\ndata: [DONE]\r\n\r\n",
	"data: {\"a\":1}\r\rdata: [DONE]\r\r",
	"data: {\ndata: \"a\":1\ndata:}\n\ndata: [DONE]\n\n",
	"data: {\rdata: \"a\":\r\ndata\r\ndata:1}\r\n\r\n",
	"\uFEFFdata: {\"a\":1}\n\n",
	"\uFEFF: hello\n\nid: 7\nevent: x\nretry: 10\ndata: {\"a\":1}\n\n",
	"data: {\"a\":\nid: 7\n: comment\ndata: 1}\nevent: x\n\ndata: 2\n\n",
	"data\n\ndata\ndata\n\ndata:\n\n",
	"data:x\n\ndatabase: y\n\ndat\nda: 7\n\n",
	"data: {\"a\":1}", "data: {\"a\":1}\n", "data: {\"a\":1}\r", "event: x\ndata: 1\nid: 2", "\uFEFF", "\n\n\n", "data: a\n\n\n\n\ndata: b\n\n", "id\ndata: \uFEFF1\n\n", "d", "data", "data:1\nd", "data:1\nid", "data:1\ndata:",
}

func TestLines(t *testing.T) {
	for _, stream := range streams {
		check(t, stream, passed(stream))
		for i := range len(stream) + 1 {
			for k := i; k < len(stream)+1; k++ {
				check(t, stream, passed(stream[:i], stream[i:k], stream[k:]))
			}
		}
		check(t, stream, passed(strings.Split(stream, "")...))
	}
	for _, same := range []string{streams[0], "event: x\ndata: 1\n\n: beat\n\ndata: 2\n\n"} {
		if got := passed(same); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
}

// check compares a stream with the form that it was put into: the same events, each in one line of data and ended by LF.
func check(t *testing.T, stream, got string) {
	t.Helper()
	want := eventsOf(stream)
	for i, data := range want {
		want[i] = strings.ReplaceAll(data, "\n", "\t")
	}
	var lines []string
	open := false
	for line := range strings.SplitSeq(strings.TrimSuffix(got, "\n"), "\n") {
		data, ok := strings.CutPrefix(line, dataField)
		if ok {
			lines = append(lines, strings.TrimPrefix(data, " "))
		}
		if ok && open {
			t.Fatalf("%q became %q: two lines of data in an event", stream, got)
		}
		open = ok || open && line != ""
	}
	filled := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.Trim(s, "\t") == "" })
	}
	if !slices.Equal(filled(lines), filled(want)) || strings.Contains(got, "\r") {
		t.Fatalf("%q became %q: events %q, want %q", stream, got, lines, want)
	}
	if f := fieldsOf(got); !slices.Equal(f, fieldsOf(stream)) {
		t.Fatalf("%q became %q: other lines are %q", stream, got, f)
	}
}

// What is held back of an event is bounded.
func TestLinesHoldLittle(t *testing.T) {
	var l Lines
	l.Add([]byte("data: 1\n"))
	for range 1000 {
		l.Add(bytes.Repeat([]byte("x"), 1000))
		if len(l.tail)+len(l.start) > maxTailBytes+1000 {
			t.Fatalf("%d bytes are held", len(l.tail))
		}
	}
}

func TestPlainLinesAllocateNothing(t *testing.T) {
	var l Lines
	piece := []byte("data: {\"choices\":[]}\n\n: beat\n\n")
	l.Add(piece)
	if n := testing.AllocsPerRun(100, func() { l.Add(piece) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLines(f *testing.F) {
	for _, stream := range streams {
		f.Add(stream, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream string, i, k uint16) {
		if len(stream) > 1<<14 {
			return
		}
		a := min(int(i), len(stream))
		b := max(a, min(int(k), len(stream)))
		check(t, stream, passed(stream[:a], stream[a:b], stream[b:]))
		check(t, stream, passed(strings.Split(stream, "")...))
	})
}

func BenchmarkLines(b *testing.B) {
	var l Lines
	piece := []byte(`data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1763000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		l.Add(piece)
	}
}
