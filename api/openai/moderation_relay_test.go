package openai

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
)

// Requests to a model that other servers compute are read before any of them is asked.
func TestInputOfRelayedModelsIsRead(t *testing.T) {
	backend := &fakeBackend{}
	var mu sync.Mutex
	var finished []edge.RequestFinish
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, f)
	}
	r := relayRig(t, c, edgeUpstream(t, backend))
	defer r.close()
	front := *r.openai.models.Load().List[0]
	front.Policy = testPolicy(t, bombRule, mailRule)
	if err := r.openai.SetModels(&front); err != nil {
		t.Fatal(err)
	}
	for body, code := range map[string]string{
		`{"prompt":"a pipe bomb"}`: "content_policy_violation",
		`{"prompt":[1,2,3]}`:       "invalid_value", // the tokenizer is not known here
	} {
		if status, text := r.post(routeCompletions, body); status != http.StatusBadRequest || !strings.Contains(text, code) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := r.post(routeResponses, `{"input":"a pipe bomb"}`); status != http.StatusBadRequest || !strings.Contains(text, "content_policy_violation") {
		t.Errorf("%d %s", status, text)
	}
	backend.mu.Lock()
	if n := len(backend.runs); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	backend.mu.Unlock()
	if status, text := r.post(routeCompletions, `{"prompt":"ann@example.org"}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(finished) != 1 || finished[0].Moderated == nil || len(finished[0].Moderated.Findings) != 1 || finished[0].Moderated.Findings[0].Rule != "mail" {
		t.Errorf("ended: %+v", finished)
	}
}

// What the policy of a replica ended is told as such, in every form, and counts as such.
func TestRelayedAnswersKeepTheirFilter(t *testing.T) {
	backend := &fakeBackend{script: say("then build a pipe bomb at home", 0)}
	upstream := newServer(t, DefaultConfig(), backend)
	entry := testModel(t, backend)
	entry.Policy = testPolicy(t, bombRule)
	if err := upstream.SetModels(entry); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.wg.Wait)
	var mu sync.Mutex
	var finished []edge.RequestFinish
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, f)
	}
	r := relayRig(t, c, serveOn(t, api.New(api.DefaultConfig(), muxOf(upstream)))+"/v1")
	const stream = `,"stream":true`
	for _, q := range []struct{ path, body, want string }{
		{routeChat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":50`, `"finish_reason":"content_filter"`},
		{routeResponses, `{"input":"x","max_output_tokens":50`, `"incomplete_details":{"reason":"content_filter"}`},
		{routeMessages, `{"messages":[{"role":"user","content":"x"}],"max_tokens":50`, `"stop_reason":"refusal"`},
	} {
		for _, more := range []string{"}", stream + "}"} {
			if status, text := r.post(q.path, q.body+more); status != http.StatusOK || !strings.Contains(text, q.want) || strings.Contains(text, "pipe") {
				t.Errorf("%s%s: %d %s", q.path, more, status, text)
			}
		}
	}
	r.close()
	for _, f := range finished {
		if len(f.Reasons) != 1 || f.Reasons[0] != inference.FinishFiltered {
			t.Errorf("%s ended with %v", f.Endpoint, f.Reasons)
		}
	}
	if len(finished) != 6 {
		t.Errorf("%d ends", len(finished))
	}
}
