package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestRelaySendsWhatItIsGiven(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Request-Id")+
			" "+r.Header.Get("Content-Type"))
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("a compressed answer was asked for: %s", got)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	}))
	defer upstream.Close()
	r, err := NewRelay(RelayConfig{BaseURL: upstream.URL + "/prefix/v1/", APIKey: "sk-up", Model: "there"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Send(context.Background(), "/chat/completions", Head{RequestID: "id-1"}, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	want := "POST /prefix/v1/chat/completions Bearer sk-up id-1 application/json"
	if res.StatusCode != http.StatusTeapot || string(body) != `{"a":1}` || res.Header.Get("X-Seen") != want {
		t.Errorf("%d %q %q", res.StatusCode, body, res.Header.Get("X-Seen"))
	}
	if r.Model() != "there" {
		t.Errorf("model %q", r.Model())
	}
}

// The key goes to the upstream that it belongs to and not where that points.
func TestRelayFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	upstream := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer upstream.Close()
	r, err := NewRelay(RelayConfig{BaseURL: upstream.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Send(context.Background(), "/completions", Head{RequestID: "x"}, []byte("{}"))
	if err != nil || res.StatusCode != http.StatusTemporaryRedirect {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()
}

func TestRelayGivesUp(t *testing.T) {
	seen := make(chan error, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		seen <- r.Context().Err()
	}))
	defer upstream.Close()
	r, err := NewRelay(RelayConfig{BaseURL: upstream.URL, Model: "m", AnswerTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Send(context.Background(), "/completions", Head{RequestID: "x"}, []byte("{}")); err == nil {
		t.Error("an upstream that never answers was waited for")
	}
	<-seen
	r, err = NewRelay(RelayConfig{BaseURL: upstream.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := r.Send(ctx, "/completions", Head{RequestID: "x"}, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the cancel: %v", err)
	}
	<-seen
}

func TestRelayConfigIsChecked(t *testing.T) {
	for _, c := range []RelayConfig{
		{Model: "m"},
		{BaseURL: "host:8000/v1", Model: "m"},
		{BaseURL: "ftp://host/v1", Model: "m"},
		{BaseURL: "http://host/v1?key=1", Model: "m"},
		{BaseURL: "http://user:secret@host/v1", Model: "m"},
		{BaseURL: "http://host/v1"},
		{BaseURL: "http://host/v1", Model: "m", AnswerTimeout: -1},
	} {
		if _, err := NewRelay(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
