package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/reference"
)

// streamServer answers completions with one of its scripts, which the prompt's
// first word chooses, and keeps what it was asked.
type streamServer struct {
	mu     sync.Mutex
	bodies []map[string]any
	header http.Header

	running, most atomic.Int64
}

// Chunks of the scripts, of both endpoints.
const (
	role     = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
	textA    = `{"system_fingerprint":"fp_1","choices":[{"index":0,"text":"a","delta":{"content":""},"finish_reason":null}]}`
	chatA    = `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	thinking = `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`
	last     = `{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`
	counted  = `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`
)

var scripts = map[string][]string{
	"complete":   {": ping", textA, textA, last, counted, "[DONE]"},
	"uncounted":  {textA, textA, last, "[DONE]"},
	"chat":       {role, chatA, thinking, last, counted, "[DONE]"},
	"nodone":     {textA, last},
	"truncated":  {textA, textA},
	"fault":      {textA, `{"error":{"message":"step failed","code":500}}`},
	"garbage":    {textA, `{"choices":[{"text":`},
	"wrongtypes": {`{"choices":"none"}`},
	"nochunks":   {counted, "[DONE]"},
	"nothing":    {},
	"toolong":    {textA, strings.Repeat("x", maxEventBytes+1)},
}

func (s *streamServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.bodies, s.header = append(s.bodies, body), r.Header.Clone()
	s.mu.Unlock()
	word := promptOf(body)
	switch word {
	case "busy":
		http.Error(w, "come\nback  later", http.StatusTooManyRequests)
		return
	case "slow":
		<-r.Context().Done()
		return
	}
	flusher := w.(http.Flusher)
	for _, event := range scripts[word] {
		if !strings.HasPrefix(event, ":") {
			event = "data: " + event
		}
		fmt.Fprint(w, event+"\n\n")
		flusher.Flush()
	}
	if word == "reset" || word == "truncated" && r.Header.Get("X-Break") != "" {
		panic(http.ErrAbortHandler)
	}
}

// promptOf is the prompt's first word, of either endpoint.
func promptOf(body map[string]any) string {
	prompt, ok := body["prompt"].(string)
	if !ok {
		prompt = body["messages"].([]any)[0].(map[string]any)["content"].(string)
	}
	word, _, _ := strings.Cut(prompt, " ")
	return word
}

func startStreams(t *testing.T) (*streamServer, *Target) {
	t.Helper()
	s := new(streamServer)
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	target := &Target{BaseURL: server.URL + "/", Endpoint: EndpointCompletions, Model: "m"}
	t.Cleanup(target.Close)
	return s, target
}

// asks are requests of one word each.
func asks(words ...string) []Request {
	var out []Request
	for _, word := range words {
		out = append(out, Request{Prompt: word, Words: 1, OutputTokens: 3})
	}
	return out
}

func once(requests []Request) ServeOptions {
	return ServeOptions{Requests: requests, Rate: math.Inf(1), Burstiness: 1}
}

// Every way for a request to end has its kind; none is lost.
func TestOutcomes(t *testing.T) {
	want := map[string]string{
		"complete": "", "uncounted": "", "chat": "", "nodone": "",
		"truncated": failTruncated, "fault": failStream, "garbage": failBad, "wrongtypes": failBad, "nochunks": failEmpty,
		"nothing": failTruncated, "toolong": failBad, "busy": "http_429", "reset": failBroken,
	}
	_, target := startStreams(t)
	words := slices.Sorted(maps.Keys(want))
	done := atomic.Int64{}
	o := once(asks(words...))
	o.Progress = func(int, int) { done.Add(1) }
	load, err := Serve(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i, word := range words {
		out := load.Outcomes[i]
		if out.Kind != want[word] || (out.Error == "") != (want[word] == "") {
			t.Errorf("%s: kind %q, want %q (%s)", word, out.Kind, want[word], out.Error)
		}
		if want[word] != "" {
			failed++
		}
	}
	if f := Compute(load, nil); f.Failed != failed || f.Completed+f.Failed != len(words) {
		t.Errorf("%d completed and %d failed of %d", f.Completed, f.Failed, len(words))
	}
	if done.Load() != int64(len(words)) {
		t.Errorf("progress was told %d times of %d", done.Load(), len(words))
	}
	if out := load.Outcomes[slices.Index(words, "busy")]; out.Error != "status 429: come back later" {
		t.Errorf("refusal: %q", out.Error)
	}
}

// A request that outlasts its time is told from one that broke.
func TestTimeout(t *testing.T) {
	_, target := startStreams(t)
	target.Timeout = 20 * time.Millisecond
	load, err := Serve(t.Context(), target, once(asks("slow")))
	if err != nil || load.Outcomes[0].Kind != failTimeout {
		t.Errorf("%v, %+v", err, load)
	}
}

// A broken connection is not a truncated stream.
func TestBrokenConnection(t *testing.T) {
	_, target := startStreams(t)
	target.Headers = http.Header{"X-Break": {"1"}}
	load, err := Serve(t.Context(), target, once(asks("truncated")))
	if err != nil || load.Outcomes[0].Kind != failBroken || load.Outcomes[0].Chunks != 2 {
		t.Errorf("%v, %+v", err, load)
	}
	target.BaseURL = "http://127.0.0.1:1"
	load, err = Serve(t.Context(), target, once(asks("complete")))
	if err != nil || load.Outcomes[0].Kind != failConnect {
		t.Errorf("nothing listens: %v, %+v", err, load)
	}
}

// A server that closes an idle connection just as a request comes is asked
// again; one that closes a fresh one has failed.
func TestStaleConnection(t *testing.T) {
	var seen sync.Map
	fresh := false // close those, too
	target := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		if _, old := seen.LoadOrStore(r.RemoteAddr, true); old || fresh {
			panic(http.ErrAbortHandler)
		}
		for _, event := range scripts["uncounted"] {
			fmt.Fprint(w, "data: "+event+"\n\n")
		}
	})
	o := once(asks("a", "b", "c"))
	o.MaxConcurrency = 1
	load, err := Serve(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	if f := Compute(load, nil); f.Completed != 3 || f.Resent == 0 {
		t.Errorf("%d completed, %d sent again: %+v", f.Completed, f.Resent, load.Outcomes)
	}
	fresh = true
	if load, err = Serve(t.Context(), target, o); err != nil || Compute(load, nil).Failures[failBroken] != 3 {
		t.Errorf("%v, %+v", err, load)
	}
}

// What counts as a chunk, a token and a time.
func TestCounting(t *testing.T) {
	_, target := startStreams(t)
	o := once(asks("complete", "uncounted", "chat"))
	o.KeepText = true
	load, err := Serve(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Outcome{
		{Chunks: 3, PromptTokens: 7, OutputTokens: 3, CachedTokens: 4, Counted: true, Text: "aa", Fingerprint: "fp_1"},
		{Chunks: 3, PromptTokens: 1, OutputTokens: 2, Text: "aa", Fingerprint: "fp_1"},
		{Chunks: 4, PromptTokens: 7, OutputTokens: 3, CachedTokens: 4, Counted: true, Text: "ahm"},
	} {
		got := load.Outcomes[i]
		sum := got.TTFT
		for _, gap := range got.ITLs {
			sum += gap
		}
		if len(got.ITLs) != want.Chunks-1 || math.Abs(sum-got.Latency) > 1e-9 || got.FirstText < got.TTFT ||
			got.Latency < got.FirstText {
			t.Errorf("%d: times contradict each other: %+v", i, got)
		}
		got.Arrival, got.Start, got.TTFT, got.FirstText, got.ITLs, got.Latency = 0, 0, 0, 0, nil, 0
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
	if chat := load.Outcomes[2]; chat.FirstText == chat.TTFT {
		t.Error("a chunk without text counts as first text")
	}
}

// What is sent, field for field.
func TestBodies(t *testing.T) {
	half := 0.5
	for _, c := range []struct {
		name   string
		change func(*Target, *Request)
		want   string
	}{
		{"plain", func(*Target, *Request) {},
			`{"max_tokens":3,"model":"m","prompt":"complete","stream":true,"stream_options":{"include_usage":true}}`},
		{"everything", func(t *Target, _ *Request) {
			t.IgnoreEOS, t.Temperature, t.Served, t.ExtraBody = true, &half, "alias", map[string]any{"top_p": 0.9, "max_tokens": 1}
		}, `{"ignore_eos":true,"max_tokens":1,"model":"alias","prompt":"complete","stream":true,` +
			`"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9}`},
		{"chat", func(t *Target, _ *Request) { t.Endpoint = EndpointChat },
			`{"max_completion_tokens":3,"messages":[{"content":"complete","role":"user"}],"model":"m","stream":true,` +
				`"stream_options":{"include_usage":true}}`},
		{"messages", func(t *Target, r *Request) {
			t.Endpoint, r.Messages = EndpointChat, json.RawMessage(`[{"role":"user","content":"complete x"}]`)
		}, `{"max_completion_tokens":3,"messages":[{"content":"complete x","role":"user"}],"model":"m","stream":true,` +
			`"stream_options":{"include_usage":true}}`},
	} {
		s, target := startStreams(t)
		target.APIKey, target.Headers = "k", http.Header{"X-Tenant": {"a"}}
		requests := asks("complete")
		c.change(target, &requests[0])
		load, err := Serve(t.Context(), target, once(requests))
		if err != nil || load.Outcomes[0].Kind != "" {
			t.Errorf("%s: %v, %+v", c.name, err, load)
			continue
		}
		if got, _ := json.Marshal(s.bodies[0]); string(got) != c.want {
			t.Errorf("%s: sent\n%s, want\n%s", c.name, got, c.want)
		}
		if s.header.Get("Authorization") != "Bearer k" || s.header.Get("X-Tenant") != "a" {
			t.Errorf("%s: headers %v", c.name, s.header)
		}
	}
	_, target := startStreams(t)
	requests := []Request{{Messages: json.RawMessage(`[]`), OutputTokens: 1}}
	if load, err := Serve(t.Context(), target, once(requests)); err != nil || load.Outcomes[0].Kind != failRequest {
		t.Errorf("messages for /v1/completions: %v, %+v", err, load)
	}
}

// A closed loop keeps at most so many requests under way and sends them in
// their order.
func TestClosedLoop(t *testing.T) {
	for _, limit := range []int{1, 3} {
		s, target := startStreams(t)
		var words []string
		for i := range 20 {
			words = append(words, fmt.Sprintf("complete %d", i))
		}
		o := once(asks(words...))
		o.MaxConcurrency = limit
		o.Warmups = asks("complete warm", "complete warm")
		load, err := Serve(t.Context(), target, o)
		if err != nil {
			t.Fatal(err)
		}
		if most := s.most.Load(); most > int64(limit) {
			t.Errorf("%d requests at a time, limit %d", most, limit)
		}
		if len(s.bodies) != 22 || len(load.Outcomes) != 20 {
			t.Errorf("%d requests came, %d outcomes; want 22 with warm-ups and 20", len(s.bodies), len(load.Outcomes))
		}
		for i, out := range load.Outcomes {
			if out.Arrival > out.Start {
				t.Errorf("request %d arrived at %g and was sent at %g", i, out.Arrival, out.Start)
			}
			if limit == 1 && s.bodies[i+2]["prompt"] != words[i] {
				t.Errorf("request %d was %v", i, s.bodies[i+2]["prompt"])
			}
		}
	}
}

func TestOpenLoopArrivals(t *testing.T) {
	o := ServeOptions{Requests: make([]Request, 50), Rate: 10, Burstiness: 1, Seed: 3}
	at := o.arrivals()
	if again := o.arrivals(); !slices.Equal(at, again) {
		t.Error("the same seed gives other times")
	}
	if math.Abs(at[49]-5) > 1e-9 {
		t.Errorf("50 requests at 10 per second end at %g s", at[49])
	}
	for i := range o.Requests {
		o.Requests[i].At = float64(i * i)
	}
	o.SelfTimed = true
	if at = o.arrivals(); math.Abs(at[49]-5) > 1e-9 || math.Abs(at[7]/at[14]-0.25) > 1e-9 {
		t.Errorf("a trace is not stretched to the rate: %v", at)
	}
	o.Rate = math.Inf(1)
	if at = o.arrivals(); at[7] != 49 {
		t.Errorf("without a rate a trace keeps its times, got %g for 49", at[7])
	}
}

func TestServeRefuses(t *testing.T) {
	for _, c := range []struct {
		o    ServeOptions
		want string
	}{
		{ServeOptions{Rate: 1, Burstiness: 1}, "no requests"},
		{ServeOptions{Requests: asks("x"), Burstiness: 1}, "request rate is 0"},
		{ServeOptions{Requests: asks("x"), Rate: math.NaN(), Burstiness: 1}, "request rate is NaN"},
		{ServeOptions{Requests: asks("x"), Rate: 1, Burstiness: -1}, "burstiness is -1"},
		{ServeOptions{Requests: asks("x"), Rate: 1, Burstiness: 1, MaxConcurrency: -1}, "max concurrency is -1"},
	} {
		if _, err := Serve(t.Context(), &Target{}, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	for _, target := range []Target{{BaseURL: "localhost:8000", Endpoint: EndpointChat},
		{BaseURL: "http://x", Endpoint: "/v1/embeddings"}} {
		if err := target.Check(); err == nil {
			t.Errorf("%+v is taken", target)
		}
	}
	_, target := startStreams(t)
	o := once(asks("complete"))
	o.Warmups = asks("fault")
	if _, err := Serve(t.Context(), target, o); err == nil ||
		!strings.Contains(err.Error(), "warm-up request 0 failed (stream_error)") {
		t.Errorf("a failed warm-up: %v", err)
	}
}

func TestServeStops(t *testing.T) {
	_, target := startStreams(t)
	ctx, stop := context.WithCancel(t.Context())
	o := once(asks("slow", "slow", "slow"))
	o.MaxConcurrency = 2
	time.AfterFunc(20*time.Millisecond, stop)
	if _, err := Serve(ctx, target, o); !errors.Is(err, context.Canceled) {
		t.Errorf("after a stop: %v", err)
	}
	o = once(asks("complete", "complete"))
	o.Rate = 1e-6 // the second would come in a million seconds
	ctx, stop = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, stop)
	if _, err := Serve(ctx, target, o); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped between arrivals: %v", err)
	}
}

// plainServer answers without a stream.
func plainServer(t *testing.T, handle http.HandlerFunc) *Target {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	target := &Target{BaseURL: server.URL, Endpoint: EndpointCompletions, Model: "m"}
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target
}

func TestCalibrate(t *testing.T) {
	reply := func(usage func(words int) string) *Target {
		return plainServer(t, func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Prompt string }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, `{"choices":[{}]%s}`, usage(len(strings.Fields(body.Prompt))))
		})
	}
	target := reply(func(words int) string { return fmt.Sprintf(`,"usage":{"prompt_tokens":%d}`, 5+words*3/2) })
	scale, err := target.Calibrate(t.Context())
	if err != nil || !near(scale.TokensPerWord, 1.5) || !near(scale.OverheadTokens, 5) {
		t.Errorf("%+v, %v", scale, err)
	}
	if got := scale.words(65); got != 40 {
		t.Errorf("65 tokens are %d words, want 40", got)
	}
	if got := scale.words(3); got != 1 {
		t.Errorf("3 tokens, which the template alone needs, are %d words, want 1", got)
	}
	for name, usage := range map[string]func(int) string{
		"no usage": func(int) string { return "" },
		"constant": func(int) string { return `,"usage":{"prompt_tokens":9}` },
	} {
		if _, err := reply(usage).Calibrate(t.Context()); err == nil || !strings.Contains(err.Error(), "give lengths in words") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that loads is waited for; one that refuses is not.
func TestWaitReady(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	var calls atomic.Int64
	target := plainServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "{}")
	})
	probe := Request{Prompt: "x"}
	if err := target.WaitReady(t.Context(), time.Minute, &probe); err != nil || calls.Load() != 2 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
	calls.Store(0)
	if err := target.WaitReady(t.Context(), 0, &probe); err == nil || calls.Load() != 1 {
		t.Errorf("without patience: %v after %d calls", err, calls.Load())
	}
	refuses := plainServer(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such model", http.StatusNotFound) })
	if err := refuses.WaitReady(t.Context(), time.Minute, &probe); err == nil || err.Error() != "status 404: no such model" {
		t.Errorf("%v", err)
	}
}

func TestModelsAndDigest(t *testing.T) {
	page := "# HELP x\nweir_model_info{architecture=\"llama\",digest=\"00ff\",max_model_len=\"8\"} 1\n"
	answer := `{"data":[{"id":"org/m","max_model_len":8},{"id":"n"}]}`
	target := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprint(w, page)
		} else {
			fmt.Fprint(w, answer)
		}
	})
	models, err := target.Models(t.Context())
	if err != nil || len(models) != 2 || models[0] != (ServerModel{ID: "org/m", MaxModelLen: 8}) {
		t.Errorf("%+v, %v", models, err)
	}
	if digest, err := ModelDigest(t.Context(), target.BaseURL+"/metrics"); err != nil || digest != "00ff" {
		t.Errorf("digest %q, %v", digest, err)
	}
	page, answer = "x 1\n", `{"data":[]}`
	if _, err := ModelDigest(t.Context(), target.BaseURL+"/metrics"); err == nil {
		t.Error("a page without a digest gives one")
	}
	if _, err := target.Models(t.Context()); err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("no models: %v", err)
	}
	answer = strings.Repeat(" ", maxAnswerBytes) + `{"data":[{"id":"m"}]}`
	if _, err := target.Models(t.Context()); err == nil {
		t.Error("an endless answer is read")
	}
}

