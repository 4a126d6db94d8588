package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/router"
)

// fakeVersions load the test model at the first request, and count holds.
type fakeVersions struct {
	mu     sync.Mutex
	model  *models.Model
	takes  time.Duration // to load
	fails  error
	arm    string
	held   int
	most   int
	asks   []models.VersionRequest
	copies []*models.Copy
	loaded bool
}

func (v *fakeVersions) Outline(string) models.Outline {
	return models.Outline{Label: "2", State: "absent", MaxModelLen: 256, Load: router.Load{Ready: true}}
}

func (v *fakeVersions) Acquire(a *models.VersionRequest) (models.VersionLease, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asks = append(v.asks, *a)
	if a.Version != "" && a.Version != "2" {
		return models.VersionLease{}, fmt.Errorf("%w: %q", models.ErrNoVersion, a.Version)
	}
	v.held++
	v.most = max(v.most, v.held)
	released := false
	h := models.VersionLease{Label: "2", Arm: router.Arm{Rollout: "r1", Name: v.arm}, Release: func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if released {
			panic("a version was let go twice")
		}
		released = true
		v.held--
	}}
	if v.arm == "copied" {
		h.Copy = func(c *models.Copy) { v.copies = append(v.copies, c) }
	}
	if v.loaded {
		h.Model = v.model
		return h, nil
	}
	h.Load = func(ctx context.Context) (*models.Model, error) {
		select {
		case <-time.After(v.takes):
			v.mu.Lock()
			defer v.mu.Unlock()
			v.loaded = v.fails == nil
			return v.model, v.fails
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return h, nil
}

// idle checks that no request holds a version.
func (v *fakeVersions) idle(t *testing.T, what string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held != 0 {
		t.Errorf("%s: %d holds are left", what, v.held)
	}
}

// versionedRig is a rig whose model has versions.
func versionedRig(t *testing.T, c Config, v *fakeVersions, b *fakeBackend) *rig {
	t.Helper()
	r := newRig(t, c, b)
	v.model = testModel(t, b)
	if err := r.openai.SetModels(&models.Model{ID: "test-model", Aliases: []string{"alias"}, Versions: v}); err != nil {
		t.Fatal(err)
	}
	return r
}

const helloChat = `{"model":%q,"messages":[{"role":"user","content":"Hello"}]%s}`

// However a request ends, it holds its version to its end and then lets it go once.
func TestVersionsAreHeldAndLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &fakeVersions{takes: time.Second}
		r := versionedRig(t, DefaultConfig(), v, &fakeBackend{})
		defer func() {
			r.close()
			time.Sleep(time.Minute) // virtual: fasthttp's worker pool looks for its end every 10 s
		}()
		for _, c := range []struct {
			what, path, body, header string
			status                   int
			label                    string
		}{
			{"the first request", routeChat, fmt.Sprintf(helloChat, "test-model", ""), "", 200, "2"},
			{"a stream", routeChat, fmt.Sprintf(helloChat, "alias", `,"stream":true`), "", 200, "2"},
			{"a named version", routeChat, fmt.Sprintf(helloChat, "test-model@2", ""), "", 200, "2"},
			{"another version", routeChat, fmt.Sprintf(helloChat, "test-model@3", ""), "", 404, ""},
			{"another name", routeChat, fmt.Sprintf(helloChat, "nobody@2", ""), "", 404, ""},
			{"a bad parameter", routeChat, fmt.Sprintf(helloChat, "test-model", `,"temperature":"hot"`), "", 400, "2"},
			{"another kind", "/v1/embeddings", `{"model":"test-model","input":"x"}`, "", 400, ""},
			{"a tokenizer", routeTokenize, `{"model":"test-model","prompt":"Hello"}`, "", 200, "2"},
			{"an idempotent stream", routeChat, fmt.Sprintf(helloChat, "test-model", `,"stream":true`), "Idempotency-Key: k1\r\n", 200, "2"},
			{"its repetition", routeChat, fmt.Sprintf(helloChat, "test-model", `,"stream":true`), "Idempotency-Key: k1\r\n", 200, ""},
		} {
			res, text := r.do("POST", c.path, c.header, c.body)
			if res.StatusCode != c.status || res.Header.Get("X-Weir-Version") != c.label {
				t.Errorf("%s: %d, version %q: %.200s", c.what, res.StatusCode, res.Header.Get("X-Weir-Version"), text)
			}
			synctest.Wait()
			v.idle(t, c.what)
		}
		if _, text := r.do("GET", "/v1/models", "", ""); !strings.Contains(text, `"state":"absent"`) || !strings.Contains(text, `"version":"2"`) {
			t.Errorf("models: %s", text)
		}
	})
}

