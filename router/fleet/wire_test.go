package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/router"
)

func one(t *testing.T, c Config, s Source) *Fleet {
	t.Helper()
	c.Model, c.Sources = "here", []Source{s}
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSendsWhatItIsGiven(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Request-Id")+
			" "+r.Header.Get("Content-Type"))
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("a compressed answer was asked for: %s", got)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	}))
	defer upstream.Close()
	f := one(t, Config{}, Source{URL: upstream.URL + "/prefix/v1/", APIKey: "sk-up", Model: `th"ere`})
	for body, want := range map[string]string{`{"a":1}`: `{"model":"th\"ere","a":1}`, `{}`: `{"model":"th\"ere"}`, `{ }`: `{"model":"th\"ere" }`} {
		a, err := f.Send(t.Context(), &router.Call{Path: "/chat/completions", Head: router.Head{RequestID: "id-1"}, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		head := "POST /prefix/v1/chat/completions Bearer sk-up id-1 application/json"
		if a.Status != http.StatusTeapot || string(a.Whole) != want || a.Header.Get("X-Seen") != head || a.Attempts != 1 {
			t.Errorf("%s: %d %q %q", body, a.Status, a.Whole, a.Header.Get("X-Seen"))
		}
	}
}

func TestBaseWithoutPath(t *testing.T) {
	for text, want := range map[string]string{
		"http://a:8000": "/v1", "http://a:8000/": "/v1", "http://a/v1": "/v1", "http://a/v1/": "/v1/", "https://a/api/v3": "/api/v3",
	} {
		base, err := parseBase(Weir, text)
		if err != nil || base.Path != want {
			t.Errorf("%s: %v, %v; want the path %s", text, base, err, want)
		}
	}
}

// The key goes to the server that it belongs to and not where that points.
func TestFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	upstream := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer upstream.Close()
	a, err := one(t, Config{}, Source{URL: upstream.URL}).Send(t.Context(), call(""))
	if err != nil || a.Status != http.StatusTemporaryRedirect {
		t.Fatalf("%v %v", a, err)
	}
}

// An attempt that is given up ends at the upstream, too: else the end of the test server would wait for it.
func TestGivesUp(t *testing.T) {
	arrived := make(chan struct{}, 1)
	silent := func() *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case arrived <- struct{}{}:
			default:
			}
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		return s
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := one(t, Config{}, Source{URL: silent().URL}).Send(ctx, call("")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the cancel: %v", err)
	}
	if _, err := one(t, Config{Routing: Routing{AnswerTimeout: 50 * time.Millisecond}}, Source{URL: silent().URL}).Send(t.Context(), call("")); err == nil {
		t.Error("an upstream that never answers was waited for")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, s := range []Source{
		{},
		{URL: "host:8000/v1"},
		{URL: "ftp://host/v1"},
		{URL: "http://host/v1?key=1"},
		{URL: "http://user:secret@host/v1"},
		{URL: "http://host/v1", DNS: "http://host/v1"},
		{URL: "http://host/v1", Kind: "tgi"},
		{DNS: "host"},
	} {
		if _, err := New(Config{Model: "m", Sources: []Source{s}}); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	for _, c := range []Config{
		{Sources: []Source{{URL: "http://host/v1"}}},
		{Model: "m"},
		{Model: "m", Sources: []Source{{URL: "http://host/v1"}}, Routing: Routing{AnswerTimeout: -1}},
		{Model: "m", Sources: []Source{{URL: "http://host/v1"}}, Routing: Routing{RetryShare: 2}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
