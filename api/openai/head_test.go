package openai

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
)

// raw sends bytes and reads the first response, 100 Continue too.
func raw(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	c := dial(t, addr)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second)) // far below the time that a body may take
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// What the head of a request decides is answered without a byte of the body.
func TestRefusalsNeedNoBody(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys = []string{"sk-0123456789"}
	addr := loopback(t, c, api.DefaultConfig(), &fakeBackend{})
	const key = "Authorization: Bearer sk-0123456789\r\n"
	bodies := []string{"Content-Length: 8388608\r\n", "Content-Length: 100000000\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 10\r\nExpect: 100-continue\r\n"}
	for _, body := range bodies {
		for _, tc := range []struct {
			head   string
			status int
			code   string
		}{
			{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n", 401, "invalid_api_key"},
			{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-9876543210\r\n", 401, "invalid_api_key"},
			{"POST /nowhere HTTP/1.1\r\nHost: x\r\n", 401, "invalid_api_key"},
			{"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + key, 404, "unknown_url"},
			{"PUT /v1/completions HTTP/1.1\r\nHost: x\r\n" + key, 405, "method_not_allowed"},
			{"POST /health HTTP/1.1\r\nHost: x\r\n", 405, "method_not_allowed"},
		} {
			res, text := raw(t, addr, tc.head+body+"\r\n")
			if res.StatusCode != tc.status || !strings.Contains(text, tc.code) || !res.Close || res.Header.Get("X-Request-Id") == "" {
				t.Errorf("%q with %q: %d %s", tc.head, body, res.StatusCode, text)
			}
		}
	}
	if res, text := raw(t, addr, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"+key+"Content-Length: 100000000\r\n\r\n"); res.StatusCode != 413 ||
		!strings.Contains(text, "request_too_large") {
		t.Errorf("a right key and a body that is too large: %d %s", res.StatusCode, text)
	}
	if res, _ := raw(t, addr, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"+key+"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"); res.StatusCode != 100 {
		t.Errorf("a body that would be taken is not asked for: %d", res.StatusCode)
	}
}

func TestPaths(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for path, status := range map[string]int{
		"/v1/models": 200, "/v1/models/": 200, "/v1/models?x=/": 200, "/v1/%6dodels": 200, "/v1/models/test-model": 200,
		"/v1/models/test-model/": 200, "/health/": 200, "http://test/v1/models": 200, "http://test/health?x": 200,
		"//v1/models": 404, "/v1//models": 404, "/v1/models//": 404, "/x/../v1/models": 404, "/v1/./models": 404, "/v1/models/..": 404,
		"/x/%2e%2e/v1/models": 404, "/%2fv1/models": 404, "/v1/models/%2e%2e/models": 404, "http://test//v1/models": 404, "/": 404, "/v1": 404,
		"/v1/models%": 404, "http://test": 404, "*": 400,
	} {
		if res, body := r.do("GET", path, "", ""); res.StatusCode != status {
			t.Errorf("%s: %d, want %d: %.100s", path, res.StatusCode, status, body)
		}
	}
	if status, body := r.post(routeChat+"/", chatWith(`"n":1`)); status != 200 {
		t.Errorf("a slash at the end: %d %s", status, body)
	}
}

func FuzzRequestPath(f *testing.F) {
	for _, target := range []string{"/v1/models/", "//x", "http://h/p?q", "/%2e%2e/", "*", ""} {
		f.Add(target)
	}
	s, err := New(DefaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path := edge.RequestPath([]byte(target))
		if e, _ := s.Find(path); e != s.unknown && (strings.Contains(path, "//") || strings.Contains(path+"/", "/../") || !strings.HasPrefix(path, "/")) {
			t.Errorf("%q is served as %q", target, path)
		}
	})
}

func TestPagesOfOtherOriginsCanReadRefusals(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys, c.CompressMinBytes = []string{"sk-0123456789"}, 1
	listening := api.DefaultConfig()
	listening.Access.Origins = []string{"https://chat.example"}
	addr := loopback(t, c, listening, &fakeBackend{})
	const origin = "Host: x\r\nOrigin: https://chat.example\r\n"
	res, _ := raw(t, addr, "OPTIONS /v1/chat/completions HTTP/1.1\r\n"+origin+"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n\r\n")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != "https://chat.example" || res.Header.Get("Access-Control-Allow-Headers") != "authorization,content-type" {
		t.Errorf("a preflight, which carries no key: %d %v", res.StatusCode, res.Header)
	}
	res, _ = raw(t, addr, "POST /v1/chat/completions HTTP/1.1\r\n"+origin+"Content-Length: 9\r\n\r\n")
	vary := strings.Join(res.Header.Values("Vary"), ", ")
	if res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") != "https://chat.example" ||
		!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "X-Request-Id") || vary != "Origin, Accept-Encoding" {
		t.Errorf("a refusal: %d %v", res.StatusCode, res.Header)
	}
	if res, _ = raw(t, addr, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 401 {
		t.Errorf("OPTIONS that is no preflight: %d", res.StatusCode)
	}
}

func TestMetricsOnTheAPIPort(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys = []string{"sk-0123456789"}
	without := loopback(t, c, api.DefaultConfig(), &fakeBackend{})
	c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "metric 1 # %s %s", r.URL.Path, r.Header.Get("Accept"))
	})
	with := loopback(t, c, api.DefaultConfig(), &fakeBackend{})
	const request = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n"
	const key = "Authorization: Bearer sk-0123456789\r\n"
	if res, _ := raw(t, without, request+key+"\r\n"); res.StatusCode != 404 {
		t.Errorf("not asked for: %d", res.StatusCode)
	}
	if res, _ := raw(t, with, request+"\r\n"); res.StatusCode != 401 {
		t.Errorf("without the key: %d", res.StatusCode)
	}
	res, body := raw(t, with, request+key+"\r\n")
	if res.StatusCode != 200 || body != "metric 1 # /metrics text/plain" || res.Header.Get("Content-Type") != "text/plain; version=0.0.4" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
}

