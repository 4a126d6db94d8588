package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/configs"
	"weir/internal/server/servertest"
)

func TestServeAnswersTheSameStreamingAndNot(t *testing.T) {
	s := servertest.Start(t, nil)
	r := s.Post("/v1/chat/completions", servertest.Hello+"}")
	var whole servertest.Completion
	if err := json.NewDecoder(r.Body).Decode(&whole); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", r.StatusCode, err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" || whole.Choices[0].FinishReason != "stop" {
		t.Fatalf("answer %+v", whole)
	}
	text, ended := s.Stream(servertest.Hello + `,"stream":true}`)
	if text != whole.Choices[0].Message.Content || !ended {
		t.Errorf("streamed %q, ended %v; whole %q", text, ended, whole.Choices[0].Message.Content)
	}
	if err := s.End(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

func TestServeReportsItself(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.Model.ServedNames = []string{"assistant", "alias"} })
	if status, body := s.Get(s.API + "/health"); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
	if _, body := s.Get(s.API + "/v1/models"); !strings.Contains(body, `"assistant"`) {
		t.Errorf("models: %s", body)
	}
	s.Post("/v1/chat/completions", strings.Replace(servertest.Hello, "{", `{"model":"alias",`, 1)+"}")
	for _, want := range []string{"metrics", "curl http://", "sequences of", `"model":"assistant"`} {
		if !strings.Contains(s.Out.String(), want) {
			t.Errorf("the block at the start lacks %q:\n%s", want, s.Out.String())
		}
	}
	_, text := s.Get(s.Admin + "/metrics")
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
	if strings.Contains(s.Errs.String(), "Hello") {
		t.Errorf("the log holds text of a request:\n%s", s.Errs.String())
	}
}

func TestServeAsksForTheKey(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.API.APIKeys = []string{"a-long-secret"} })
	if r := s.Post("/v1/chat/completions", servertest.Hello+"}"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: status %d", r.StatusCode)
	}
	if status, _ := s.Get(s.API + "/health"); status != http.StatusOK {
		t.Errorf("health without a key: status %d", status)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/v1/chat/completions",
		strings.NewReader(servertest.Hello+"}"))
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
	if strings.Contains(s.Out.String()+s.Errs.String(), "a-long-secret") {
		t.Error("the key was printed")
	}
}

func TestStopLetsARunningStreamFinish(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = servertest.Patience })
	body := bufio.NewReader(s.Post("/v1/chat/completions", servertest.LongAnswer+"60}").Body)
	if _, err := body.ReadString('\n'); err != nil { // it runs
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.End() }()
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
	s := servertest.Start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = time.Millisecond })
	body := bufio.NewReader(s.Post("/v1/chat/completions", servertest.LongAnswer+"900}").Body)
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.End() }()
	rest, _ := io.ReadAll(body) // how the connection ends is not the point; what was said before is
	if text := string(rest); !strings.Contains(text, "server_shutting_down") || strings.Contains(text, "[DONE]") {
		t.Errorf("a cut stream must end with an error event and without [DONE]:\n%s", rest[max(0, len(rest)-300):])
	}
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

func TestHangUpFreesTheCache(t *testing.T) {
	s := servertest.Start(t, nil)
	r := s.Post("/v1/chat/completions", servertest.LongAnswer+"900}")
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
		s.AwaitMetric(want)
	}
}

func TestStoppedServerLeavesNoGoroutine(t *testing.T) {
	serveOnce := func() {
		s := servertest.Start(t, nil)
		s.Stream(servertest.LongAnswer + "4}")
		r := s.Post("/v1/chat/completions", servertest.LongAnswer+"900}")
		r.Body.Close() // a hang-up, too
		if err := s.End(); err != nil {
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

func TestAdminListenerResetsThePrefixCache(t *testing.T) {
	s := servertest.Start(t, nil)
	_ = s.Post("/v1/completions", `{"prompt": "`+strings.Repeat("the prefix cache ", 20)+`", "max_tokens": 1}`).Body.Close()
	r, err := http.Post(s.Admin+"/reset_prefix_cache", "", nil)
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
	s := servertest.Start(t, func(c *configs.Config) { c.Server.ShutdownTimeout = servertest.Patience })
	if status, body := s.Get(s.Admin + "/ready"); status != http.StatusOK {
		t.Errorf("before: %d %s", status, body)
	}
	r := s.Post("/v1/chat/completions", servertest.LongAnswer+"600}")
	body := bufio.NewReader(r.Body)
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.End() }()
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(time.Millisecond) {
		status, text := s.Get(s.Admin + "/ready")
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
	s := servertest.Start(t, func(c *configs.Config) { c.HTTP.Access.Hosts = []string{"weir.example"} })
	for _, url := range []string{s.API + "/v1/models", s.Admin + "/metrics", s.Admin + "/debug/pprof/heap"} {
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/v1/chat/completions", strings.NewReader(servertest.Hello+"}"))
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
	p := servertest.StartProcess(t, 512, "--api-key", key, "--log-level", "debug", "--api-metrics")
	paths := []string{"/", "/metrics", "/health", "/ready", "/version", "/debug/engine", "/debug/vars", "/debug/pprof/",
		"/debug/pprof/cmdline"}
	for _, profile := range []string{"allocs", "heap", "goroutine", "threadcreate", "block", "mutex"} {
		paths = append(paths, "/debug/pprof/"+profile+"?debug=1", "/debug/pprof/"+profile+"?debug=2")
	}
	for _, path := range paths {
		if _, text := p.Get(p.Admin + path); strings.Contains(text, key) {
			t.Errorf("%s shows the key", path)
		}
	}
	for _, path := range []string{"/v1/models", "/metrics", "/debug/pprof/cmdline", "/x?key=" + key} {
		if _, text := p.Get(p.API + path); strings.Contains(text, key) {
			t.Errorf("the API's %s shows the key", path)
		}
	}
	if err := p.End(); err != nil {
		t.Error(err)
	}
	log := p.Out.String() + p.Errs.String()
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
