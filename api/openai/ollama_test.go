package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api/openai/answer"
	"weir/api/openai/ollama"
	"weir/api/tenant"
	"weir/internal/inference"
)

var varying = regexp.MustCompile(`"created_at":"[^"]+"|_duration":\d+`)

// steady is an answer without what is another one each time.
func steady(text string) string {
	return varying.ReplaceAllStringFunc(text, func(s string) string { return s[:strings.IndexByte(s[1:], '"')+2] + ":0" })
}

func TestOllamaLines(t *testing.T) {
	e := encoderOf(t, &ollamaChatEndpoint, `{"model":"test-model","messages":[{"role":"user","content":"hi"}]}`)
	golden(t, "ollama_lines.txt", steady(streamed(e, thoughtsAndCalls)))
	e = encoderOf(t, &ollamaChatEndpoint, `{"model":"test-model","messages":[{"role":"user","content":"hi"}]}`)
	d := whole(thoughtsAndCalls)
	d.Calls = append(d.Calls, answer.CallPart{Index: 2, ID: "call_3", Name: "broken", Arguments: []byte(`{"a":`)})
	text := string(e.AppendWhole(nil, []answer.Delta{d}, answer.Usage{Prompt: 9, Output: 12}))
	golden(t, "ollama.txt", steady(text)+"\n")
	if !json.Valid([]byte(text)) {
		t.Errorf("no JSON: %s", text)
	}
	e = encoderOf(t, &ollamaGenerateEndpoint, `{"model":"test-model:latest","prompt":"hi"}`)
	generated := steady(streamed(e, []answer.Delta{{First: true, Content: []byte("A"), IDs: []inference.TokenID{7}}, {Finish: inference.FinishLength}}))
	if !strings.HasPrefix(generated, `{"model":"test-model:latest","created_at":0,"response":"A","done":false}`+"\n") || !strings.Contains(generated, `"done_reason":"length"`) ||
		!strings.Contains(generated, `,7],"total_duration":`) {
		t.Errorf("generate gave %s", generated)
	}
}

// ollamaAnswer is what clients read.
type ollamaAnswer struct {
	Model    string
	Message  struct{ Role, Content string }
	Response string
	Done     bool
	Reason   string `json:"done_reason"`
	Context  []int
	Total    int64 `json:"total_duration"`
	Eval     int   `json:"eval_count"`
	Error    string
}

func TestOllamaOverHTTP(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	// No content type, as in Ollama's own examples.
	res, text := r.do("POST", routeOllamaChat, "Content-Type: application/x-www-form-urlencoded\r\n",
		`{"model":"test-model:latest","messages":[{"role":"System","content":"Be kind."},{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"},{"role":"user","content":"go on"}],
		"options":{"seed":3,"num_gpu":1,"foo":2,"num_ctx":100000},"keep_alive":"5m"}`)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != linesType {
		t.Errorf("%d %s", res.StatusCode, kind)
	}
	var said string
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		var a ollamaAnswer
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Model != "test-model:latest" || a.Message.Role != "assistant" || a.Done != (i == len(lines)-1) {
			t.Errorf("line %s: %v", line, err)
		}
		if said += a.Message.Content; a.Done && (a.Reason != "stop" || a.Total <= 0 || a.Eval != 3) {
			t.Errorf("the stream ends with %s", line)
		}
	}
	if said != "Hello world" {
		t.Errorf("the stream says %q", said)
	}
	for _, part := range []string{"options.num_gpu", "options.foo", "options.num_ctx 100000 cut to 256"} {
		if warnings := res.Header.Get("X-Weir-Warnings"); !strings.Contains(warnings, part) {
			t.Errorf("warnings %q lack %s", warnings, part)
		}
	}
	ran := r.backend.run(t, 0).req
	if want := "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes?<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"; r.backend.tok.Decode(ran.Prompt, true) != want {
		t.Errorf("the prompt is %q", r.backend.tok.Decode(ran.Prompt, true))
	}
	if s := ran.Sampling; s.Temperature != 0.8 || s.TopK != 40 || s.TopP != 0.9 || s.Seed != 3 {
		t.Errorf("sampling %+v", s)
	}
	var first, second ollamaAnswer
	_, text = r.post(routeOllamaGenerate, `{"model":"test-model","prompt":"hi","system":"Be kind.","stream":false}`)
	if err := json.Unmarshal([]byte(text), &first); err != nil || first.Response != "Hello world" || !first.Done || len(first.Context) != len(r.backend.run(t, 1).req.Prompt)+3 {
		t.Errorf("%s: %v", text, err)
	}
	context, _ := json.Marshal(first.Context)
	_, text = r.post(routeOllamaGenerate, `{"model":"test-model","prompt":"again","stream":false,"context":`+string(context)+`}`)
	prompt := r.backend.run(t, 2).req.Prompt
	if err := json.Unmarshal([]byte(text), &second); err != nil || len(second.Context) <= len(first.Context) || len(prompt) < len(first.Context) || int(prompt[len(first.Context)-1]) != first.Context[len(first.Context)-1] {
		t.Errorf("a second prompt of %d tokens behind %d, and %s: %v", len(prompt), len(first.Context), text, err)
	}
}

