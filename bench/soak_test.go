package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/reference"
)

// peer is a server with a fault of choice.
type peer struct {
	truncate bool
	leak     bool
	silent   bool // no metrics
	fail     bool
	refuse   bool
	running  atomic.Int64
	cutOff   atomic.Int64 // requests whose client left
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m"}]}`)
	case r.URL.Path == "/metrics" && !p.silent:
		fmt.Fprintf(w, "# TYPE x gauge\nvllm:num_requests_running{model_name=\"m\"} %d\n"+
			"vllm:num_requests_waiting{a=\"b c\"} 0\nvllm:kv_cache_usage_perc 0\n", p.running.Load())
	case r.URL.Path == "/metrics":
		fmt.Fprintln(w, "# nothing")
	case p.fail:
		http.Error(w, "boom", http.StatusInternalServerError)
	case p.refuse:
		http.Error(w, "busy", http.StatusServiceUnavailable)
	default:
		p.generate(w, r)
	}
}

func (p *peer) generate(w http.ResponseWriter, r *http.Request) {
	p.running.Add(1)
	for range 20 {
		select {
		case <-r.Context().Done():
			p.cutOff.Add(1)
			if !p.leak {
				p.running.Add(-1)
			}
			return
		case <-time.After(time.Millisecond):
		}
		fmt.Fprint(w, ": ping\ndata: {\"choices\":[{}]}\n\n")
		w.(http.Flusher).Flush()
	}
	p.running.Add(-1)
	if !p.truncate {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

func soakPeer(t *testing.T, p *peer) (*SoakReport, error) {
	t.Helper()
	srv := httptest.NewServer(p)
	defer srv.Close()
	settle := time.Minute // a busy machine hears late of what was cut
	if p.leak {
		settle = 200 * time.Millisecond
	}
	return Soak(context.Background(), SoakOptions{URL: srv.URL + "/", MetricsURL: srv.URL + "/metrics",
		Requests: 120, Concurrency: 16, MaxTokens: 20, Seed: 3, Settle: settle})
}

func TestSoakPassesASoundServer(t *testing.T) {
	reference.Slow(t)
	p := &peer{}
	r, err := soakPeer(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Completed == 0 || r.Cut == 0 || r.Completed+r.Cut != 120 || p.cutOff.Load() == 0 {
		t.Errorf("%+v, %d seen cut by the server", r, p.cutOff.Load())
	}
	if len(r.Stages) < 4 {
		t.Errorf("cut at %v only", r.Stages)
	}
}

func TestSoakFindsFaults(t *testing.T) {
	reference.Slow(t)
	for name, c := range map[string]struct {
		peer *peer
		want string
	}{
		"leak":       {&peer{leak: true}, "vllm:num_requests_running is"},
		"truncation": {&peer{truncate: true}, "stream ended without [DONE]"},
		"failure":    {&peer{fail: true}, "status 500: boom"},
	} {
		r, err := soakPeer(t, c.peer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := soakPeer(t, &peer{silent: true}); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("a server without the series: %v", err)
	}
	if r, err := soakPeer(t, &peer{refuse: true}); err != nil || r.Err() != nil || r.Refused == 0 {
		t.Errorf("a busy server: %+v, %v", r, err)
	}
}
