package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// storyteller is a server that knows one text, says it word by word from wherever the
// prompt has come to, and dies after some words.
func storyteller(t *testing.T, id, text string, dieAfter int) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			var q struct{ Prompt string }
			_ = json.NewDecoder(r.Body).Decode(&q)
			fmt.Fprintf(w, `{"count":%d}`, len(strings.Fields(q.Prompt)))
			return
		}
		var q struct {
			Prompt   string
			Messages []struct{ Role, Content string }
			Continue bool `json:"continue_final_message"`
			Most     *int `json:"max_tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		chat := len(q.Messages) > 0
		said := strings.TrimPrefix(q.Prompt, "tell: ")
		if final := len(q.Messages) - 1; chat && q.Messages[final].Role == "assistant" {
			if said = q.Messages[final].Content; !q.Continue {
				t.Error("the message is not continued")
			}
		}
		rest, ok := strings.CutPrefix(text, said)
		if !ok {
			t.Errorf("it was told that it had said %q", said)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		piece := func(text, finish string) {
			choice := map[string]any{"index": 0}
			if chat {
				choice["delta"] = map[string]string{"content": text}
			} else {
				choice["text"] = text
			}
			if finish != "" {
				choice["finish_reason"] = finish
			}
			data, _ := json.Marshal(map[string]any{"id": id, "choices": []any{choice}})
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		}
		if chat {
			fmt.Fprintf(w, "data: {\"id\":%q,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", id)
		}
		finish, n := "stop", 0
		for word := range strings.SplitAfterSeq(rest, " ") {
			if word == "" {
				continue
			}
			if n == dieAfter {
				_, _ = io.WriteString(w, "data: {\"id\":\"half")
				w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
				panic(http.ErrAbortHandler)
			}
			if n++; q.Most != nil && n > *q.Most {
				finish, n = "length", n-1
				break
			}
			piece(word, "")
		}
		piece("", finish)
		fmt.Fprintf(w, "data: {\"id\":%q,\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", id, 2+len(strings.Fields(said)), n)
		_, _ = io.WriteString(w, done)
	}))
	t.Cleanup(s.Close)
	return s
}

const tale = "once  upon a time \n there was <a> \"stream\" that broke é👋 and went on to its end"

type told struct {
	text, ids, finish string
	usage             map[string]int
}

func listen(t *testing.T, stream string) (got told) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(stream) {
		data, ok := dataOf([]byte(line))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var c struct {
			ID      string
			Choices []struct {
				Text   string
				Delta  struct{ Content string }
				Finish *string `json:"finish_reason"`
			}
			Usage map[string]int
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if !seen[c.ID] {
			seen[c.ID] = true
			got.ids += c.ID
		}
		for _, choice := range c.Choices {
			got.text += choice.Text + choice.Delta.Content
			if choice.Finish != nil {
				got.finish += *choice.Finish
			}
		}
		if c.Usage != nil {
			got.usage = c.Usage
		}
	}
	return got
}

// A stream that breaks goes on elsewhere: one id, each word once, a usage that counts all.
func TestBrokenStreamsGoOn(t *testing.T) {
	total := len(strings.Fields(tale))
	for _, tc := range []struct {
		path, fields string
		most         int
	}{
		{"/completions", `"prompt":"tell: "`, 0},
		{"/chat/completions", `"messages":[{"role":"user","content":"tell"}]`, 0},
		{"/completions", `"prompt":"tell: ","max_tokens":10`, 10},
		{"/chat/completions", `"messages":[{"role":"user","content":"tell"} ],"max_tokens":10,"min_tokens":3`, 10},
	} {
		for dieAfter := 1; dieAfter < 9; dieAfter++ {
			first, second := storyteller(t, "first", tale, dieAfter), storyteller(t, "second", tale, 1000)
			f, err := New(Config{Model: "m", Sources: []Source{{URL: first.URL + "/v1"}, {URL: second.URL + "/v1"}}})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // each of them is first once
				c := call(tc.fields + `,"stream":true`)
				c.Path, c.Resume = tc.path, true
				a, text, err := take(t, f, c)
				if err != nil {
					t.Fatalf("%s, dead after %d: %v\n%s", tc.path, dieAfter, err, text)
				}
				got := listen(t, text)
				want, finish, n := tale, "stop", total
				if tc.most > 0 {
					// Two spaces in a row are a word of their own to this server.
					want, finish, n = strings.Join(strings.SplitAfter(tale, " ")[:tc.most], ""), "length", tc.most
				}
				exact := tc.most == 0 || a.Replica == strings.TrimPrefix(second.URL, "http://")
				if exact && got.text != want || !exact && !strings.HasPrefix(tale, got.text) || got.finish != finish ||
					got.ids != "first" && got.ids != "second" || !strings.HasSuffix(text, done) || strings.Count(text, "assistant") > 1 {
					t.Errorf("%s, dead after %d:\ngot  %+v\nwant %q %s", tc.path, dieAfter, got, want, finish)
				}
				if tc.most == 0 && (got.usage["prompt_tokens"] != 2 || got.usage["completion_tokens"] < n) {
					t.Errorf("%s, dead after %d: usage %v", tc.path, dieAfter, got.usage)
				}
			}
			for _, r := range f.members.Load().list {
				r.wire.close()
			}
		}
	}
}

// Where a stream cannot go on, or it was not asked for, it ends with an error.
func TestStreamsThatCannotGoOn(t *testing.T) {
	for _, tc := range []struct {
		fields string
		kind   Kind
		resume bool
	}{
		{`"messages":[{"role":"user","content":"tell"}]`, Weir, false},
		{`"messages":[{"role":"user","content":"tell"}],"n":2`, Weir, true},
		{`"messages":[{"role":"user","content":"tell"}],"tools":[{}]`, Weir, true},
		{`"messages":[{"role":"user","content":"tell"}],"response_format":{"type":"json_object"}`, Weir, true},
		{`"messages":[{"role":"user","content":"tell"}]`, OpenAI, true},
	} {
		first, second := storyteller(t, "first", tale, 3), storyteller(t, "second", tale, 3)
		f, err := New(Config{Model: "m", Sources: []Source{{URL: first.URL, Kind: tc.kind}, {URL: second.URL, Kind: tc.kind}}})
		if err != nil {
			t.Fatal(err)
		}
		c := call(tc.fields + `,"stream":true`)
		c.Resume = tc.resume
		_, text, err := take(t, f, c)
		if err == nil || strings.Contains(text, "[DONE]") {
			t.Errorf("%+v: %v %s", tc, err, text)
		}
		for _, r := range f.members.Load().list {
			r.wire.close()
		}
	}
}

// What passes to a client does not depend on how a stream is cut into pieces.
func FuzzStream(f *testing.F) {
	f.Add([]byte(role+event("a")+event("b")+last+done), uint8(7), true)
	f.Add([]byte(": ping\n\n"+role+event("é👋")), uint8(1), false)
	f.Add([]byte("data: {\"error\":{\"code\":503}}\n\n"), uint8(3), true)
	f.Add([]byte("data: {\"choices\":[],\"usage\":{}}\r\n\r\ndata: [DONE]"), uint8(3), true)
	f.Fuzz(func(t *testing.T, text []byte, size uint8, resumes bool) {
		read := func(size int) (string, bool) {
			f := one(t, Config{Routing: Routing{BreakerPause: time.Hour}}, Source{URL: "http://host/v1"})
			fl := &flight{fleet: f, ctx: t.Context(), call: call(streamed)}
			r := f.members.Load().list[0]
			fl.tried = []*replica{r}
			if resumes {
				fl.resume = newResume("/chat/completions", []byte(`{"messages":[{"role":"user","content":"x"}]}`))
			}
			a := &attempt{replica: r, judge: func(error) {}, cancel: func(error) {}, cause: func() error { return nil }, timer: newTimer()}
			s := &stream{flight: fl, attempt: a, body: io.NopCloser(&pieces{text, size})}
			if err := s.open(); err != nil {
				return "", false
			}
			out, err := io.ReadAll(s)
			if cap(s.held) > 4*maxHeldBytes {
				t.Errorf("%d bytes are held", cap(s.held))
			}
			return string(out), err == nil
		}
		if len(text) == 0 || len(text) > maxHeldBytes/2 {
			return
		}
		whole, ok := read(len(text))
		cut, okCut := read(int(size) + 1)
		if ok != okCut || ok && whole != cut {
			t.Errorf("whole: %v %q\nin pieces of %d: %v %q", ok, whole, int(size)+1, okCut, cut)
		}
		if ok && !resumes && !strings.Contains(string(text), ":") && whole != string(text) {
			t.Errorf("%q became %q", text, whole)
		}
	})
}

type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(buf []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(buf, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func newTimer() *time.Timer { return time.NewTimer(time.Hour) }
