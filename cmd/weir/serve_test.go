package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/configs"
	"weir/internal/server/servertest"
)

// started is a serving process inside the test.
type started struct {
	t    *testing.T
	out  servertest.Buffer
	errs servertest.Buffer
	stop context.CancelFunc
	done chan error

	api, metrics string
	store        string // its URL, where the test chose one
}

// fixed is a configuration that does not change.
func fixed(c configs.Config) configReader {
	return func() (configs.Config, []string, error) { return c, nil, nil }
}

func start(t *testing.T, change func(*configs.Config)) *started {
	t.Helper()
	return startFrom(t, &source{}, change)
}

// startFrom starts a server whose configuration can change: from gets the first one.
func startFrom(t *testing.T, from *source, change func(*configs.Config)) *started {
	t.Helper()
	from.c = configs.Default()
	from.c.Server.Port, from.c.Server.AdminAddress = 0, "127.0.0.1:0"
	from.c.Log.Format = "json"
	from.c.Engine.KVMemoryBytes = 16 << 20
	if change != nil {
		change(&from.c)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &started{t: t, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- serve(ctx, from.read, &s.out, &s.errs) }()
	t.Cleanup(func() { s.end() })
	s.api = s.find(`weir serves .* on (https?://\S+)`, &s.out)
	s.metrics = s.find(`metrics +(https?://\S+)/metrics`, &s.out)
	return s
}

// find waits for a pattern in the output and returns its group.
func (s *started) find(pattern string, in *servertest.Buffer) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(in.String()); m != nil {
			return m[1]
		}
		select {
		case err := <-s.done:
			close(s.done) // end finds it ended
			s.t.Fatalf("the server ended: %v\n%s", err, s.errs.String())
		default:
		}
	}
	s.t.Fatalf("no %s in\n%s\n%s", pattern, s.out.String(), s.errs.String())
	return ""
}

// end stops the server and returns how serve ended; later calls return nil.
func (s *started) end() error {
	s.stop()
	select {
	case err, open := <-s.done:
		if open {
			close(s.done)
		}
		return err
	case <-time.After(servertest.Patience):
		s.t.Error("the server did not stop")
		return nil
	}
}

func (s *started) get(url string) (int, string) {
	s.t.Helper()
	r, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func (s *started) post(path, body string) *http.Response {
	s.t.Helper()
	r, err := http.Post(s.api+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Body.Close() })
	return r
}

type completion struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

const hello = `{"messages":[{"role":"user","content":"Hello"}],"temperature":0`

func TestServeAnswersTheSameStreamingAndNot(t *testing.T) {
	s := start(t, nil)
	r := s.post("/v1/chat/completions", hello+"}")
	var whole completion
	if err := json.NewDecoder(r.Body).Decode(&whole); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", r.StatusCode, err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" || whole.Choices[0].FinishReason != "stop" {
		t.Fatalf("answer %+v", whole)
	}
	text, ended := s.stream(hello + `,"stream":true}`)
	if text != whole.Choices[0].Message.Content || !ended {
		t.Errorf("streamed %q, ended %v; whole %q", text, ended, whole.Choices[0].Message.Content)
	}
	if err := s.end(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// stream joins the text of a streamed chat; ended: the last event is [DONE].
func (s *started) stream(body string) (text string, ended bool) {
	s.t.Helper()
	for lines := bufio.NewScanner(s.post("/v1/chat/completions", body).Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
		case data == "[DONE]":
			ended = true
		default:
			var chunk completion
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				s.t.Fatalf("event %s: %v", data, err)
			}
			for _, c := range chunk.Choices {
				text += c.Delta.Content
			}
		}
	}
	return text, ended
}

func TestServeReportsItself(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.Model.ServedNames = []string{"assistant", "alias"} })
	if status, body := s.get(s.api + "/health"); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
	if _, body := s.get(s.api + "/v1/models"); !strings.Contains(body, `"assistant"`) {
		t.Errorf("models: %s", body)
	}
	s.post("/v1/chat/completions", strings.Replace(hello, "{", `{"model":"alias",`, 1)+"}")
	for _, want := range []string{"metrics", "curl http://", "sequences of", `"model":"assistant"`} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("the block at the start lacks %q:\n%s", want, s.out.String())
		}
	}
	_, text := s.get(s.metrics + "/metrics")
	for _, want := range []string{
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="assistant"} 1`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="assistant"} 1`,
		`vllm:e2e_request_latency_seconds_count{engine="0",model_name="assistant"} 1`,
		`vllm:num_requests_running{engine="0",model_name="assistant"} 0`,
		`weir_invariant_faults_total{engine="0",model_name="assistant"} 0`,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(s.errs.String(), "Hello") {
		t.Errorf("the log holds text of a request:\n%s", s.errs.String())
	}
}

func TestServeAsksForTheKey(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.API.APIKeys = []string{"a-long-secret"} })
	if r := s.post("/v1/chat/completions", hello+"}"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: status %d", r.StatusCode)
	}
	if status, _ := s.get(s.api + "/health"); status != http.StatusOK {
		t.Errorf("health without a key: status %d", status)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.api+"/v1/chat/completions",
		strings.NewReader(hello+"}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer a-long-secret")
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("with the key: status %d", r.StatusCode)
	}
	if strings.Contains(s.out.String()+s.errs.String(), "a-long-secret") {
		t.Error("the key was printed")
	}
}

// longAnswer runs for many steps, whatever the model would say.
const longAnswer = `{"messages":[{"role":"user","content":"Hello"}],"temperature":0,"stream":true,"ignore_eos":true,"max_tokens":`

