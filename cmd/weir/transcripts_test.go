package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/servertest"
)

// call sends a body to the API with a key.
func (s *started) call(method, path, key, body string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.api+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-"+servertest.CallersTrace+"-"+servertest.CallersSpan+"-01")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

// filesUnder lists the files of a folder and of those in it.
func filesUnder(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

const canary = "zephyrcanary7731"

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

// withTenants gives a server two tenants, of which one agreed that prompts are kept.
func withTenants(c *configs.Config, url string) {
	open, shut := tenant.New("open"), tenant.New("shut")
	open.LogPrompts = true
	c.Store.URL, c.Tenants = url, []tenant.Tenant{open, shut, tenant.New("ops")}
	c.Log.Level = "debug"
}

// Nothing of what a tenant asks is in the log, in traces, in metrics, in the journal or
// in the store, whatever route it takes and however it ends.
func TestNothingOfAPromptIsKeptWithoutConsent(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, operator := makeKey(t, url, "shut"), makeKey(t, url, "ops", "--scope", "admin")
	endpoint, spans := servertest.Collect(t)
	s := start(t, func(c *configs.Config) {
		withTenants(c, url)
		c.Trace.Endpoint, c.Trace.SampleRatio = endpoint, 1
	})
	for _, c := range canaries {
		if status, answer := s.call(http.MethodPost, strings.ReplaceAll(c.path, "CANARY", canary), key,
			strings.ReplaceAll(c.body, "CANARY", canary)); status != c.status {
			t.Errorf("%s %.100s: %d %.300s", c.path, c.body, status, answer)
		}
	}
	if status, _ := s.call(http.MethodPost, "/v1/completions", canary, `{"prompt":"`+canary+`"}`); status != 401 {
		t.Errorf("a wrong key: %d", status)
	}
	places := map[string]string{}
	for _, path := range []string{"/metrics", "/admin/requests", "/debug/engine", "/admin/usage"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.metrics+path, http.NoBody)
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
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	places["log"] = s.errs.String() + s.out.String()
	places["traces"] = fmt.Sprint(spans())
	for _, path := range filesUnder(t, folder) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		places[filepath.Base(path)] = string(raw)
	}
	for place, text := range places {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s has it: %.300q", place, text[max(0, at-150):])
		}
	}
	if len(spans()) == 0 || !strings.Contains(places["log"], "request finished") || !strings.Contains(places["/admin/requests"], "shut") {
		t.Error("the places that were looked at are empty")
	}
}

// Prompts of a tenant that agreed are kept scrubbed, shown, and deleted with all else
// but the usage.
func TestPromptsAreKeptWithConsentAndForgotten(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, operator := makeKey(t, url, "open"), makeKey(t, url, "ops", "--scope", "admin")
	run := func() *started { return start(t, func(c *configs.Config) { withTenants(c, url) }) }
	s := run()
	ask := strings.ReplaceAll(`{"messages":[{"role":"user","content":"CANARY ann@example.com 4111 1111 1111 1111"}],"max_tokens":4,"stream":STREAM}`, "CANARY", canary)
	for _, stream := range []string{"false", "true"} {
		if status, answer := s.call(http.MethodPost, "/v1/chat/completions", key, strings.ReplaceAll(ask, "STREAM", stream)); status != 200 {
			t.Fatal(status, answer)
		}
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	status, kept, errs := weir("tenants", "prompts", "open", "--store", url)
	lines := strings.Split(strings.TrimSpace(kept), "\n")
	if status != exitOK || len(lines) != 2 || strings.Contains(kept, "ann@") || strings.Contains(kept, "4111") {
		t.Fatalf("%d %s\n%s", status, errs, kept)
	}
	for _, line := range lines {
		if !strings.Contains(line, canary+" [email] [card]") || strings.Contains(line, `"answers":[]`) || strings.Contains(line, `"answers":[""]`) {
			t.Errorf("%s", line)
		}
	}
	s = run()
	if got := s.do(http.MethodPost, "/admin/tenants/open/forget", operator); got != 200 {
		t.Errorf("forget: %d", got)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if _, kept, _ = weir("tenants", "prompts", "open", "--store", url); kept != "" {
		t.Errorf("left: %s", kept)
	}
	for _, path := range filesUnder(t, folder) {
		if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), canary) {
			t.Errorf("%s has it still, %v", path, err)
		}
	}
	if status, out, errs := weir("tenants", "forget", "open", "--yes", "--store", url); status != exitOK || !strings.Contains(out, "0 prompts") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	s = run()
	if _, report := s.get(s.metrics + "/health"); report == "" {
		t.Error("no answer")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.metrics+"/admin/usage", http.NoBody)
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