// A request waits for its version no longer than its deadline, and hears why it cannot be
// loaded.
func TestWaitingForAVersionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &fakeVersions{takes: time.Hour}
		r := versionedRig(t, DefaultConfig(), v, &fakeBackend{})
		defer func() {
			r.close()
			time.Sleep(time.Minute) // virtual: fasthttp's worker pool looks for its end every 10 s
		}()
		begun := time.Now()
		res, text := r.do("POST", routeChat, "X-Weir-Ttft-Ms: 3000\r\n", fmt.Sprintf(helloChat, "test-model", ""))
		if took := time.Since(begun); res.StatusCode != http.StatusRequestTimeout || took != 3*time.Second {
			t.Errorf("%d within %v: %s", res.StatusCode, took, text)
		}
		v.idle(t, "a deadline")
		v.takes, v.fails = time.Second, fmt.Errorf("%w: 3 of 4 GiB are taken", inference.ErrUnavailable)
		if status, text := r.post(routeChat, fmt.Sprintf(helloChat, "test-model", "")); status != http.StatusServiceUnavailable || !strings.Contains(text, "3 of 4 GiB") {
			t.Errorf("%d %s", status, text)
		}
		v.idle(t, "a load that failed")
	})
}

// The same conversation is known by its own key, or by how it begins.
func TestConversationsAreTold(t *testing.T) {
	of := func(body string) string {
		o, fault := jsonbody.Parse([]byte(body), false)
		if fault != nil {
			t.Fatal(fault)
		}
		return conversationOf(o)
	}
	first := `{"role":"system","content":"s"},{"role":"user","content":"Hello"}`
	turn := of(`{"messages":[` + first + `]}`)
	if later := of(`{"messages":[` + first + `,{"role":"assistant","content":"Hi"},{"role":"user","content":"More"}]}`); turn == "" || later != turn {
		t.Error("a conversation's later turns are told apart from its first")
	}
	if other := of(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"Bye"}]}`); other == turn {
		t.Error("two conversations are one")
	}
	key := of(`{"messages":[` + first + `],"prompt_cache_key":"k"}`)
	if key == turn || key != of(`{"messages":[],"prompt_cache_key":"k"}`) || of(`{"prompt":"x"}`) != "" {
		t.Error("a conversation's own key does not count")
	}
}

// A copy has the request and the text that the client got; its shadow is computed in the
// lowest class, and no hook hears of it.
func TestCopiesAndShadows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished []edge.RequestFinish
		var mu sync.Mutex
		c := DefaultConfig()
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
			mu.Lock()
			defer mu.Unlock()
			finished = append(finished, f)
		}
		v := &fakeVersions{loaded: true, arm: "copied"}
		b := &fakeBackend{}
		r := versionedRig(t, c, v, b)
		defer func() {
			r.close()
			time.Sleep(time.Minute) // virtual: fasthttp's worker pool looks for its end every 10 s
		}()
		const rest = `"model":"test-model","max_tokens":50}`
		requests := [][2]string{
			{routeChat, fmt.Sprintf(helloChat, "test-model", "")}, {routeChat, fmt.Sprintf(helloChat, "test-model", `,"stream":true`)},
			{routeCompletions, `{"prompt":"Hello",` + rest}, {routeResponses, `{"input":"Hello",` + rest},
			{routeMessages, `{"messages":[{"role":"user","content":"Hello"}],` + rest},
		}
		n := len(requests)
		for _, q := range requests {
			if status, text := r.post(q[0], q[1]); status != http.StatusOK {
				t.Fatalf("%s: %d %s", q[0], status, text)
			}
		}
		synctest.Wait()
		if len(v.copies) != n || len(finished) != n || finished[0].Arm != (router.Arm{Rollout: "r1", Name: "copied"}) || finished[0].Empty || finished[0].Texts != nil {
			t.Fatalf("%d copies, finished %+v", len(v.copies), finished)
		}
		for i, copied := range v.copies {
			if len(copied.Texts) != 1 || copied.Texts[0] != "Hello world" {
				t.Errorf("copy %d has the texts %q", i, copied.Texts)
			}
			got, err := r.openai.Shadow(t.Context(), v.model, copied)
			if err != nil || len(got.Texts) != 1 || got.Texts[0] != "Hello world" || got.Output == 0 {
				t.Errorf("shadow %d: %+v %v", i, got, err)
			}
			if class := b.run(t, n+i).req.Class; class != inference.Batch {
				t.Errorf("shadow %d runs in class %v", i, class)
			}
		}
		if len(finished) != n {
			t.Errorf("hooks heard of shadows: %+v", finished[n:])
		}
	})
}

func TestRefusalsAreKnown(t *testing.T) {
	for text, want := range map[string]bool{
		"I'm sorry, but I cannot help with that.": true, "I can’t do that.": true,
		"The answer is 4.": false, "": false, strings.Repeat("x ", 100) + "I cannot ": false,
	} {
		if generation.Refuses(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
