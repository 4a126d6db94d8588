package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// TestMessageBatches takes a batch of Anthropic's API from its order to its deletion. Other tenants do not see it.
func TestMessageBatches(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	key, other := servertest.NewKey(t, url, keychain.Request{Tenant: "open"}), servertest.NewKey(t, url, keychain.Request{Tenant: "shut"})
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	ask := func(method, path, key, body string) (int, map[string]any) {
		t.Helper()
		return s.CallJSON(method, path, key, "application/json", strings.NewReader(body))
	}
	const params = `{"max_tokens":4,"temperature":0,"messages":[{"role":"user","content":"Number %d"}]}`
	order := fmt.Sprintf(`{"requests":[{"custom_id":"one","params":%s},{"custom_id":"two","params":%s},{"custom_id":"wrong","params":{"max_tokens":4}}]}`,
		fmt.Sprintf(params, 1), fmt.Sprintf(params, 2))
	status, b := ask(http.MethodPost, "/v1/messages/batches", key, order)
	id, _ := b["id"].(string)
	if status != 200 || !strings.HasPrefix(id, "msgbatch_") || b["processing_status"] != "in_progress" || lineCount(b, "processing") != 3 {
		t.Fatalf("%d %v", status, b)
	}
	path := "/v1/messages/batches/" + id
	s.AwaitBatch(key, id, completed)
	_, b = ask(http.MethodGet, path, key, "")
	if b["processing_status"] != "ended" || lineCount(b, "succeeded") != 2 || lineCount(b, "errored") != 1 || b["results_url"] != path+"/results" {
		t.Errorf("%v", b)
	}
	results := map[string]string{}
	_, text := s.Call(http.MethodGet, path+"/results", key, "")
	for line := range strings.Lines(text) {
		var r struct {
			ID     string `json:"custom_id"`
			Result struct {
				Type    string
				Message struct{ Role string }
				Error   struct{ Error struct{ Type string } }
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err, line)
		}
		results[r.ID] = r.Result.Type + " " + r.Result.Message.Role + r.Result.Error.Error.Type
	}
	if len(results) != 3 || results["one"] != "succeeded assistant" || results["wrong"] != "errored invalid_request_error" {
		t.Errorf("%v", results)
	}
	for _, name := range []string{"after_id", "before_id"} {
		if status, fault := ask(http.MethodGet, "/v1/messages/batches?"+name+"=msgbatch_none", key, ""); status != 400 || !strings.Contains(fmt.Sprint(fault["error"]), name+" is") {
			t.Errorf("%s of no batch: %d %v", name, status, fault)
		}
	}
	if _, list := ask(http.MethodGet, "/v1/messages/batches?limit=1", key, ""); list["first_id"] != id || list["has_more"] != false {
		t.Errorf("%v", list)
	}
	for _, p := range []string{path, path + "/results", path + "/cancel"} {
		method := http.MethodGet
		if strings.HasSuffix(p, "cancel") {
			method = http.MethodPost
		}
		if status, fault := ask(method, p, other, ""); status != 404 || fault["type"] != "error" {
			t.Errorf("another tenant's %s: %d %v", p, status, fault)
		}
	}
	if status, gone := ask(http.MethodDelete, path, key, ""); status != 200 || gone["type"] != "message_batch_deleted" {
		t.Errorf("%d %v", status, gone)
	}
	if status, _ := ask(http.MethodGet, path, key, ""); status != 404 {
		t.Errorf("a deleted batch: %d", status)
	}
}
