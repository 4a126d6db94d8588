package admin

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api"
)

func TestRoutes(t *testing.T) {
	ready := false
	h := New(Config{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metric 1\n")) }),
		Ready:   func() (bool, string) { return ready, "loading" },
		Debug: map[string]func() any{
			"engine": func() any { return map[string]int{"steps": 7} },
			"broken": func() any { return math.Inf(1) },
		},
		Version: "1.2.3",
	})
	for _, tc := range []struct {
		method, path string
		ready        bool
		status       int
		body         string
	}{
		{"GET", "/metrics", true, 200, "metric 1"},
		{"POST", "/metrics", true, 405, ""},
		{"GET", "/health", false, 503, `"status": "loading"`},
		{"GET", "/ready", true, 200, `"status": "ready"`},
		{"GET", "/version", true, 200, `"version": "1.2.3"`},
		{"GET", "/debug/engine", true, 200, `"steps": 7`},
		{"GET", "/debug/broken", true, 500, "encode snapshot"},
		{"GET", "/debug/pprof/", true, 200, "goroutine"},
		{"GET", "/debug/pprof/cmdline", true, 404, "may hold the API key"},
		{"GET", "/debug/pprof/goroutine?debug=1", true, 200, "goroutine profile"},
		{"GET", "/", true, 200, "/debug/engine\n"},
		{"GET", "/console/", true, 200, "<title>weir console</title>"},
		{"GET", "/v1/models", true, 404, "/metrics\n"},
	} {
		ready = tc.ready
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s %s: %d %.200s", tc.method, tc.path, w.Code, w.Body)
		}
	}
}

func TestReset(t *testing.T) {
	var fault error
	h := New(Config{Reset: func(context.Context, string) (int, error) { return 37, fault }})
	for _, tc := range []struct {
		method, target, origin string
		fault                  error
		status                 int
		body                   string
	}{
		{"POST", "/reset_prefix_cache", "", nil, 200, `"freed_blocks": 37`},
		{"POST", "/reset_prefix_cache?reset_running_requests=false", "", nil, 200, `"freed_blocks": 37`},
		{"POST", "/reset_prefix_cache?reset_running_requests=true", "", nil, 400, "blocks of running requests stay"},
		{"POST", "/reset_prefix_cache", "", errors.New("the model is loading"), 503, "reset the prefix cache: the model is loading"},
		{"POST", "/reset_prefix_cache", "https://evil.example", nil, 403, "origin_not_allowed"},
		{"GET", "/reset_prefix_cache", "", nil, 404, "POST /reset_prefix_cache\n"},
	} {
		fault = tc.fault
		r := httptest.NewRequest(tc.method, tc.target, nil)
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s %s: %d %.200s", tc.method, tc.target, w.Code, w.Body)
		}
	}
}

// TestPagesOfOthers: a page of another origin begins no profile and takes no place of those that look, though it could not read either.
func TestPagesOfOthers(t *testing.T) {
	h := New(Config{Metrics: http.NotFoundHandler(), Access: api.Access{Origins: []string{"https://board.example"}}})
	for _, tc := range []struct {
		site, dest, origin string
		status             int
	}{
		{"", "", "", 200}, {"none", "document", "", 200}, {"same-origin", "empty", "", 200}, {"cross-site", "document", "", 200},
		{"cross-site", "image", "", 403}, {"same-site", "empty", "", 403}, {"cross-site", "empty", "https://evil.example", 403},
		{"cross-site", "iframe", "", 403}, {"cross-site", "empty", "https://board.example", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": tc.site, "Sec-Fetch-Dest": tc.dest, "Origin": tc.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%+v: %d %s", tc, w.Code, w.Body)
		}
	}
}

func TestWithoutParts(t *testing.T) {
	h := New(Config{})
	for path, status := range map[string]int{"/ready": 200, "/metrics": 404, "/debug/engine": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status {
			t.Errorf("%s: %d, want %d", path, w.Code, status)
		}
	}
}
