package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/server/servertest"
)

// batchLines is how many lines the batch of a process that is killed has: go test ./cmd/weir -run KilledAmidABatch -batch-lines 500
var batchLines = stdflag.Int("batch-lines", 60, "lines of the batch whose process is killed")

// apiCall sends a request to the API and reads its JSON; one that is no JSON is under "text".
func (s *started) apiCall(method, path, key, contentType string, body io.Reader) (status int, answer map[string]any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.api+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if json.Unmarshal(text, &answer) != nil {
		answer = map[string]any{"text": string(text)}
	}
	return res.StatusCode, answer
}

// upload sends a file with the fields of its form.
func (s *started) upload(key, text string, fields ...string) (status int, answer map[string]any) {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			s.t.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", "in.jsonl")
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.WriteString(part, text) // into memory
	if err := form.Close(); err != nil {
		s.t.Fatal(err)
	}
	return s.apiCall(http.MethodPost, "/v1/files", key, form.FormDataContentType(), &body)
}

func chatLines(n, maxTokens int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"line-%d","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Number %d"}],"temperature":0,"ignore_eos":true,"max_tokens":%d}}`+"\n",
			i, i, maxTokens)
	}
	return b.String()
}

// batchOf uploads lines and makes a batch of them.
func (s *started) batchOf(key, lines string) (id string) {
	s.t.Helper()
	status, file := s.upload(key, lines, "purpose", "batch")
	if status != 200 {
		s.t.Fatalf("upload: %d %v", status, file)
	}
	status, b := s.apiCall(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`, file["id"])))
	if status != 200 || b["status"] != "validating" {
		s.t.Fatalf("create: %d %v", status, b)
	}
	return b["id"].(string)
}

// untilBatch waits for a batch that is as asked for.
func (s *started) untilBatch(key, id string, ok func(b map[string]any) bool) map[string]any {
	s.t.Helper()
	for end := time.Now().Add(4 * servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		status, b := s.apiCall(http.MethodGet, "/v1/batches/"+id, key, "application/json", http.NoBody)
		if status == 200 && ok(b) {
			return b
		}
		if status != 200 || time.Now().After(end) {
			s.t.Fatalf("%d %v", status, b)
		}
	}
}

func completed(b map[string]any) bool { return b["status"] == "completed" }

func lineCount(b map[string]any, which string) int {
	n, _ := b["request_counts"].(map[string]any)[which].(float64)
	return int(n)
}

