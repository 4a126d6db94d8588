package fleet

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"weir/internal/reference"
	"weir/router"
)

// writing is a replica that answers by write.
func writing(t *testing.T, write func(w http.ResponseWriter, flush func())) *Fleet {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			write(w, w.(http.Flusher).Flush) //nolint:forcetypeassert // it always is one
		}
	}))
	t.Cleanup(s.Close)
	f, err := New(Config{Model: "m", Sources: []Source{{URL: s.URL + "/v1", Kind: VLLM}}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func streamOf() string {
	var b strings.Builder
	b.WriteString(role)
	for i := range words {
		b.WriteString(event(fmt.Sprintf("a%d ", i)))
	}
	return b.String() + last + done
}

// wordings are one stream in other forms that the standard has.
var wordings = map[string]func(string) string{
	"CRLF":      func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"CR":        func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
	"mixed":     func(s string) string { return strings.ReplaceAll(s, "}\n\n", "}\r\n\r") },
	"mark":      func(s string) string { return "\uFEFF" + s },
	"no blanks": func(s string) string { return strings.ReplaceAll(s, "data: ", "data:") },
	"comments":  func(s string) string { return ": hello\n\n" + strings.ReplaceAll(s, "data", ": beat\ndata") },
	"fields": func(s string) string {
		return "retry: 10\n\n" + strings.ReplaceAll(s, "data", "id: 7\nevent: message\ndata")
	},
	"data lines": func(s string) string { return strings.ReplaceAll(s, `[{"index"`, "\ndata: [{\ndata:\"index\"") },
	"data apart": func(s string) string {
		return strings.ReplaceAll(s, `[{"index"`, "\nid: 7\n: beat\ndata: [{\ndata:\"index\"")
	},
	"fields last": func(s string) string { return strings.ReplaceAll(s, "}\n\n", "}\nid: 7\n\n") },
	"all of it": func(s string) string {
		return "\uFEFFretry: 1\r\n\r\n" + strings.ReplaceAll(strings.ReplaceAll(s, `[{"index"`, "\r\ndata: [{\rid\rdata:\"index\""), "\n\n", "\r\n\r\n")
	},
}

// A server may write events in any form that the standard has: callers get them in one.
func TestEventsMayHaveAnyFormOfTheStandard(t *testing.T) {
	want := streamOf()
	for name, wording := range wordings {
		for _, size := range []int{1, 7, 1 << 20} {
			for _, resume := range []bool{false, true} {
				f := writing(t, func(w http.ResponseWriter, flush func()) {
					w.Header().Set("Content-Type", "text/event-stream")
					for rest := wording(want); rest != ""; {
						n := min(size, len(rest))
						_, _ = io.WriteString(w, rest[:n])
						flush()
						rest = rest[n:]
					}
				})
				c := call(streamed)
				c.Resume = resume
				_, text, err := take(t, f, c)
				if err != nil || said(t, text) != answerOf("a") || strings.Count(text, "[DONE]") != 1 || strings.Contains(text, "\r") {
					t.Errorf("%s in pieces of %d, resume %v: %v\n%q", name, size, resume, err, text)
				}
				if faults := f.Status()[0].Faults; len(faults) > 0 {
					t.Errorf("%s in pieces of %d: %v", name, size, faults)
				}
				f.members.Load().list[0].wire.close()
			}
		}
	}
}

// A byte order mark before an answer or a refusal that is no stream is left out.
func TestAnswersMayBeginWithAMark(t *testing.T) {
	const answer = `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		f := writing(t, func(w http.ResponseWriter, _ func()) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "\uFEFF"+answer)
		})
		got, text, err := take(t, f, call(""))
		if err != nil || got.Status != status || text != answer {
			t.Errorf("%d: %v %q", status, err, text)
		}
		f.members.Load().list[0].wire.close()
	}
}

// encoders are what proxies compress with.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, "x-gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }, "deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"Deflate": func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 5); return z },
}

// Compressed answers that come although they were not asked for are read.
func TestCompressedAnswersAreRead(t *testing.T) {
	for name, encoder := range encoders {
		for _, fields := range []string{"", streamed} {
			f := writing(t, func(w http.ResponseWriter, flush func()) {
				w.Header().Set("Content-Encoding", name)
				z := encoder(w)
				if fields == "" {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(z, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)
				} else {
					w.Header().Set("Content-Type", "text/event-stream")
					for event := range strings.SplitAfterSeq(streamOf(), "\n\n") {
						_, _ = io.WriteString(z, event)
						_ = z.(interface{ Flush() error }).Flush() //nolint:forcetypeassert // all have it
						flush()
					}
				}
				_ = z.Close()
			})
			got, text, err := take(t, f, call(fields))
			if err != nil || got.Status != 200 || fields != "" && said(t, text) != answerOf("a") || !strings.Contains(text, `"a`) {
				t.Errorf("%s %s: %v %q", name, fields, err, text)
			}
			f.members.Load().list[0].wire.close()
		}
	}
}

