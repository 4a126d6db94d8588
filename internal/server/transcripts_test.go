package server_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/internal/server/state"
	"weir/telemetry/trace/tracetest"
	"weir/telemetry/transcript"
)

// canaries are requests with the canary wherever a client can put text, and their
// statuses.
var canaries = []struct {
	path, body string
	status     int
}{
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"CANARY"}],"max_tokens":4}`, 200},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"CANARY"}],"max_tokens":4,"stream":true}`, 200},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"stop":["CANARY"],"user":"CANARY","metadata":{"CANARY":"CANARY"}}`, 200},
	{"/v1/chat/completions", `{"messages":[{"role":"CANARY","content":"CANARY"}]}`, 400},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"CANARY"}],"max_tokens":"CANARY"}`, 400},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"CANARY"}],"model":"CANARY"}`, 404},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"CANARY`, 400},
	{"/v1/completions", `{"prompt":"CANARY","max_tokens":4,"echo":true}`, 200},
	{"/v1/completions", `{"prompt":["CANARY","CANARY"],"max_tokens":2,"n":2}`, 200},
	{"/v1/completions", `{"prompt":"` + strings.Repeat("CANARY ", 20000) + `"}`, 400},
	{"/tokenize", `{"prompt":"CANARY"}`, 200},
	{"/apply-template", `{"messages":[{"role":"user","content":"CANARY"}]}`, 200},
	{"/v1/CANARY", `{"prompt":"CANARY"}`, 404},
}

// Nothing of what a tenant asks is in the log, in traces, in metrics, in the journal or
// in the store, whatever route it takes and however it ends.
func TestNothingOfAPromptIsKeptWithoutConsent(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, operator := servertest.NewKey(t, url, keychain.Request{Tenant: "shut"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	endpoint, spans := tracetest.Collect(t)
	s := servertest.Start(t, func(c *configs.Config) {
		servertest.TwoTenants(c, url)
		c.Trace.Endpoint, c.Trace.SampleRatio = endpoint, 1
	})
	for _, c := range canaries {
		if status, answer := s.Call(http.MethodPost, strings.ReplaceAll(c.path, "CANARY", servertest.Canary), key,
			strings.ReplaceAll(c.body, "CANARY", servertest.Canary)); status != c.status {
			t.Errorf("%s %.100s: %d %.300s", c.path, c.body, status, answer)
		}
	}
	if status, _ := s.Call(http.MethodPost, "/v1/completions", servertest.Canary, `{"prompt":"`+servertest.Canary+`"}`); status != 401 {
		t.Errorf("a wrong key: %d", status)
	}
	places := map[string]string{}
	for _, path := range []string{"/metrics", "/admin/requests", "/debug/engine", "/admin/usage"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+operator)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %d %v", path, res.StatusCode, err)
		}
		places[path] = string(raw)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	places["log"] = s.Errs.String() + s.Out.String()
	places["traces"] = fmt.Sprint(spans())
	for _, path := range servertest.FilesUnder(t, folder) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		places[filepath.Base(path)] = string(raw)
	}
	for place, text := range places {
		if at := strings.Index(text, servertest.Canary); at >= 0 {
			t.Errorf("%s has it: %.300q", place, text[max(0, at-150):])
		}
	}
	if len(spans()) == 0 || !strings.Contains(places["log"], "request finished") || !strings.Contains(places["/admin/requests"], "shut") {
		t.Error("the places that were looked at are empty")
	}
}

// keptOf are the prompts and answers that a store keeps of a tenant.
func keptOf(t *testing.T, url, name string) (kept []transcript.Record) {
	t.Helper()
	servertest.WithStore(t, url, func(store *state.Store) {
		for r, err := range store.Transcripts.Transcripts(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, r)
		}
	})
	return kept
}

// Prompts of a tenant that agreed are kept scrubbed, shown, and deleted with all else
// but the usage.
func TestPromptsAreKeptWithConsentAndForgotten(t *testing.T) {
	reference.Slow(t)
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, operator := servertest.NewKey(t, url, keychain.Request{Tenant: "open"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	run := func() *servertest.Server {
		return servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	}
	s := run()
	ask := strings.ReplaceAll(`{"messages":[{"role":"user","content":"CANARY ann@example.com 4111 1111 1111 1111"}],"max_tokens":4,"stream":STREAM}`, "CANARY", servertest.Canary)
	for _, stream := range []string{"false", "true"} {
		if status, answer := s.Call(http.MethodPost, "/v1/chat/completions", key, strings.ReplaceAll(ask, "STREAM", stream)); status != 200 {
			t.Fatal(status, answer)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	kept := keptOf(t, url, "open")
	if text := fmt.Sprint(kept); len(kept) != 2 || strings.Contains(text, "ann@") || strings.Contains(text, "4111") {
		t.Fatalf("%+v", kept)
	}
	for _, r := range kept {
		if !strings.Contains(fmt.Sprint(r.Prompts), servertest.Canary+" [email] [card]") || strings.Join(r.Answers, "") == "" {
			t.Errorf("%+v", r)
		}
	}
	s = run()
	if got := s.AdminStatus(http.MethodPost, "/admin/tenants/open/forget", operator); got != 200 {
		t.Errorf("forget: %d", got)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if kept = keptOf(t, url, "open"); len(kept) > 0 {
		t.Errorf("left: %+v", kept)
	}
	for _, path := range servertest.FilesUnder(t, folder) {
		if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), servertest.Canary) {
			t.Errorf("%s has it still, %v", path, err)
		}
	}
	s = run()
	if _, report := s.Get(s.Admin + "/health"); report == "" {
		t.Error("no answer")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Admin+"/admin/usage", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+operator)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if raw, _ := io.ReadAll(res.Body); !strings.Contains(string(raw), "open") {
		t.Errorf("the usage is gone: %s", raw)
	}
}