func TestStopLetsARunningStreamFinish(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = servertest.Patience })
	body := bufio.NewReader(s.post("/v1/chat/completions", longAnswer+"60}").Body)
	if _, err := body.ReadString('\n'); err != nil { // it runs
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	rest, err := io.ReadAll(body)
	if err != nil || !strings.Contains(string(rest), `"finish_reason":"length"`) ||
		!strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream did not end as it should: %v\n%s", err, rest[max(0, len(rest)-300):])
	}
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

func TestStopCutsWhatOutlastsTheTimeout(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = time.Millisecond })
	body := bufio.NewReader(s.post("/v1/chat/completions", longAnswer+"900}").Body)
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	rest, _ := io.ReadAll(body) // how the connection ends is not the point; what was said before is
	if text := string(rest); !strings.Contains(text, "server_shutting_down") || strings.Contains(text, "[DONE]") {
		t.Errorf("a cut stream must end with an error event and without [DONE]:\n%s", rest[max(0, len(rest)-300):])
	}
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

func TestHangUpFreesTheCache(t *testing.T) {
	s := start(t, nil)
	r := s.post("/v1/chat/completions", longAnswer+"900}")
	if _, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	for _, want := range []string{
		`weir_client_disconnects_total{engine="0",model_name="weir-default"} 1`,
		`vllm:num_requests_running{engine="0",model_name="weir-default"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="weir-default"} 0`,
		`vllm:request_success_total{engine="0",finished_reason="abort",model_name="weir-default"} 1`,
		`weir_cancel_to_free_seconds_count{engine="0",model_name="weir-default"} 1`,
	} {
		s.await(want)
	}
}

func TestStoppedServerLeavesNoGoroutine(t *testing.T) {
	serveOnce := func() {
		s := start(t, nil)
		s.stream(longAnswer + "4}")
		r := s.post("/v1/chat/completions", longAnswer+"900}")
		r.Body.Close() // a hang-up, too
		if err := s.end(); err != nil {
			t.Errorf("serve ended with %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
	serveOnce() // starts what libraries keep for the life of the process
	before := goleak.IgnoreCurrent()
	serveOnce()
	// fasthttp's cleaner sleeps up to ten seconds before it sees the end.
	cleaner := goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2")
	for end := time.Now().Add(servertest.Patience); goleak.Find(before, cleaner) != nil && time.Now().Before(end); { // which waits half a second
	}
	goleak.VerifyNone(t, before, cleaner)
}

// await scrapes until the metrics hold a line.
func (s *started) await(line string) {
	s.t.Helper()
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, text := s.get(s.metrics + "/metrics"); strings.Contains(text, line+"\n") {
			return
		}
	}
	s.t.Errorf("the metrics never said %s", line)
}

func TestAdminListenerResetsThePrefixCache(t *testing.T) {
	s := start(t, nil)
	_ = s.post("/v1/completions", `{"prompt": "`+strings.Repeat("the prefix cache ", 20)+`", "max_tokens": 1}`).Body.Close()
	r, err := http.Post(s.metrics+"/reset_prefix_cache", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct {
		FreedBlocks int `json:"freed_blocks"`
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.StatusCode != http.StatusOK || got.FreedBlocks == 0 {
		t.Errorf("%d %+v %v", r.StatusCode, got, err)
	}
}

func TestAdminListenerSaysDraining(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = servertest.Patience })
	if status, body := s.get(s.metrics + "/ready"); status != http.StatusOK {
		t.Errorf("before: %d %s", status, body)
	}
	r := s.post("/v1/chat/completions", longAnswer+"600}")
	body := bufio.NewReader(r.Body)
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(time.Millisecond) {
		status, text := s.get(s.metrics + "/ready")
		if status == http.StatusServiceUnavailable && strings.Contains(text, "draining") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("while draining: %d %s", status, text)
		}
	}
	if rest, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream was cut: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestForeignNamesAndPagesAreRefused(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.HTTP.Access.Hosts = []string{"weir.example"} })
	for _, url := range []string{s.api + "/v1/models", s.metrics + "/metrics", s.metrics + "/debug/pprof/heap"} {
		for host, want := range map[string]int{"": 200, "localhost": 200, "weir.example": 200, "evil.example": 403} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s as %q: %d, want %d", url, host, res.StatusCode, want)
			}
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.api+"/v1/chat/completions", strings.NewReader(hello+"}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "https://evil.example")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 403 || !strings.Contains(string(text), "--allowed-origins") {
		t.Errorf("a foreign page: %d %s", res.StatusCode, text)
	}
}

// The key is given as a flag, where a profile's cmdline would show it.
func TestKeyIsNeverShown(t *testing.T) {
	const key = "a-long-secret-key"
	p := startProcess(t, 512, "--api-key", key, "--log-level", "debug", "--api-metrics")
	paths := []string{"/", "/metrics", "/health", "/ready", "/version", "/debug/engine", "/debug/vars", "/debug/pprof/",
		"/debug/pprof/cmdline"}
	for _, profile := range []string{"allocs", "heap", "goroutine", "threadcreate", "block", "mutex"} {
		paths = append(paths, "/debug/pprof/"+profile+"?debug=1", "/debug/pprof/"+profile+"?debug=2")
	}
	for _, path := range paths {
		if _, text := p.get(p.metrics + path); strings.Contains(text, key) {
			t.Errorf("%s shows the key", path)
		}
	}
	for _, path := range []string{"/v1/models", "/metrics", "/debug/pprof/cmdline", "/x?key=" + key} {
		if _, text := p.get(p.api + path); strings.Contains(text, key) {
			t.Errorf("the API's %s shows the key", path)
		}
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	log := p.out.String() + p.errs.String()
	if strings.Contains(log, key) {
		t.Error("the log shows the key")
	}
	for _, want := range []string{`"request refused"`, `"code":"invalid_api_key"`,
		`"requests refused","by_code":{"invalid_api_key":4}`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}
