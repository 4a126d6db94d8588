package server_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/internal/server/state"
)

// keyed sends a request with an idempotency key, and returns the answer.
func keyed(s *servertest.Server, key, id, body string) string {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", id)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(raw)
}

// Everything that a tenant asks and is answered lies encrypted on the disk, while the server runs and afterwards; once
// the tenant is forgotten, nothing of it can be read.
func TestNothingLiesOnTheDiskInClear(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, operator := servertest.NewKey(t, url, keychain.Request{Tenant: "open"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	chat := `{"messages":[{"role":"user","content":"` + servertest.Canary + `"}],"max_tokens":4,"user":"` + servertest.Canary + `"}`
	answer := keyed(s, key, "k", chat)
	if again := keyed(s, key, "k", chat); again != answer || !strings.Contains(answer, "choices") {
		t.Errorf("a repetition: %.200s, before %.200s", again, answer)
	}
	if status, answer := s.Call(http.MethodPost, "/v1/responses", key, `{"input":"`+servertest.Canary+`","max_output_tokens":4,"metadata":{"a":"`+servertest.Canary+`"}}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	lines := strings.ReplaceAll(chatLines(3, 4), `"content":"`, `"content":"`+servertest.Canary)
	if !strings.Contains(lines, servertest.Canary) {
		t.Fatalf("the lines have no text of ours: %s", lines)
	}
	id := s.Batch(key, lines)
	b := s.AwaitBatch(key, id, completed)
	output := s.BatchOutput(key, b["output_file_id"])
	if len(output) != 3 {
		t.Errorf("the output has %d lines", len(output))
	}
	if status, _, text := s.As(key, http.MethodGet, s.API+"/v1/files/"+b["input_file_id"].(string)+"/content", ""); status != 200 || text != lines {
		t.Errorf("the file comes back as %d %.300q", status, text)
	}
	if found := servertest.FoundIn(t, folder, servertest.Canary); found != nil {
		t.Errorf("while it runs, in clear in %v", found)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if found := servertest.FoundIn(t, folder, servertest.Canary); found != nil {
		t.Errorf("afterwards, in clear in %v", found)
	}
	servertest.WithStore(t, url, func(store *state.Store) {
		if rows, err := store.RotateKey(t.Context(), "open"); err != nil || rows == 0 {
			t.Errorf("%d rows have the new key, %v", rows, err)
		}
	})
	s = servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	if again := keyed(s, key, "k", chat); again != answer {
		t.Errorf("a repetition after the rotation: %.200s", again)
	}
	if status, _, text := s.As(key, http.MethodGet, s.API+"/v1/files/"+b["input_file_id"].(string)+"/content", ""); status != 200 || text != lines {
		t.Errorf("after the rotation the file comes back as %d %.300q", status, text)
	}
	if status, _, text := s.As(operator, http.MethodPost, s.Admin+"/admin/tenants/open/forget", ""); status != 200 {
		t.Errorf("forget: %d %s", status, text)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(folder, "weir.db.files", "files")); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A tenant with retention none has no text kept, encrypted or not, and its clients are told.
func TestRetentionNone(t *testing.T) {
	t.Parallel() // most of it is waiting
	folder := t.TempDir()
	path := filepath.Join(folder, "weir.db")
	url := "sqlite:" + path
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "shut"})
	s := servertest.Start(t, func(c *configs.Config) {
		servertest.TwoTenants(c, url)
		c.Tenants[1].Retention = tenant.RetentionNone
		c.API.ResponseCache.Bytes = 1 << 20
	})
	chat := `{"messages":[{"role":"user","content":"` + servertest.Canary + `"}],"max_tokens":4,"temperature":0}`
	for _, stream := range []string{"", `"stream":true,`} {
		body := strings.Replace(chat, `{"mess`, `{`+stream+`"mess`, 1)
		if answer := keyed(s, key, "k"+stream[:min(len(stream), 1)], body); !strings.Contains(answer, "choices") {
			t.Errorf("%.300s", answer)
		}
		if again := keyed(s, key, "k"+stream[:min(len(stream), 1)], body); !strings.Contains(again, `"code":"idempotency_answer_not_kept"`) {
			t.Errorf("a repetition: %.300s", again)
		}
	}
	for range 2 {
		if _, h, answer := s.As(key, http.MethodPost, s.API+"/v1/chat/completions", chat); h.Get("X-Weir-Cache") != "" {
			t.Errorf("the answer is cached: %s %s", h.Get("X-Weir-Cache"), answer)
		}
	}
	responses := s.API + "/v1/responses"
	status, h, answer := s.As(key, http.MethodPost, responses, `{"input":"`+servertest.Canary+`","max_output_tokens":4,"store":true}`)
	if status != 200 || !strings.Contains(answer, `"store":false`) || !strings.Contains(h.Get("X-Weir-Warnings"), "store") {
		t.Errorf("%d %v %s", status, h, answer)
	}
	for _, refused := range []string{`"background":true`, `"previous_response_id":"resp_1"`} {
		if status, _, answer := s.As(key, http.MethodPost, responses, `{"input":"x",`+refused+`}`); status != 400 {
			t.Errorf("%s: %d %s", refused, status, answer)
		}
	}
	if status, answer := s.Upload(key, chatLines(1, 4), "purpose", "batch"); status != 400 || !strings.Contains(fmt.Sprint(answer), "retention_none") {
		t.Errorf("a file: %d %v", status, answer)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if found := servertest.FoundIn(t, folder, servertest.Canary); found != nil {
		t.Errorf("in clear in %v", found)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var kept int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM weir_responses) + (SELECT count(*) FROM weir_files) +
		(SELECT count(*) FROM weir_replay WHERE length(answer) > 60)`).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("%d rows hold texts, %v", kept, err)
	}
}
