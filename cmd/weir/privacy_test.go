package main

import (
	"bytes"
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
)

// foundIn are the files of a folder, those of sub-folders too, that have a text.
func foundIn(t *testing.T, folder, text string) (found []string) {
	t.Helper()
	for _, path := range filesUnder(t, folder) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
	}
	return found
}

// keyed sends a request with an idempotency key, and returns the answer.
func (s *started) keyed(key, id, body string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", id)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// Everything that a tenant asks and is answered lies encrypted on the disk, while the server runs and afterwards; once
// the tenant is forgotten, nothing of it can be read.
func TestNothingLiesOnTheDiskInClear(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key := makeKey(t, url, "open")
	s := start(t, func(c *configs.Config) { withTenants(c, url) })
	chat := `{"messages":[{"role":"user","content":"` + canary + `"}],"max_tokens":4,"user":"` + canary + `"}`
	answer := s.keyed(key, "k", chat)
	if again := s.keyed(key, "k", chat); again != answer || !strings.Contains(answer, "choices") {
		t.Errorf("a repetition: %.200s, before %.200s", again, answer)
	}
	if status, answer := s.call(http.MethodPost, "/v1/responses", key, `{"input":"`+canary+`","max_output_tokens":4,"metadata":{"a":"`+canary+`"}}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	lines := strings.ReplaceAll(chatLines(3, 4), `"content":"`, `"content":"`+canary)
	if !strings.Contains(lines, canary) {
		t.Fatalf("the lines have no text of ours: %s", lines)
	}
	id := s.batchOf(key, lines)
	b := s.untilBatch(key, id, completed)
	output := s.outputOf(key, b["output_file_id"])
	if len(output) != 3 {
		t.Errorf("the output has %d lines", len(output))
	}
	if status, _, text := s.as(key, http.MethodGet, s.api+"/v1/files/"+b["input_file_id"].(string)+"/content", ""); status != 200 || text != lines {
		t.Errorf("the file comes back as %d %.300q", status, text)
	}
	if found := foundIn(t, folder, canary); found != nil {
		t.Errorf("while it runs, in clear in %v", found)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if found := foundIn(t, folder, canary); found != nil {
		t.Errorf("afterwards, in clear in %v", found)
	}
	if status, out, errs := weir("store", "rotate-keys", "--store", url); status != exitOK || !strings.Contains(out, "open: a new key") {
		t.Errorf("rotate-keys: %d %s%s", status, out, errs)
	}
	s = start(t, func(c *configs.Config) { withTenants(c, url) })
	if again := s.keyed(key, "k", chat); again != answer {
		t.Errorf("a repetition after the rotation: %.200s", again)
	}
	if status, _, text := s.as(key, http.MethodGet, s.api+"/v1/files/"+b["input_file_id"].(string)+"/content", ""); status != 200 || text != lines {
		t.Errorf("after the rotation the file comes back as %d %.300q", status, text)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := weir("tenants", "forget", "open", "--yes", "--store", url); status != exitOK || !strings.Contains(out, "1 responses, 2 files, and the keys") {
		t.Errorf("forget: %d %s%s", status, out, errs)
	}
	if left, _ := os.ReadDir(filepath.Join(folder, "weir.db.files", "files")); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A store and files that an earlier weir has left in clear are encrypted, by the verb as at a server's start.
func TestStoresInClearAreEncrypted(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "weir.db")
	url := "sqlite:" + path
	key := makeKey(t, url, "open")
	s := start(t, func(c *configs.Config) { withTenants(c, url) })
	status, file := s.upload(key, canary+"\n", "purpose", "user_data")
	if status != 200 {
		t.Fatal(status, file)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	// As an earlier weir has it.
	id := file["id"].(string)
	tamper(t, path, `UPDATE weir_files SET data_key = '', name = '`+canary+`.txt'`)
	bytesOf := filepath.Join(folder, "weir.db.files", "files", id)
	if err := os.Remove(bytesOf + ".age"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bytesOf, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := weir("store", "encrypt", "--store", url)
	if status != exitOK || !strings.Contains(out, "1 rows, 1 files") {
		t.Errorf("encrypt: %d %s%s", status, out, errs)
	}
	if found := foundIn(t, folder, canary); found != nil {
		t.Errorf("still in clear in %v", found)
	}
	s = start(t, func(c *configs.Config) { withTenants(c, url) })
	if status, _, text := s.as(key, http.MethodGet, s.api+"/v1/files/"+id+"/content", ""); status != 200 || text != canary+"\n" {
		t.Errorf("the file comes back as %d %q", status, text)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
}

// A tenant with retention none has no text kept, encrypted or not, and its clients are told.
func TestRetentionNone(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "weir.db")
	url := "sqlite:" + path
	key := makeKey(t, url, "shut")
	s := start(t, func(c *configs.Config) {
		withTenants(c, url)
		c.Tenants[1].Retention = tenant.RetentionNone
		c.API.ResponseCache.Bytes = 1 << 20
	})
	chat := `{"messages":[{"role":"user","content":"` + canary + `"}],"max_tokens":4,"temperature":0}`
	for _, stream := range []string{"", `"stream":true,`} {
		body := strings.Replace(chat, `{"mess`, `{`+stream+`"mess`, 1)
		if answer := s.keyed(key, "k"+stream[:min(len(stream), 1)], body); !strings.Contains(answer, "choices") {
			t.Errorf("%.300s", answer)
		}
		if again := s.keyed(key, "k"+stream[:min(len(stream), 1)], body); !strings.Contains(again, `"code":"idempotency_answer_not_kept"`) {
			t.Errorf("a repetition: %.300s", again)
		}
	}
	for range 2 {
		if _, h, answer := s.as(key, http.MethodPost, s.api+"/v1/chat/completions", chat); h.Get("X-Weir-Cache") != "" {
			t.Errorf("the answer is cached: %s %s", h.Get("X-Weir-Cache"), answer)
		}
	}
	responses := s.api + "/v1/responses"
	status, h, answer := s.as(key, http.MethodPost, responses, `{"input":"`+canary+`","max_output_tokens":4,"store":true}`)
	if status != 200 || !strings.Contains(answer, `"store":false`) || !strings.Contains(h.Get("X-Weir-Warnings"), "store") {
		t.Errorf("%d %v %s", status, h, answer)
	}
	for _, refused := range []string{`"background":true`, `"previous_response_id":"resp_1"`} {
		if status, _, answer := s.as(key, http.MethodPost, responses, `{"input":"x",`+refused+`}`); status != 400 {
			t.Errorf("%s: %d %s", refused, status, answer)
		}
	}
	if status, answer := s.upload(key, chatLines(1, 4), "purpose", "batch"); status != 400 || !strings.Contains(fmt.Sprint(answer), "retention_none") {
		t.Errorf("a file: %d %v", status, answer)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if found := foundIn(t, folder, canary); found != nil {
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
