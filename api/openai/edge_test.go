package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/logprob"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/stop"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/router"
	"weir/tokenizer"
)

func TestKeys(t *testing.T) {
	const key = "sk-0123456789"
	c := DefaultConfig()
	c.APIKeys = []string{key, "sk-another-key"}
	b := &fakeBackend{}
	r := newRig(t, c, b)
	defer r.close()
	for _, tc := range []struct {
		header string
		status int
	}{
		{"", 401}, {"Authorization: " + key, 401}, {"Authorization: Basic " + key, 401}, {"Authorization: Bearer", 401},
		{"Authorization: Bearer " + key + "x", 401}, {"Authorization: Bearer " + key[:12], 401}, {"X-Api-Key: " + key + "x", 401},
		{"X-Api-Key: " + key, 200}, {"api-key: " + key, 200}, {"Authorization: Basic " + key + "\r\nApi-Key: " + key, 200},
		{"Authorization: Bearer wrong\r\nApi-Key: " + key, 401},
		{"Authorization: Bearer " + key, 200}, {"Authorization: bearer  sk-another-key", 200},
	} {
		header := tc.header
		if header != "" {
			header += "\r\n"
		}
		if res, body := r.do("POST", routeChat, header, chatWith(`"n":1`)); res.StatusCode != tc.status {
			t.Errorf("%q got %d %s, want %d", tc.header, res.StatusCode, body, tc.status)
		}
	}
	for _, path := range []string{"/nowhere", "/v1/models", "//v1//models", "/v1/%6dodels", "/v1/models/../models", "/health/../v1/models", "/health/x"} {
		if res, body := r.do("GET", path, "", ""); res.StatusCode != 401 {
			t.Errorf("%s without a key: %d %s", path, res.StatusCode, body)
		}
	}
	for _, path := range []string{routeHealth, routeReady, routeVersion} {
		if res, _ := r.do("GET", path, "", ""); res.StatusCode != 200 {
			t.Errorf("%s asks for a key", path)
		}
	}
	tenants := map[string]bool{}
	for _, run := range b.runs {
		tenants[run.req.Tenant] = true
		if strings.Contains(run.req.Tenant, "sk-") {
			t.Error("a tenant's name shows its key")
		}
	}
	if len(tenants) != 2 || tenants[""] {
		t.Errorf("tenants %v, want one per key", tenants)
	}
}

func TestOnlyJSONIsTaken(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, tc := range []struct {
		header string
		status int
	}{
		{"Content-Type: application/json; charset=utf-8\r\n", 200},
		{"Content-Type: application/vnd.api+json\r\n", 200},
		{"Content-Type: text/plain\r\n", 415},
		{"Content-Type: application/x-www-form-urlencoded\r\n", 415},
		{"Content-Type:\r\n", 415},
		{"Content-Type: application/json\r\nContent-Encoding: br\r\n", 415},
	} {
		if res, body := r.do("POST", routeChat, tc.header, chatWith(`"n":1`)); res.StatusCode != tc.status {
			t.Errorf("%q got %d %s, want %d", tc.header, res.StatusCode, body, tc.status)
		}
	}
}

func TestRequestIDsAreSentBackIfPlain(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	for _, tc := range []struct{ sent, want string }{
		{"abc-123", "abc-123"}, {"", "0000000000000002"}, {"a b", "0000000000000003"}, {strings.Repeat("x", 129), "0000000000000004"},
	} {
		res, _ := r.do("POST", routeChat, "X-Request-Id: "+tc.sent+"\r\n", chatWith(`"n":1`))
		if got := res.Header.Get("X-Request-Id"); got != tc.want {
			t.Errorf("%q came back as %q, want %q", tc.sent, got, tc.want)
		}
	}
	if id := b.runs[0].req.ID; id != "chatcmpl-0000000000000001" {
		t.Errorf("a client chose the id of its request: %s", id)
	}
}

