package server_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// batchLines is how many lines the batch of a process that is killed has: go test ./internal/server -run KilledAmidABatch -batch-lines 500
var batchLines = stdflag.Int("batch-lines", 60, "lines of the batch whose process is killed")

func chatLines(n, maxTokens int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"line-%d","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Number %d"}],"temperature":0,"ignore_eos":true,"max_tokens":%d}}`+"\n",
			i, i, maxTokens)
	}
	return b.String()
}

func completed(b map[string]any) bool { return b["status"] == "completed" }

func lineCount(b map[string]any, which string) int {
	n, _ := b["request_counts"].(map[string]any)[which].(float64)
	return int(n)
}

func TestBatchesOfTenants(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, other, operator := servertest.NewKey(t, url, keychain.Request{Tenant: "open"}), servertest.NewKey(t, url, keychain.Request{Tenant: "shut"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) {
		servertest.TwoTenants(c, url)
		c.HTTP.MaxRequestBytes, c.HTTP.BodyMemoryBytes = 64<<10, 256<<10
	})
	lines := chatLines(6, 4) + `{"custom_id":"wrong","method":"POST","url":"/v1/chat/completions","body":{"messages":"none"}}` + "\n"
	lines += strings.Repeat("\n", 100<<10) // above the limit of other bodies
	id := s.Batch(key, lines)
	b := s.AwaitBatch(key, id, completed)
	if lineCount(b, "completed") != 6 || lineCount(b, "failed") != 1 || lineCount(b, "total") != 7 {
		t.Errorf("%v", b)
	}
	output := s.BatchOutput(key, b["output_file_id"])
	var direct struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if s.PostInto("/v1/chat/completions", `{}`, &direct); len(direct.Choices) != 0 {
		t.Error("the server asks for no key")
	}
	_, answer := s.CallJSON(http.MethodPost, "/v1/chat/completions", key, "application/json", strings.NewReader(
		`{"messages":[{"role":"user","content":"Number 3"}],"temperature":0,"ignore_eos":true,"max_tokens":4}`))
	want := fmt.Sprint(answer["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"])
	if len(output) != 6 || output["line-3"] != want {
		t.Errorf("%q, want %q", output, want)
	}
	for _, path := range []string{"/v1/batches/" + id, "/v1/batches/" + id + "/cancel", "/v1/files/" + b["output_file_id"].(string), "/v1/files/" + b["input_file_id"].(string) + "/content"} {
		method := http.MethodGet
		if strings.HasSuffix(path, "/cancel") {
			method = http.MethodPost
		}
		if status, answer := s.CallJSON(method, path, other, "application/json", http.NoBody); status != 404 {
			t.Errorf("another tenant's %s: %d %v", path, status, answer)
		}
		if status, _ := s.CallJSON(method, path, "weir_unknown", "application/json", http.NoBody); status != 401 {
			t.Errorf("without a key %s: %d", path, status)
		}
	}
	if status, answer := s.CallJSON(http.MethodGet, "/v1/files?limit=2", key, "", http.NoBody); status != 200 || answer["has_more"] != true || len(answer["data"].([]any)) != 2 {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := s.CallJSON(http.MethodDelete, "/v1/files/"+b["error_file_id"].(string), key, "", http.NoBody); status != 200 || answer["deleted"] != true {
		t.Errorf("%d %v", status, answer)
	}
	if status := s.AdminStatus(http.MethodPost, "/admin/tenants/open/forget", operator); status != 200 {
		t.Errorf("forget: %d", status)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "weir.db.files", "files")); err != nil || len(left) != 0 {
		t.Errorf("a forgotten tenant's files are left: %v, %v", left, err)
	}
}

// Lines of predictions are computed as direct calls are: same answers, rows in the tenant's usage and budget, a wrong line alone.
func TestBatchOfPredictions(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "open"})
	s := servertest.Start(t, func(c *configs.Config) {
		servertest.TwoTenants(c, url)
	})
	const path = "/v1/models/weir-iris:predict"
	bodies := []string{`{"instances":[[5.1,3.5,1.4,0.2]]}`, `{"instances":[[6.7,3.0,5.2,2.3],[5.9,3.0,4.2,1.5]]}`, `{"instances":[[1,2]]}`}
	var lines strings.Builder
	for i, body := range bodies {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":%q,"body":%s}`+"\n", i, path, body)
	}
	status, file := s.Upload(key, lines.String(), "purpose", "batch")
	if status != 200 {
		t.Fatalf("upload: %d %v", status, file)
	}
	status, made := s.CallJSON(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file["id"], path)))
	if status != 200 {
		t.Fatalf("create: %d %v", status, made)
	}
	b := s.AwaitBatch(key, made["id"].(string), completed)
	if lineCount(b, "completed") != 2 || lineCount(b, "failed") != 1 || b["model"] != "weir-iris" || b["usage"].(map[string]any)["input_tokens"] != 3.0 {
		t.Errorf("%v", b)
	}
	_, answer := s.CallJSON(http.MethodGet, fmt.Sprintf("/v1/files/%v/content", b["output_file_id"]), key, "", http.NoBody)
	for line := range strings.Lines(answer["text"].(string)) {
		var got struct {
			ID       string `json:"custom_id"`
			Response struct{ Body map[string]any }
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		i, _ := strconv.Atoi(got.ID)
		if _, want := s.CallJSON(http.MethodPost, path, key, "application/json", strings.NewReader(bodies[i])); !reflect.DeepEqual(want, got.Response.Body) {
			t.Errorf("line %d: %v, directly %v", i, got.Response.Body, want)
		}
	}
	if status, usage := s.CallJSON(http.MethodGet, "/v1/usage", key, "", http.NoBody); status != 200 || !strings.Contains(fmt.Sprint(usage), "weir-iris") {
		t.Errorf("%d %v", status, usage)
	}
	if status, refused := s.CallJSON(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/models/weir-iris:explain","completion_window":"24h"}`, file["id"]))); status != 400 ||
		!strings.Contains(fmt.Sprint(refused), "/v2/models/{model}/infer") {
		t.Errorf("%d %v", status, refused)
	}
}

func TestWithoutAStoreThereAreNoFiles(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := servertest.Start(t, nil)
	for _, path := range []string{"/v1/files", "/v1/batches/batch_1"} {
		status, answer := s.CallJSON(http.MethodGet, path, "", "", http.NoBody)
		if status != http.StatusNotImplemented || !strings.Contains(fmt.Sprint(answer), "--store sqlite:PATH") {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

// A process that is killed amid a batch, and its successor: each line is done, and stands in the output once. What the
// first one has recorded is not run again.
// journalRecords counts the whole records of a journal: each is behind its length and a checksum, of 4 bytes each.
func journalRecords(journal []byte) (count int) {
	for len(journal) >= 8 {
		length := 8 + int(binary.LittleEndian.Uint32(journal))
		if length > len(journal) {
			break
		}
		journal = journal[length:]
		count++
	}
	return count
}

func TestKilledAmidABatch(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lease of a killed process")
	}
	t.Parallel()
	folder := t.TempDir()
	store, slow := filepath.Join(folder, "weir.db"), filepath.Join(folder, "slow.yml")
	flags := []string{"--store", "sqlite:" + store}
	// The first process may run half of the lines at once, and the rest within a minute: it is killed before it is done.
	if err := os.WriteFile(slow, fmt.Appendf(nil, "tenants:\n  - name: \"*\"\n    limits: {requests_per_minute: %d}\n", *batchLines/2), 0o600); err != nil {
		t.Fatal(err)
	}
	first := servertest.StartProcessWith(t, servertest.BriefLease, 512, append(flags, "--config", slow)...)
	id := first.Batch("", chatLines(*batchLines, 24))
	before := first.AwaitBatch("", id, func(b map[string]any) bool { return lineCount(b, "completed") >= *batchLines/3 })
	first.Kill()
	journal, err := os.ReadFile(filepath.Join(store+".files", "batches", id))
	recorded := journalRecords(journal)
	if bytes.Contains(journal, []byte("custom_id")) {
		t.Error("the journal has answers in clear")
	}
	if err != nil || recorded < lineCount(before, "completed") || recorded >= *batchLines {
		t.Fatalf("%d lines are recorded after %v, %v", recorded, before, err)
	}

	second := servertest.StartProcess(t, 512, flags...)
	b := second.AwaitBatch("", id, completed)
	if lineCount(b, "completed") != *batchLines || lineCount(b, "failed") != 0 || b["error_file_id"] != nil {
		t.Errorf("%v", b)
	}
	if output := second.BatchOutput("", b["output_file_id"]); len(output) != *batchLines {
		t.Errorf("%d of %d lines are in the output", len(output), *batchLines)
	}
	rest := *batchLines - recorded // one more, where the kill tore the last record
	if ran := counter(second, `weir_batch_lines_total{outcome="completed"}`); ran != rest && ran != rest+1 {
		t.Errorf("%d lines were recorded, and %d run after the kill, of %d", recorded, ran, *batchLines)
	}
	t.Logf("%d lines were recorded before the kill", recorded)
	if err := second.End(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