// Every error that a client gets is reported, whichever part refused.
func TestRefusalsAreReported(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]edge.Refusal{}
	c := DefaultConfig()
	c.Hooks.OnRefused = func(r edge.Refusal) {
		mu.Lock()
		seen[r.Code] = r
		mu.Unlock()
	}
	listening := api.DefaultConfig()
	listening.Access.Loopback = true
	listening.MaxRequestBytes = 4 << 10
	addr := loopback(t, c, listening, &fakeBackend{refuse: func(*inference.Request) error { return inference.ErrQueueFull }})
	for _, tc := range []struct {
		request, code, route string
		status               int
		early                bool
	}{
		{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n", "request_too_large", routeCompletions, 413, true},
		{"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", "unknown_url", routeOther, 404, false},
		{"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", "host_not_allowed", routeModels, 403, false},
		{"\x16\x03\r\n\r\n", "malformed_request", routeOther, 400, false},
		{rawRequest("POST", routeChat, "", "{"), "invalid_json", routeChat, 400, true},
		{rawRequest("POST", routeChat, "", `{"messages":[{"role":"user","content":"hi"}]}`), "server_is_overloaded", routeChat, 503, false},
	} {
		res, body := raw(t, addr, strings.Replace(tc.request, "Host: test", "Host: localhost", 1))
		mu.Lock()
		got := seen[tc.code]
		mu.Unlock()
		if res.StatusCode != tc.status || got.Status != tc.status || got.Route != tc.route || got.Early != tc.early || got.ID != res.Header.Get("X-Request-Id") || got.ID == "" || got.Remote == "" {
			t.Errorf("%q: %d %s; reported %+v", tc.request, res.StatusCode, body, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 6 {
		t.Errorf("reported: %v", seen)
	}
}