func TestWholeResponsesAreCompressed(t *testing.T) {
	b := &fakeBackend{script: say(strings.Repeat("the the ", 30), 0)}
	c := DefaultConfig()
	c.CompressMinBytes = 200
	r := newRig(t, c, b)
	defer r.close()
	body := chatWith(`"max_tokens":200`)
	_, plain := r.do("POST", routeChat, "", body)
	for _, tc := range []struct{ accept, coding string }{
		{"gzip", "gzip"}, {"zstd", "zstd"}, {"gzip, deflate, br, zstd", "zstd"}, {"gzip;q=1, zstd;q=0.5", "gzip"},
		{"gzip;q=0", ""}, {"identity", ""}, {"br", ""}, {"gzip;q=x", ""},
	} {
		res, text := r.do("POST", routeChat, "Accept-Encoding: "+tc.accept+"\r\n", body)
		if got := res.Header.Get("Content-Encoding"); got != tc.coding {
			t.Errorf("%q got coding %q, want %q", tc.accept, got, tc.coding)
		}
		if got := expand(t, tc.coding, text); len(got) != len(plain) || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q expands to %.100s", tc.accept, got)
		}
	}
	if res, _ := r.do("POST", routeChat, "Accept-Encoding: gzip\r\n", chatWith(`"stream":true`)); res.Header.Get("Content-Encoding") != "" {
		t.Error("a stream was compressed")
	}
	if res, _ := r.do("GET", routeHealth, "Accept-Encoding: gzip\r\n", ""); res.Header.Get("Content-Encoding") != "" {
		t.Error("a small response was compressed")
	}
}

func expand(t *testing.T, coding, text string) string {
	t.Helper()
	var out []byte
	var err error
	switch coding {
	case "gzip":
		var zr *gzip.Reader
		if zr, err = gzip.NewReader(strings.NewReader(text)); err == nil {
			out, err = io.ReadAll(zr)
		}
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err == nil {
			out, err = d.DecodeAll([]byte(text), nil)
			d.Close()
		}
	default:
		return text
	}
	if err != nil {
		t.Fatalf("%s: %v", coding, err)
	}
	return string(out)
}