// outputOf reads a file's lines by their custom_id.
func (s *started) outputOf(key string, file any) map[string]string {
	s.t.Helper()
	status, answer := s.apiCall(http.MethodGet, fmt.Sprintf("/v1/files/%v/content", file), key, "application/json", http.NoBody)
	text, _ := answer["text"].(string)
	if status != 200 || text == "" {
		s.t.Fatalf("content of %v: %d %v", file, status, answer)
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		var l struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
				Body   struct {
					Choices []struct{ Message struct{ Content string } }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Response.Status != 200 || len(l.Response.Body.Choices) != 1 {
			s.t.Fatalf("%v in %s", err, line)
		}
		if _, twice := found[l.CustomID]; twice {
			s.t.Errorf("%s is done twice", l.CustomID)
		}
		found[l.CustomID] = l.Response.Body.Choices[0].Message.Content
	}
	return found
}

func TestBatchesOfTenants(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key, other, operator := makeKey(t, url, "open"), makeKey(t, url, "shut"), makeKey(t, url, "ops", "--scope", "admin")
	s := start(t, func(c *configs.Config) {
		withTenants(c, url)
		c.HTTP.MaxRequestBytes, c.HTTP.BodyMemoryBytes = 64<<10, 256<<10
	})
	lines := chatLines(6, 4) + `{"custom_id":"wrong","method":"POST","url":"/v1/chat/completions","body":{"messages":"none"}}` + "\n"
	lines += strings.Repeat("\n", 100<<10) // above the limit of other bodies
	id := s.batchOf(key, lines)
	b := s.untilBatch(key, id, completed)
	if lineCount(b, "completed") != 6 || lineCount(b, "failed") != 1 || lineCount(b, "total") != 7 {
		t.Errorf("%v", b)
	}
	output := s.outputOf(key, b["output_file_id"])
	var direct struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if s.answer("/v1/chat/completions", `{}`, &direct); len(direct.Choices) != 0 {
		t.Error("the server asks for no key")
	}
	_, answer := s.apiCall(http.MethodPost, "/v1/chat/completions", key, "application/json", strings.NewReader(
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
		if status, answer := s.apiCall(method, path, other, "application/json", http.NoBody); status != 404 {
			t.Errorf("another tenant's %s: %d %v", path, status, answer)
		}
		if status, _ := s.apiCall(method, path, "weir_nobody", "application/json", http.NoBody); status != 401 {
			t.Errorf("without a key %s: %d", path, status)
		}
	}
	if status, answer := s.apiCall(http.MethodGet, "/v1/files?limit=2", key, "", http.NoBody); status != 200 || answer["has_more"] != true || len(answer["data"].([]any)) != 2 {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := s.apiCall(http.MethodDelete, "/v1/files/"+b["error_file_id"].(string), key, "", http.NoBody); status != 200 || answer["deleted"] != true {
		t.Errorf("%d %v", status, answer)
	}
	if status := s.do(http.MethodPost, "/admin/tenants/open/forget", operator); status != 200 {
		t.Errorf("forget: %d", status)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "weir.db.files", "files")); err != nil || len(left) != 0 {
		t.Errorf("a forgotten tenant's files are left: %v, %v", left, err)
	}
}

// Lines of predictions are computed as direct calls are: same answers, rows in the tenant's usage and budget, a wrong line alone.
func TestBatchOfPredictions(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	key := makeKey(t, url, "open")
	s := start(t, func(c *configs.Config) {
		withTenants(c, url)
	})
	const path = "/v1/models/weir-iris:predict"
	bodies := []string{`{"instances":[[5.1,3.5,1.4,0.2]]}`, `{"instances":[[6.7,3.0,5.2,2.3],[5.9,3.0,4.2,1.5]]}`, `{"instances":[[1,2]]}`}
	var lines strings.Builder
	for i, body := range bodies {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":%q,"body":%s}`+"\n", i, path, body)
	}
	status, file := s.upload(key, lines.String(), "purpose", "batch")
	if status != 200 {
		t.Fatalf("upload: %d %v", status, file)
	}
	status, made := s.apiCall(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file["id"], path)))
	if status != 200 {
		t.Fatalf("create: %d %v", status, made)
	}
	b := s.untilBatch(key, made["id"].(string), completed)
	if lineCount(b, "completed") != 2 || lineCount(b, "failed") != 1 || b["model"] != "weir-iris" || b["usage"].(map[string]any)["input_tokens"] != 3.0 {
		t.Errorf("%v", b)
	}
	_, answer := s.apiCall(http.MethodGet, fmt.Sprintf("/v1/files/%v/content", b["output_file_id"]), key, "", http.NoBody)
	for line := range strings.Lines(answer["text"].(string)) {
		var got struct {
			ID       string `json:"custom_id"`
			Response struct{ Body map[string]any }
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		i, _ := strconv.Atoi(got.ID)
		if _, want := s.apiCall(http.MethodPost, path, key, "application/json", strings.NewReader(bodies[i])); !reflect.DeepEqual(want, got.Response.Body) {
			t.Errorf("line %d: %v, directly %v", i, got.Response.Body, want)
		}
	}
	if status, usage := s.apiCall(http.MethodGet, "/v1/usage", key, "", http.NoBody); status != 200 || !strings.Contains(fmt.Sprint(usage), "weir-iris") {
		t.Errorf("%d %v", status, usage)
	}
	if status, refused := s.apiCall(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/models/weir-iris:explain","completion_window":"24h"}`, file["id"]))); status != 400 ||
		!strings.Contains(fmt.Sprint(refused), "/v2/models/{model}/infer") {
		t.Errorf("%d %v", status, refused)
	}
}

func TestWithoutAStoreThereAreNoFiles(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := start(t, nil)
	for _, path := range []string{"/v1/files", "/v1/batches/batch_1"} {
		status, answer := s.apiCall(http.MethodGet, path, "", "", http.NoBody)
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
	first := startProcessWith(t, briefLease, 512, append(flags, "--config", slow)...)
	id := first.batchOf("", chatLines(*batchLines, 24))
	before := first.untilBatch("", id, func(b map[string]any) bool { return lineCount(b, "completed") >= *batchLines/3 })
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	close(first.done) // end finds it ended
	journal, err := os.ReadFile(filepath.Join(store+".files", "batches", id))
	recorded := journalRecords(journal)
	if bytes.Contains(journal, []byte("custom_id")) {
		t.Error("the journal has answers in clear")
	}
	if err != nil || recorded < lineCount(before, "completed") || recorded >= *batchLines {
		t.Fatalf("%d lines are recorded after %v, %v", recorded, before, err)
	}

	second := startProcess(t, 512, flags...)
	b := second.untilBatch("", id, completed)
	if lineCount(b, "completed") != *batchLines || lineCount(b, "failed") != 0 || b["error_file_id"] != nil {
		t.Errorf("%v", b)
	}
	if output := second.outputOf("", b["output_file_id"]); len(output) != *batchLines {
		t.Errorf("%d of %d lines are in the output", len(output), *batchLines)
	}
	rest := *batchLines - recorded // one more, where the kill tore the last record
	if ran := second.counter(`weir_batch_lines_total{outcome="completed"}`); ran != rest && ran != rest+1 {
		t.Errorf("%d lines were recorded, and %d run after the kill, of %d", recorded, ran, *batchLines)
	}
	t.Logf("%d lines were recorded before the kill", recorded)
	if err := second.end(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