// Prompts that are texts of their own.
func TestOllamaPrompts(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for i, tc := range []struct{ fields, want string }{
		{`"prompt":"ping <|im_end|>","raw":true`, "ping <|im_end|>"},
		{`"prompt":"ping","system":"stop","template":"{{ if .System }}{{ .System }}: {{ end }}{{ .Prompt }}"`, "stop: ping"},
		{`"prompt":"ping","system":"stop","template":"{{ range $i, $m := .Messages }}<|im_start|>{{ $m.Role }} {{ .Content }}{{ end }}"`, "<|im_start|>system stop<|im_start|>user ping"},
	} {
		if status, text := r.post(routeOllamaGenerate, `{"model":"test-model",`+tc.fields+`,"stream":false}`); status != 200 || strings.Contains(text, "context") == strings.Contains(tc.fields, "raw") {
			t.Fatalf("%s: %d %s", tc.fields, status, text)
		}
		if got := r.backend.tok.Decode(r.backend.run(t, i).req.Prompt, true); got != tc.want {
			t.Errorf("%s: the prompt is %q", tc.fields, got)
		}
	}
}

func TestOllamaFaults(t *testing.T) {
	c := DefaultConfig()
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for _, tc := range []struct {
		path, body string
		status     int
		word       string
	}{
		{routeOllamaChat, `{"model":"other",` + hi + `}`, 404, "model 'other' not found"},
		{routeOllamaShow, `{"name":"other"}`, 404, "model 'other' not found"},
		{routeOllamaShow, `{}`, 400, "model"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"think":true}`, 400, `"test-model" does not support thinking`},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"think":"much"}`, 400, "think"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"format":"xml"}`, 400, "format"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"format":{"type":"nonsense"}}`, 400, "format"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"keep_alive":"soon"}`, 400, "keep_alive"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"options":{"temperature":"warm"}}`, 400, "options.temperature"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"options":{"num_predict":"many"}}`, 400, "options.num_predict"},
		{routeOllamaChat, `{"model":"test-model",` + hi + `,"top_logprobs":21}`, 400, "top_logprobs"},
		{routeOllamaChat, `{"model":"test-model","messages":[{"role":"user","content":"hi","images":["aGk="]}]}`, 400, "messages[0].images"},
		{routeOllamaChat, `{"model":"test-model","messages":[{"role":"tool","content":"hi"}]}`, 400, "messages[0]"},
		{routeOllamaChat, `{"model":"test-model","messages":[{"role":"control","content":"hi"}]}`, 400, "messages[0].role"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","raw":true,"system":"s"}`, 400, "raw mode"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","template":"{{ template \"x\" }}"}`, 400, "template"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","template":"{{ define \"x\" }}{{ end }}{{ .Prompt }}"}`, 400, "template"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","template":"{{ printf \"%1000000d\" 1 }}"}`, 400, "printf"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","template":"{{ range .Messages }}{{ range .Messages }}{{ end }}{{ end }}"}`, 400, "range"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"hi","context":[99999999]}`, 400, "context"},
		{routeOllamaGenerate, `{"model":"test-model","prompt":"` + strings.Repeat("hi ", 400) + `"}`, 400, "exceeds the context length"},
		{routeOllamaEmbed, `{"model":"test-model","input":"hi"}`, 400, "test-model"},
		{"/api/create", `{}`, 501, "weir models import"},
		{"/api/pull", `{"model":"other:1b"}`, 501, "weir models pull"},
		{"/api/pull", `{}`, 400, "model"},
		{"/api/nothing", `{}`, 404, "nothing is served"},
	} {
		res, body := r.do("POST", tc.path, "", tc.body)
		var e struct{ Error string }
		if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != tc.status || !strings.Contains(e.Error, tc.word) || res.Header.Get("X-Weir-Reason") == "" {
			t.Errorf("%s %s: %d %s, %v", tc.path, tc.body, res.StatusCode, body, err)
		}
	}
	// A page in a browser could send what is no JSON without asking.
	if res, _ := r.do("POST", routeOllamaChat, "Content-Type: text/plain\r\nSec-Fetch-Site: cross-site\r\n", `{"model":"test-model",`+hi+`}`); res.StatusCode != 415 {
		t.Errorf("a page got %d", res.StatusCode)
	}
}

// A stream has nothing but lines of JSON, also while nothing is said.
func TestOllamaStreamsHaveNoComments(t *testing.T) {
	c := DefaultConfig()
	c.HeartbeatEvery = 100 * time.Millisecond
	r := newRig(t, c, &fakeBackend{script: say("Hello world", 250*time.Millisecond)})
	defer r.close()
	_, text := r.do("POST", routeOllamaChat, "X-Weir-Progress: 1\r\n", `{"model":"test-model","messages":[{"role":"user","content":"hi"}]}`)
	pulses := 0
	for line := range strings.Lines(text) {
		var a ollamaAnswer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !a.Done && a.Message.Content == "" {
			pulses++
		}
	}
	if pulses == 0 {
		t.Errorf("no heartbeat in %s", text)
	}
}

// keptCatalog knows of one file and notes what Keep is told.
type keptCatalog struct {
	ollama.Catalog
	kept []time.Duration
}

func (c *keptCatalog) Details(string) (ollama.Details, bool) {
	return ollama.Details{Digest: "d", Bytes: 7, Architecture: "llama", Parameters: 494_032_768, Quantization: "Q8_0", Capabilities: []string{ollama.CanComplete}}, true
}

func (c *keptCatalog) File(string) (*ollama.File, error) {
	return &ollama.File{Template: "T", Metadata: map[string]any{"general.name": "n", "a.list": make([]string, 9), "a.count": 3}, Defaults: []ollama.Setting{{Name: "top_k", Value: "7"}}}, nil
}

func (c *keptCatalog) Running() []ollama.Running {
	return []ollama.Running{{Name: "test-model", Bytes: 9, Context: 256}}
}

func (c *keptCatalog) Pull(_ context.Context, name, by string, tell func(string, int64, int64)) error {
	if name == "broken" {
		return errors.New("no hub answers")
	}
	tell("pulling manifest", 0, 0)
	tell("pulling "+name, 5, 10)
	tell("pulling "+name, 10, 10)
	return nil
}

func (c *keptCatalog) Keep(_, _ string, idle time.Duration) error {
	c.kept = append(c.kept, idle)
	return nil
}

func TestOllamaModels(t *testing.T) {
	c, catalog := DefaultConfig(), &keptCatalog{}
	c.Ollama = catalog
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	for path, want := range map[string]string{
		routeOllamaTags:    `"name":"test-model:latest","model":"test-model:latest","modified_at":"2023-11-14T22:13:20Z","size":7,"digest":"d","details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"494M","quantization_level":"Q8_0"},"capabilities":["completion"]}`,
		routeOllamaRunning: `"size":9,"digest":"d"`,
		routeOllamaVersion: `"version":"` + ollama.Version,
	} {
		if _, text := r.do("GET", path, "", ""); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	_, text := r.post(routeOllamaShow, `{"model":"test-model"}`)
	for _, part := range []string{`"model_info":{"a.count":3,"a.list":[]}`, `"template":"T"`, `"parameters":"top_k                          7"`, `PARAMETER top_k 7`} {
		if !strings.Contains(text, part) {
			t.Errorf("show lacks %s: %s", part, text)
		}
	}
	if _, text := r.post("/api/pull", `{"model":"test-model:latest"}`); text != "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n" {
		t.Errorf("a pull of a model that is here: %s", text)
	}
	if _, text := r.post("/api/pull", `{"name":"test-model","stream":false}`); text != `{"status":"success"}` {
		t.Errorf("a pull of a model that is here: %s", text)
	}
	_, text = r.post(routeOllamaGenerate, `{"model":"test-model","prompt":"","keep_alive":0}`)
	_, loaded := r.post(routeOllamaChat, `{"model":"test-model","messages":[],"keep_alive":90}`)
	r.post(routeOllamaChat, `{"model":"test-model","messages":[{"role":"user","content":"hi"}],"keep_alive":-1}`)
	if !strings.Contains(text, `"done_reason":"unload"`) || !strings.Contains(loaded, `"done_reason":"load"`) || !slices.Equal(catalog.kept, []time.Duration{0, 90 * time.Second, -1}) {
		t.Errorf("%s, %s, kept %v", text, loaded, catalog.kept)
	}
}