func TestTokenizeForOpenAIModels(t *testing.T) {
	reference.Slow(t)
	c := DefaultConfig()
	c.Counter = tokenizer.NewCounter("")
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"model":"gpt-4o","prompt":"hello world"}`, 200, `{"count":2,"tokens":[24912,2375],"token_strs":null}`},
		{`{"model":"gpt-4","prompt":"hello world"}`, 200, `{"count":2,"tokens":[15339,1917],"token_strs":null}`},
		{`{"model":"gpt-4o","prompt":""}`, 200, `{"count":0,"tokens":[],"token_strs":null}`},
		{`{"model":"gpt-4o","messages":[]}`, 400, `"param":"messages"`},
		{`{"model":"gpt-4o","prompt":"a","return_token_strs":true}`, 400, `"param":"return_token_strs"`},
		{`{"model":"nobody","prompt":"a"}`, 404, `model_not_found`},
		{`{"model":"test-model","prompt":"Hello"}`, 200, `"max_model_len":256`},
	} {
		if status, body := r.post(routeTokenize, tc.body); status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s got %d %s", tc.body, status, body)
		}
	}
}

func TestModelNames(t *testing.T) {
	s, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBackend{tok: mustTokenizer(t)}
	for name, change := range map[string]func(*models.Model){
		"no id":         func(m *models.Model) { m.ID = "" },
		"no tokenizer":  func(m *models.Model) { m.Tokenizer = nil },
		"no backend":    func(m *models.Model) { m.Backend = nil },
		"tiny context":  func(m *models.Model) { m.MaxModelLen = 1 },
		"alias like id": func(m *models.Model) { m.Aliases = []string{m.ID} },
	} {
		m := testModel(t, b)
		change(m)
		if err := s.SetModels(m); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	first, second := testModel(t, b), testModel(t, b)
	second.ID, second.Aliases = "a/second", nil
	if err := s.SetModels(first, second); err != nil {
		t.Fatal(err)
	}
	set := s.models.Load()
	if _, ok := set.Find(""); ok {
		t.Error("an empty name found one of two models")
	}
	if m, ok := set.Find("alias"); !ok || m != first || set.IDs() != "a/second, test-model" {
		t.Error("alias or order is wrong", set.IDs())
	}
}

func TestConfigNamesTheWrongSetting(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"heartbeat is":       func(c *Config) { c.Heartbeat = "loud" },
		"heartbeat_every":    func(c *Config) { c.HeartbeatEvery = 1 },
		"progress_every":     func(c *Config) { c.ProgressEvery = 0 },
		"max_choices":        func(c *Config) { c.MaxChoices = 0 },
		"max_messages":       func(c *Config) { c.MaxMessages = 0 },
		"max_stop_tokens":    func(c *Config) { c.MaxStopTokens = -1 },
		"compress_min_bytes": func(c *Config) { c.CompressMinBytes = -1 },
		"abort_timeout":      func(c *Config) { c.AbortTimeout = 0 },
		"api_keys[0]":        func(c *Config) { c.APIKeys = []string{"short"} },
	} {
		c := DefaultConfig()
		change(&c)
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every sentinel has a row, and errors of other kinds keep their text.
func TestFaults(t *testing.T) {
	for sentinel, status := range map[error]int{
		inference.ErrContextLength: 400, inference.ErrNeverFits: 400, inference.ErrInvalid: 400, inference.ErrQueueFull: 503,
		inference.ErrUnavailable: 503, inference.ErrOutOfCache: 503, inference.ErrSlowConsumer: 408, inference.ErrCancelled: 503,
		inference.ErrInternal: 500, io.ErrUnexpectedEOF: 500,
	} {
		e := edge.Fault(fmt.Errorf("step 7: %w", sentinel))
		if e.Status != status || e.Code == "" || e.Type == "" {
			t.Errorf("%v became %+v", sentinel, e)
		}
		if status == 500 && strings.Contains(e.Message, "step 7") {
			t.Errorf("%v: the text of a bug reaches the client", sentinel)
		}
	}
}

// Whatever the cut into tokens, a stream's pieces are the whole answer's text,
// and the offsets of legacy logprobs point at their tokens.
func TestStreamsAndWholeAnswersAgree(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	for _, text := range []string{"Hello world", "é👋 the stop", "xé\xff\x80y", "ab END cd", "", "\u65e5\u672c"} {
		b.script = say(text, 0)
		for _, extra := range []string{`"logprobs":1`, `"logprobs":0,"stop":["END","\u672c!"]`, `"logprobs":2,"echo":true`} {
			_, whole := r.post(routeCompletions, textWith(`"max_tokens":60,`+extra))
			_, stream := r.post(routeCompletions, textWith(`"max_tokens":60,"stream":true,`+extra))
			want := choicesOf(t, []byte(whole))
			var got textChoice
			for line := range strings.SplitSeq(stream, "\n") {
				if data, ok := strings.CutPrefix(line, "data: {"); ok {
					got.add(choicesOf(t, []byte("{"+data)))
				}
			}
			if got.Text != want.Text || got.Reason != want.Reason || fmt.Sprint(got.Logprobs) != fmt.Sprint(want.Logprobs) {
				t.Errorf("%q %s:\nstream %+v\n whole %+v", text, extra, got, want)
			}
			want.checkOffsets(t)
		}
	}
}

type textChoice struct {
	Text     string `json:"text"`
	Reason   string `json:"finish_reason"`
	Logprobs struct {
		Tokens   []string   `json:"tokens"`
		Logprobs []*float64 `json:"token_logprobs"`
		Offsets  []int      `json:"text_offset"`
	} `json:"logprobs"`
}

func choicesOf(t *testing.T, data []byte) textChoice {
	t.Helper()
	var v struct{ Choices []textChoice }
	if err := json.Unmarshal(data, &v); err != nil || len(v.Choices) != 1 {
		t.Fatalf("%v in %s", err, data)
	}
	for i, p := range v.Choices[0].Logprobs.Logprobs {
		if p != nil && (math.IsNaN(*p) || *p > 0) {
			t.Errorf("logprob %d is %v", i, *p)
		}
		v.Choices[0].Logprobs.Logprobs[i] = nil // pointers do not compare
	}
	return v.Choices[0]
}

func (c *textChoice) add(o textChoice) {
	c.Text += o.Text
	c.Reason += o.Reason
	c.Logprobs.Tokens = append(c.Logprobs.Tokens, o.Logprobs.Tokens...)
	c.Logprobs.Logprobs = append(c.Logprobs.Logprobs, o.Logprobs.Logprobs...)
	c.Logprobs.Offsets = append(c.Logprobs.Offsets, o.Logprobs.Offsets...)
}

func (c *textChoice) checkOffsets(t *testing.T) {
	t.Helper()
	runes := []rune(c.Text)
	for i, token := range c.Logprobs.Tokens {
		at := c.Logprobs.Offsets[i]
		if strings.HasPrefix(token, "bytes:") || at > len(runes) {
			continue // part of a rune
		}
		n := min(utf8.RuneCountInString(token), len(runes)-at)
		if rest := string(runes[at : at+n]); !strings.HasPrefix(token, rest) {
			t.Errorf("token %q is not at %d of %q", token, at, c.Text)
		}
	}
}

func TestLogprobsHaveNoUnsayableNumbers(t *testing.T) {
	for v, want := range map[float32]string{
		-0.5: "-0.5", 0: "0", float32(math.Inf(-1)): "-9999", -1e9: "-9999", -1e-9: "-1e-09",
	} {
		got := logprob.AppendLogprob(nil, v)
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%v became %s, want %s", v, got, want)
		}
	}
	if got := logprob.AppendLogprob(nil, float32(math.NaN())); string(got) != "null" {
		t.Errorf("NaN became %s", got)
	}
}

// givenStream is a backend that answers with one stream.
type givenStream struct {
	router.Backend
	stream *inference.Stream
}

func (b givenStream) SubmitAll([]*inference.Request) ([]*inference.Stream, error) {
	return []*inference.Stream{b.stream}, nil
}

// tokenStream is a stream of one choice that the caller feeds.
func tokenStream(tb testing.TB, e *endpoint, p params.Params) (*inference.Stream, *generation.EventStream) {
	tb.Helper()
	s := newServer(tb, DefaultConfig(), &fakeBackend{})
	p.N, p.Stream, p.Stops = 1, true, stop.NewSet([]string{"END"}, false)
	j := &job.Job{
		ID: "x", Name: "x", Route: e.route, NewEncoder: e.encode, Model: s.models.Load().List[0], Prompts: []job.Prompt{{IDs: []int32{1}}},
		Params: &p, MaxTokens: 1, PromptLogprobs: -1,
	}
	st := inference.NewStream(8, func(int) {})
	m := *s.models.Load().List[0]
	m.Backend, j.Model, j.Tenant = givenStream{m.Backend, st}, &m, &tenant.Tenant{}
	g, fault := s.runner.Start(j, nil, nil, nil)
	if fault != nil {
		tb.Fatal(fault)
	}
	return st, generation.NewEventStream(g, func() {})
}

// A token costs the stream no allocation, whatever is asked of it.
func TestTokensOfStreamsAllocateNothing(t *testing.T) {
	plain := params.AnswerForm{PromptLogprobs: -1}
	full := params.Params{
		IncludeUsage: true, ReturnTokenIDs: true, Logprobs: true, Sampling: inference.Sampling{Logprobs: 2},
		AnswerForm: params.AnswerForm{PromptLogprobs: -1, ContinuousUsage: true, TokensAsIDs: true},
	}
	event := inference.Event{Kind: inference.EventToken, Token: 65, Top: []inference.TokenLogprob{{ID: 65}, {ID: 66}}}
	for _, e := range []*endpoint{&chatEndpoint, &completionEndpoint} {
		for name, p := range map[string]params.Params{"plain": {AnswerForm: plain}, "full": full} {
			st, r := tokenStream(t, e, p)
			buf := make([]byte, 4096)
			if n := testing.AllocsPerRun(200, func() {
				st.Push(event)
				if n, err := r.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], []byte("\n\n")) {
					t.Fatal(err)
				}
			}); n > 0 {
				t.Errorf("%s, %s: %v allocations per token", e.route, name, n)
			}
		}
	}
}

func BenchmarkStreamToken(b *testing.B) {
	st, r := tokenStream(b, &chatEndpoint, params.Params{AnswerForm: params.AnswerForm{PromptLogprobs: -1}})
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		st.Push(inference.Event{Kind: inference.EventToken, Token: 65})
		if n, err := r.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], []byte("\n\n")) {
			b.Fatal(err)
		}
	}
}