// What cannot be decoded is refused by name, and a few bytes cannot become more than an answer may have.
func TestCompressedAnswersAreBounded(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for name, tc := range map[string]struct {
		encoding, want string
		write          func(w io.Writer)
	}{
		"brotli":  {"br", `encoded as "br"`, func(w io.Writer) { _, _ = w.Write([]byte{0x8b, 0}) }},
		"twice":   {"gzip, gzip", `encoded as "gzip, gzip"`, func(w io.Writer) { _, _ = w.Write([]byte{0x1f}) }},
		"no gzip": {"gzip", "cannot be decoded as gzip", func(w io.Writer) { _, _ = io.WriteString(w, `{"choices":[{"message":{}}]}`) }},
		"window":  {"zstd", "cannot be decoded as zstd", func(w io.Writer) { _, _ = w.Write([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0}) }},
		"bomb": {"gzip", "above 67108864 bytes", func(w io.Writer) {
			z := gzip.NewWriter(w)
			for range 1 << 10 {
				if _, err := z.Write(zeros); err != nil {
					return
				}
			}
			_ = z.Close()
		}},
	} {
		for _, fields := range []string{"", streamed} {
			f := writing(t, func(w http.ResponseWriter, _ func()) {
				w.Header().Set("Content-Encoding", tc.encoding)
				w.Header().Set("Content-Type", "application/json")
				if fields != "" {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				tc.write(w)
			})
			_, text, err := take(t, f, call(fields))
			if name == "bomb" && fields != "" {
				tc.want = "" // an endless line without content, of which 256 KiB are held
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(text) > maxAnswerBytes+maxHeldBytes {
				t.Errorf("%s %s: %v, %d bytes", name, fields, err, len(text))
			}
			f.members.Load().list[0].wire.close()
		}
	}
}

// What a stream says behind its end does not reach the caller, whose answer is whole, and counts against the replica.
func TestNothingPassesBehindTheEnd(t *testing.T) {
	more := event("EVIL")
	usage := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":8,\"total_tokens\":9}}\n\n"
	begin := strings.TrimSuffix(streamOf(), last+done)
	messages, responses := dialect(router.Messages), dialect(router.Responses)
	for name, tc := range map[string]struct{ path, stream, keeps string }{
		"done":            {chatPath, streamOf() + more, "[DONE]"},
		"finish":          {chatPath, begin + last + more + done, "[DONE]"},
		"finish, usage":   {chatPath, begin + last + more + usage + done, "total_tokens"},
		"finish, no done": {chatPath, begin + last + more, "[DONE]"},
		"much":            {chatPath, begin + last + strings.Repeat(more, 10_000) + done, "[DONE]"},
		"a long line":     {chatPath, streamOf() + "data: EVIL" + strings.Repeat("x", 2*maxLineBytes) + "\n\n", "[DONE]"},
		"torn":            {chatPath, streamOf() + "data: EVIL", "[DONE]"},
		"garbage":         {chatPath, streamOf() + "data: EVIL\n\n", "[DONE]"},
		"message":         {"/messages", begins[messages] + endsWell[messages] + strings.ReplaceAll(messageSays, `"x"`, `"EVIL"`), "message_stop"},
		"response":        {"/responses", begins[responses] + endsWell[responses] + responseSays + "data: EVIL\n\n", "response.completed"},
	} {
		for _, resume := range []bool{false, true} {
			f := writing(t, func(w http.ResponseWriter, _ func()) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, tc.stream)
			})
			c := call(streamed)
			c.Path, c.Resume = tc.path, resume
			_, text, err := take(t, f, c)
			if err != nil || strings.Contains(text, "EVIL") || !strings.Contains(text, tc.keeps) || !strings.HasSuffix(text, "\n\n") {
				t.Errorf("%s, resume %v: %v %.3000q", name, resume, err, text)
			}
			if faults := f.Status()[0].Faults; faults["overrun"] != 1 || len(faults) != 1 {
				t.Errorf("%s, resume %v: %v", name, resume, faults)
			}
			f.members.Load().list[0].wire.close()
		}
	}
	// [DONE] behind the last event of another API, and what is no text behind a finish reason, are no faults.
	for _, tc := range []struct{ path, stream string }{
		{"/responses", begins[responses] + endsWell[responses] + done}, {chatPath, begin + last + last + usage + done}, {chatPath, streamOf() + ": bye\n\n"},
	} {
		f := writing(t, func(w http.ResponseWriter, _ func()) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, tc.stream)
		})
		c := call(streamed)
		c.Path = tc.path
		if _, text, err := take(t, f, c); err != nil || len(f.Status()[0].Faults) > 0 {
			t.Errorf("%v %v %q", err, f.Status()[0].Faults, text)
		}
		f.members.Load().list[0].wire.close()
	}
}