// Others use a model, too: who may not administer the server does not decide how long it stays.
func TestOllamaKeepAliveIsTheOperators(t *testing.T) {
	c, catalog := DefaultConfig(), &keptCatalog{}
	c.Ollama, c.APIKeys = catalog, []string{"sk-0123456789"}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	res, _ := r.do("POST", routeOllamaChat, "Authorization: Bearer sk-0123456789\r\n", `{"model":"test-model","messages":[{"role":"user","content":"hi"}],"keep_alive":0,"stream":false}`)
	if res.StatusCode != 200 || len(catalog.kept) > 0 || !strings.Contains(res.Header.Get("X-Weir-Warnings"), "scope "+tenant.ScopeAdmin.String()) {
		t.Errorf("%d, kept %v, %s", res.StatusCode, catalog.kept, res.Header.Get("X-Weir-Warnings"))
	}
	if _, text := r.do("POST", routeOllamaGenerate, "Authorization: Bearer sk-0123456789\r\n", `{"model":"test-model","prompt":"","keep_alive":0}`); !strings.Contains(text, `"done_reason":"load"`) {
		t.Errorf("the answer says that the model was unloaded: %s", text)
	}
}

// The name of a model that is not here is told back as far as people read.
func TestOllamaNamesWithoutAnEnd(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	status, text := r.post(routeOllamaChat, `{"model":"`+strings.Repeat("é", 50_000)+`","messages":[{"role":"user","content":"hi"}]}`)
	if status != 404 || len(text) > 1000 || !strings.Contains(text, "éé…' not found") {
		t.Errorf("%d, %d bytes: %.300s", status, len(text), text)
	}
}

