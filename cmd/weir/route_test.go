package main

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
	"weir/router/fleet"
)

// routed is a configuration that sends a model's requests to servers.
func routedTo(policy string, urls ...string) func(*configs.Config) {
	return func(c *configs.Config) {
		m := configs.NewServedModel("front", "")
		m.Policy, m.Aliases = policy, []string{"gpt-4o"}
		for _, u := range urls {
			m.Replicas = append(m.Replicas, fleet.Source{URL: u + "/v1", Kind: fleet.Weir, Model: configs.EmbeddedName})
		}
		c.Models = []configs.ServedModel{m}
	}
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// volatile is what two answers to the same question differ in.
var volatile = regexp.MustCompile(`"(id|created|model)":("[^"]*"|\d+)|"(cached_tokens)":\d+`)

// A router gives the answers that its replicas give, streamed and whole, and replicas come
// and go with a reload.
func TestRoute(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	var from source
	r := startFrom(t, &from, routedTo("round_robin", a.api, b.api))
	const question = `"messages":[{"role":"user","content":"What is weir?"}],"temperature":0,"max_tokens":16`
	seen := map[string]int{}
	for _, fields := range []string{question, question + `,"stream":true`} {
		direct := volatile.ReplaceAllString(bodyOf(t, a.post("/v1/chat/completions", `{"model":"`+configs.EmbeddedName+`",`+fields+`}`)), "")
		for range 4 {
			got := r.post("/v1/chat/completions", `{"model":"gpt-4o",`+fields+`}`)
			text := volatile.ReplaceAllString(bodyOf(t, got), "")
			if got.StatusCode != http.StatusOK || text != direct {
				t.Errorf("%d\nrouted %s\ndirect %s", got.StatusCode, text, direct)
			}
			seen[got.Header.Get("X-Weir-Replica")]++
			if got.Header.Get("X-Weir-Route-Reason") != "round_robin" {
				t.Errorf("%v", got.Header)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("the answers are from %v", seen)
	}
	from.change(func(c *configs.Config) { routedTo("round_robin", b.api)(c) }, nil)
	if status, text := reload(t, r); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for range 3 {
		got := r.post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
		if got.Header.Get("X-Weir-Replica") != strings.TrimPrefix(b.api, "http://") {
			t.Errorf("after the reload: %v", got.Header)
		}
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
	got := r.post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
	if text := bodyOf(t, got); got.StatusCode < 500 || !strings.Contains(text, "upstream_unavailable") && !strings.Contains(text, "no_replica") {
		t.Errorf("without replicas: %d %s", got.StatusCode, text)
	}
}

// A replica that drains gets no new requests, and ends its streams.
func TestRouteAroundADrainingReplica(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	r := start(t, routedTo("round_robin", a.api, b.api))
	var open *http.Response
	for open == nil {
		got := r.post("/v1/completions", `{"prompt":"Once upon a time","max_tokens":400,"ignore_eos":true,"stream":true}`)
		if got.Header.Get("X-Weir-Replica") == strings.TrimPrefix(a.api, "http://") {
			open = got
		} else {
			_ = got.Body.Close()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- a.end() }()
	text := bodyOf(t, open)
	if !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream of the draining replica ended with %q", text[max(0, len(text)-200):])
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 10 {
		got := r.post("/v1/completions", `{"prompt":"a b","max_tokens":1}`)
		if text := bodyOf(t, got); got.StatusCode != http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, text)
		}
	}
}

func TestRouteNeedsReplicas(t *testing.T) {
	for _, args := range [][]string{{"route"}, {"route", "--model", "x.gguf"}} {
		var out, errs bytes.Buffer
		if code := execute(args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "no model has replicas") {
			t.Errorf("%v: %d %s", args, code, errs.String())
		}
	}
}