// A whole report of a real run: nothing in it may be NaN or missing.
func TestReportOfRun(t *testing.T) {
	_, target := startStreams(t)
	o := once(asks("complete", "uncounted", "busy"))
	o.MaxConcurrency, o.KeepText = 2, true
	load, err := Serve(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	p := &Report{
		Figures: Compute(load, nil), Load: load, Target: target, Options: &o,
		Shown: []string{"ttft"}, Percentiles: []float64{50, 99.9}, Metadata: [][2]string{{"note", "a"}}, Detailed: true,
	}
	r := NewResult("serve")
	p.Fill(r)
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
		"max_concurrency", "duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
		"request_goodput", "output_throughput", "total_token_throughput", "input_lens", "output_lens", "ttfts", "itls", "latencies",
		"start_times", "queue_times", "generated_texts", "errors", "max_output_tokens_per_s", "max_concurrent_requests",
		"mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p50_ttft_ms", "p99.9_ttft_ms", "p99.9_e2el_ms", "note",
	} {
		if _, ok := all[name]; !ok {
			t.Errorf("the result file lacks vLLM's %s", name)
		}
	}
	if fmt.Sprint(all["failures"]) != "map[http_429:1]" || len(all["error_samples"].([]any)) != 1 {
		t.Errorf("failures %v, %v", all["failures"], all["error_samples"])
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"1 of 2 answers came without usage", "1 of 3 requests failed", "1 http_429"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
}

// The first wave of a closed loop is told apart from the steady state.
func TestTheColdRampIsReportedApart(t *testing.T) {
	load := &Load{Duration: 10, Ramp: 2}
	for i := range 10 {
		ttft := 0.1
		if i < 2 {
			ttft = 5
		}
		load.Outcomes = append(load.Outcomes, Outcome{TTFT: ttft, Latency: 6, OutputTokens: 3, Counted: true, Chunks: 3})
	}
	o := ServeOptions{Requests: make([]Request, 10), Rate: math.Inf(1), Burstiness: 1, MaxConcurrency: 2}
	if o.ramp() != 2 {
		t.Errorf("the ramp of a closed loop of 2 is %d", o.ramp())
	}
	report := &Report{
		Figures: Compute(load, nil), Load: load, Target: &Target{}, Options: &o,
		Shown: []string{"ttft"}, Percentiles: []float64{50, 99},
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{"P99 TTFT (ms): 5000.00", "P50 TTFT after ramp (ms): 100.00", "P99 TTFT after ramp (ms): 100.00"} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	r := NewResult("serve")
	report.Fill(r)
	if !slices.ContainsFunc(r.Rows, func(w Row) bool { return w.Name == "p99_ttft_after_ramp_ms" && w.Value == 100 }) {
		t.Errorf("no row for the steady state: %+v", r.Rows)
	}
	for _, open := range []ServeOptions{{Rate: 3, MaxConcurrency: 2}, {Rate: math.Inf(1), MaxConcurrency: 20},
		{Rate: math.Inf(1), SelfTimed: true, MaxConcurrency: 2}} {
		open.Requests = o.Requests
		if n := open.ramp(); n != 0 {
			t.Errorf("a ramp of %d where nothing comes after it: %+v", n, open)
		}
	}
}