// A model that is not here is pulled where the operator allows it, for callers with the scope of operators.
func TestOllamaPulls(t *testing.T) {
	c := DefaultConfig()
	c.Ollama, c.Pulls = &keptCatalog{}, true
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	res, text := r.do("POST", routeOllamaPull, "", `{"model":"new:1b"}`)
	want := "{\"status\":\"pulling manifest\"}\n{\"status\":\"pulling new:1b\",\"total\":10,\"completed\":5}\n" +
		"{\"status\":\"pulling new:1b\",\"total\":10,\"completed\":10}\n{\"status\":\"success\"}\n"
	if text != want || res.Header.Get("Content-Type") != linesType {
		t.Errorf("%s %s", res.Header.Get("Content-Type"), text)
	}
	for body, want := range map[string]string{
		`{"model":"new:1b","stream":false}`: `200 {"status":"success"}`, `{"model":"broken","stream":false}`: `502 {"error":"no hub answers"}`,
		`{"model":"broken"}`: "200 {\"error\":\"no hub answers\"}\n",
	} {
		if status, text := r.post(routeOllamaPull, body); fmt.Sprint(status, " ", text) != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	c.APIKeys = []string{"sk-0123456789"}
	keyed := newRig(t, c, &fakeBackend{})
	defer keyed.close()
	if res, text := keyed.do("POST", routeOllamaPull, "Authorization: Bearer sk-0123456789\r\n", `{"model":"new:1b"}`); res.StatusCode != 403 || !strings.Contains(text, "admin") {
		t.Errorf("a caller without the scope: %d %s", res.StatusCode, text)
	}
}

func TestOllamaVectors(t *testing.T) {
	r, _, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	for _, tc := range []struct{ path, fields, want string }{
		{routeOllamaEmbed, `"input":"a"`, `{"model":"vectors:latest","embeddings":[[`},
		{routeOllamaEmbed, `"input":["a","b"],"dimensions":1`, `"embeddings":[[1],[1]],"total_duration":`},
		{routeOllamaEmbed, `"input":[]`, `"embeddings":[],`},
		{routeOllamaEmbed, `"input":""`, `"prompt_eval_count":0}`},
		{routeOllamaEmbed, `"input":"` + strings.Repeat("a ", 99) + `","keep_alive":"5m","options":{"num_ctx":7}`, `"prompt_eval_count":16}`},
		{routeOllamaVectors, `"prompt":"a"`, `{"embedding":[`},
		{routeOllamaVectors, `"prompt":""`, `{"embedding":[]}`},
	} {
		if status, text := r.post(tc.path, `{"model":"vectors:latest",`+tc.fields+`}`); status != 200 || !strings.Contains(text, tc.want) {
			t.Errorf("%s %s: %d %s", tc.path, tc.fields, status, text)
		}
	}
	for fields, word := range map[string]string{`"input":[1]`: "input[0]", `"input":7`: "input", `"input":"` + strings.Repeat("a ", 99) + `","truncate":false`: "exceeds the context length"} {
		if status, text := r.post(routeOllamaEmbed, `{"model":"vectors",`+fields+`}`); status != 400 || !strings.Contains(text, word) {
			t.Errorf("%s: %d %s", fields, status, text)
		}
	}
}
