package openai

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weir/api/edge"
	"weir/internal/inference"
)

// counting is an upstream that counts tokens: one for each event of an answer of eight words. Kind says how it tells them.
type counting struct {
	kind  string
	words int
	cut   chan bool // gets a value when all words of a stream that is cut have left
	asked atomic.Pointer[map[string]any]
}

// optionRefusals are how servers that do not know stream_options say so.
var optionRefusals = map[string]struct {
	status int
	text   string
}{
	"refuses":         {http.StatusBadRequest, `{"detail":"extra fields not permitted: stream_options"}`},
	"refuses plainly": {http.StatusBadRequest, "bad request: extra inputs are not permitted"},
	"refuses as 422":  {http.StatusUnprocessableEntity, `{"detail":[{"msg":"extra fields not permitted"}]}`},
	"fails":           {http.StatusInternalServerError, `{"error":{"message":"unexpected keyword argument 'stream_options'"}}`},
}

func (u *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked map[string]any
	_ = json.Unmarshal(body, &asked)
	u.asked.Store(&asked)
	options, _ := asked["stream_options"].(map[string]any)
	usage := fmt.Sprintf(`{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}`, u.words, u.words+7)
	switch u.kind {
	case "huge":
		usage = `{"prompt_tokens":1000000000000000000,"completion_tokens":1000000000000000000,"total_tokens":2000000000000000000}`
	case "huger":
		usage = `{"prompt_tokens":1e30,"completion_tokens":5}`
	case "negative":
		usage = `{"prompt_tokens":-11,"completion_tokens":-5,"total_tokens":-16}`
	case "total":
		usage = `{"prompt_tokens":7,"total_tokens":15}`
	case "no output":
		usage = `{"prompt_tokens":7}`
	case "cached":
		usage = `{"prompt_tokens":7,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":50},"completion_tokens_details":null}`
	case "floats":
		usage = `{"prompt_tokens":7.0,"completion_tokens":8.0}`
	}
	if refusal, ok := optionRefusals[u.kind]; ok && options != nil {
		w.WriteHeader(refusal.status)
		_, _ = io.WriteString(w, refusal.text)
		return
	}
	if asked["stream"] != true {
		if u.kind == "none" {
			usage = "null"
		}
		fmt.Fprintf(w, `{ "choices" : [{"index":0,"message":{"content":%q}, "finish_reason" : "stop"}], "usage" : %s }`, strings.Repeat(" word", u.words), usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	colon, null := ":", ""
	if u.kind == "spaced" {
		colon = " : "
	}
	if options["include_usage"] == true && u.kind == "null usage" {
		null = `,"usage":null`
	}
	if u.kind == "every" {
		null = `,"usage": ` + usage
	}
	flush := w.(http.Flusher).Flush //nolint:forcetypeassert // it always is one
	for i := range u.words {
		say := `"content":" word"`
		if u.kind == "tools" {
			say = `"tool_calls":[{"index":0,"function":{"arguments":" word"}}]`
		}
		index := 0
		if u.kind == "two choices" {
			index = i % 2
		}
		fmt.Fprintf(w, `data: {"id":"c"%s,"choices":[{"index":%d,"delta":{%s},"finish_reason":null}]}`+"\n\n", null, index, say)
		flush()
	}
	if u.cut != nil {
		u.cut <- true
		if u.kind == "dies" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason"%s"stop"}]%s}`+"\n\n", colon, null)
	if u.kind == "two choices" {
		_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`+"\n\n")
	}
	if u.kind == "finish twice" {
		_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
	}
	if u.kind == "null at the end" {
		usage = "null"
	}
	if options["include_usage"] == true && u.kind != "none" && u.kind != "every" {
		fmt.Fprintf(w, `data: {"id":"c","choices":[],"usage"%s%s}`+"\n\n", colon, usage)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// What a relayed answer used is known whether or not its client asks, its server tells, or its JSON has spaces; the client gets
// what it asked for.
func TestUsageOfRelayedAnswers(t *testing.T) {
	for _, tc := range []struct {
		kind, fields     string
		prompt, output   int
		estimated, shown bool
	}{
		{kind: "", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "", fields: `"stream":true,"stream_options":{"include_usage":true}`, prompt: 7, output: 8, shown: true},
		{kind: "", fields: `"stream":true,"stream_options":{"include_usage":false,"other":[1]}`, prompt: 7, output: 8},
		{kind: "", fields: `"stream":true,"stream_options":null`, prompt: 7, output: 8},
		{kind: "null usage", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "spaced", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "spaced", fields: `"stream":true, "stream_options" : { "include_usage" : true }`, prompt: 7, output: 8, shown: true},
		{kind: "two choices", fields: `"stream":true,"n":2`, prompt: 7, output: 8},
		{kind: "tools", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "finish twice", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "none", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "refuses", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "refuses plainly", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "refuses as 422", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "fails", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "every", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "every", fields: `"stream":true,"stream_options":{"include_usage":true}`, prompt: 7, output: 8, shown: true},
		{kind: "null at the end", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "huge", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "huger", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "negative", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "no output", fields: `"stream":true`, prompt: -1, output: 8, estimated: true},
		{kind: "total", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "cached", fields: `"stream":true`, prompt: 7, output: 8, estimated: true}, // more than the prompt has
		{kind: "floats", fields: `"stream":true`, prompt: 7, output: 8},
		{kind: "huge", fields: `"stream":false`, prompt: -1, output: 10, estimated: true, shown: true},
		{kind: "negative", fields: `"stream":false`, prompt: -1, output: 10, estimated: true, shown: true},
		{kind: "", fields: `"stream":false`, prompt: 7, output: 8, shown: true},
		{kind: "none", fields: `"stream":false`, prompt: -1, output: 10, estimated: true, shown: true}, // a token for four bytes
	} {
		t.Run(tc.kind+" "+tc.fields, func(t *testing.T) {
			upstream := &counting{kind: tc.kind, words: 8}
			server := httptest.NewServer(upstream)
			defer server.Close()
			c := DefaultConfig()
			finished := make(chan edge.RequestFinish, 1)
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			r := relayRig(t, c, server.URL)
			defer r.close()
			status, text := r.post(routeChat, `{"model":"front","messages":[{"role":"user","content":"Hello"}],`+tc.fields+`}`)
			f := <-finished
			if status != http.StatusOK || strings.Contains(text, "usage") != tc.shown || strings.Contains(text, "\n\n\n") || !tc.shown && strings.Contains(text, `"choices":[]`) || !strings.Contains(text, " word") {
				t.Errorf("%d %s", status, text)
			}
			if f.CachedTokens > f.PromptTokens || f.PromptTokens > 1000 {
				t.Errorf("%d prompt tokens, %d of them cached", f.PromptTokens, f.CachedTokens)
			}
			if tc.prompt >= 0 && f.PromptTokens != tc.prompt || f.PromptTokens == 0 || f.OutputTokens != tc.output || f.Estimated != tc.estimated {
				t.Errorf("%d and %d tokens, estimated %v; want %+v", f.PromptTokens, f.OutputTokens, f.Estimated, tc)
			}
			want := []inference.FinishReason{inference.FinishStop}
			if tc.kind == "two choices" {
				want = append(want, inference.FinishLength)
			}
			if !slices.Equal(f.Reasons, want) {
				t.Errorf("reasons %v", f.Reasons)
			}
		})
	}
}

// The prompt of a stream that is cut before its servers tell of it is estimated by what they told of others, not by its bytes alone.
func TestPromptsOfCutStreamsAreEstimatedByThoseThatWereTold(t *testing.T) {
	server := httptest.NewServer(&counting{kind: "dies", words: 5, cut: make(chan bool, 1)})
	defer server.Close()
	c := DefaultConfig()
	finished := make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r := relayRig(t, c, server.URL)
	defer r.close()
	for _, stream := range []string{"false", "true"} {
		_, text := r.post(routeChat, `{"model":"front","stream":`+stream+`,"messages":[{"role":"user","content":"Hello"}]}`)
		if f := <-finished; f.PromptTokens != 7 || f.Estimated != (stream == "true") {
			t.Errorf("stream %s: %d prompt tokens, estimated %v: %s", stream, f.PromptTokens, f.Estimated, text)
		}
	}
}

// A stream that is cut is charged for what was delivered, by whichever side it was cut.
func TestUsageOfStreamsThatAreCut(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hung up", "deadline", "dies"} {
		upstream := &counting{kind: kind, words: 5, cut: make(chan bool, 1)}
		server := httptest.NewServer(upstream)
		c := DefaultConfig()
		finished := make(chan edge.RequestFinish, 1)
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
		r := relayRig(t, c, server.URL)
		conn, err := r.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		head := ""
		if kind == "deadline" {
			head = "X-Weir-Deadline-Ms: 300\r\n"
		}
		_, _ = io.WriteString(conn, rawRequest("POST", routeChat, head, `{"model":"front","stream":true,"messages":[{"role":"user","content":"Hello"}]}`))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		for words := 0; words < 5; {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			words += strings.Count(line, " word")
		}
		<-upstream.cut
		if kind == "hung up" {
			_ = conn.Close()
		} else if rest, _ := io.ReadAll(in); !strings.Contains(string(rest), `"error"`) || strings.Contains(string(rest), "[DONE]") {
			t.Errorf("%s: %s", kind, rest)
		}
		f := <-finished
		if f.OutputTokens != 5 || f.PromptTokens == 0 || !f.Estimated || !f.Charged() || f.Status == http.StatusOK {
			t.Errorf("%s: %d and %d tokens, status %d", kind, f.PromptTokens, f.OutputTokens, f.Status)
		}
		_ = conn.Close()
		r.close()
		server.Close()
	}
}

// A bug in who watches requests is told, and the request ends: nothing that it held stays held.
func TestEndOfAStreamSurvivesAPanic(t *testing.T) {
	server := httptest.NewServer(&counting{words: 8})
	defer server.Close()
	c := DefaultConfig()
	caught := make(chan string, 1)
	c.Hooks.OnRequestFinish = func(edge.RequestFinish) { panic("a bug") }
	c.Hooks.OnPanic = func(where string, value any, _ []byte) { caught <- fmt.Sprint(where, ": ", value) }
	r := relayRig(t, c, server.URL)
	defer r.close()
	status, text := r.post(routeChat, `{"model":"front","messages":[],"stream":true}`)
	if status != http.StatusOK || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("%d %s", status, text)
	}
	if got := <-caught; got != "stream: a bug" {
		t.Errorf("told %q", got)
	}
	if err := r.openai.Drain(t.Context()); err != nil {
		t.Errorf("a request is held: %v", err)
	}
}
