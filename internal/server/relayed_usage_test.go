package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// counted are tokens, as a client, a server or the ledger counts them.
type counted struct{ requests, input, output int64 }

// tokenServer is a server of streams with one token in each event, which knows how many tokens it has sent.
type tokenServer struct {
	*httptest.Server
	prompt int      // tokens of each prompt
	pieces []string // of an answer
	silent bool     // it tells no usage
	colon  string
	tools  bool
	n      int
}

// cutAfter is how many tokens of a stream come that is cut: its prompt says so.
const cutAfter = 5

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush //nolint:forcetypeassert // it always is one
	for i, p := range s.pieces {
		if i == cutAfter && strings.Contains(string(body), "hang up") {
			<-r.Context().Done()
			return
		}
		if i == cutAfter && strings.Contains(string(body), "die") {
			panic(http.ErrAbortHandler)
		}
		say := fmt.Sprintf(`"content"%s%q`, s.colon, p)
		if s.tools {
			say = fmt.Sprintf(`"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":%q}}]`, p)
			if i > 0 {
				say = fmt.Sprintf(`"tool_calls":[{"index":0,"function":{"arguments":%q}}]`, p)
			}
		}
		fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":%d,"delta":{%s},"finish_reason":null}]}`+"\n\n", i%s.n, say)
		flush()
	}
	for i := range s.n {
		fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":%d,"delta":{},"finish_reason"%s"stop"}]}`+"\n\n", i, s.colon)
	}
	if !s.silent && strings.Contains(string(body), `"include_usage":true`) {
		fmt.Fprintf(w, `data: {"id":"c","choices":[],"usage"%s{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\n", s.colon, s.prompt, len(s.pieces))
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// streamKind is a kind of streams that a client counts itself.
type streamKind struct {
	model, path, fields string
	delta               string // what an event with a token holds
	cuts                bool   // some of its streams are cut
}

// take asks for a stream and counts events with text. It hangs up after cutAfter of them where the prompt says so.
func (k *streamKind) take(ctx context.Context, api, key, prompt string) (events int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":true,%s}`, k.model, strings.ReplaceAll(k.fields, "PROMPT", prompt))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api+k.path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json", "Anthropic-Version": "2023-06-01"} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return 0, fmt.Errorf("%s: %d %s", k.model, res.StatusCode, text)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "data:") {
			events += int64(strings.Count(line, k.delta))
		}
		if events == cutAfter && strings.Contains(prompt, "hang up") {
			return events, nil
		}
	}
	return events, nil
}

// TestTheLedgerAgreesWithClients: 1000 streams of ten kinds, a fifth of which are cut, by their clients or by their servers:
// what the ledger of a router has is what the clients have counted, to the token where servers tell usage.
func TestTheLedgerAgreesWithClients(t *testing.T) {
	reference.Slow(t)
	each := 100
	if testing.Short() {
		each = 10
	}
	t.Setenv("WEIR_KEY_PEPPER", strings.Repeat("pepper of a test", 3))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "acme"})
	weir := servertest.StartProcess(t, 1024)

	var said struct {
		Count     int
		TokenStrs []string `json:"token_strs"`
	}
	tokenize := func(body string) {
		t.Helper()
		if text := servertest.Body(t, weir.Post("/tokenize", body)); json.Unmarshal([]byte(text), &said) != nil || said.Count == 0 {
			t.Fatal(text)
		}
	}
	const chat = `"messages":[{"role":"user","content":"PROMPT"}]`
	tokens := func(prompt string) int64 {
		tokenize("{" + strings.ReplaceAll(chat, "PROMPT", prompt) + "}")
		return int64(said.Count)
	}
	prompts := map[string]int64{}
	for _, p := range []string{"tell me", "hang up", "die now"} {
		prompts[p] = tokens(p)
	}
	tokenize(`{"prompt":"weir is a serving engine that streams tokens to many clients at once","add_special_tokens":false,"return_token_strs":true}`)
	pieces := said.TokenStrs
	for i, p := range pieces {
		pieces[i] = strings.ReplaceAll(p, "Ġ", " ")
	}

	servers := map[string]*tokenServer{"plain": {}, "spaced": {colon: " : "}, "tools": {tools: true}, "two": {n: 2}, "responses": {}, "messages": {}, "silent": {silent: true}, "unknown": {silent: true}}
	config := "store: {url: " + url + "}\nmodels:\n"
	add := func(name, base, kind, model string) {
		config += fmt.Sprintf("  - name: %s\n    replicas: [{url: %q, kind: %s, model: %s}]\n", name, base, kind, model)
		if name != "unknown" {
			config += "    tokenizer: builtin\n"
		}
	}
	for name, s := range servers {
		if s.prompt, s.pieces, s.n = int(prompts["tell me"]), pieces, max(s.n, 1); s.colon == "" {
			s.colon = ":"
		}
		s.Server = httptest.NewServer(s)
		defer s.Close()
		add(name, s.URL+"/v1", "openai", name)
	}
	for _, name := range []string{"weir-chat", "weir-two"} {
		add(name, weir.API+"/v1", "weir", "weir-default")
	}
	file := filepath.Join(t.TempDir(), "router.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	router := servertest.StartProcess(t, 4096, "--config", file)

	content, tool := `"delta":{"content"`, `"arguments"`
	kinds := []streamKind{
		{"plain", servertest.ChatPath, chat, content, true}, {"spaced", servertest.ChatPath, chat, content, true}, {"tools", servertest.ChatPath, chat, tool, true},
		{"two", servertest.ChatPath, chat + `,"n":2`, content, true}, {"silent", servertest.ChatPath, chat, content, true}, {"unknown", servertest.ChatPath, chat, content, true},
		{"responses", "/v1/responses", `"store":false,"input":"PROMPT"`, `"response.output_text.delta"`, true},
		{"messages", "/v1/messages", `"max_tokens":100,` + chat, `"text_delta"`, true},
		{"weir-chat", servertest.ChatPath, chat + `,"max_tokens":12,"ignore_eos":true,"logprobs":true`, `"token":`, false},
		{"weir-two", servertest.ChatPath, chat + `,"max_tokens":6,"n":2,"ignore_eos":true,"logprobs":true`, `"token":`, false},
	}
	want := map[string]counted{}
	var mu sync.Mutex
	var all sync.WaitGroup
	turn := make(chan bool, 8)
	for i := range kinds {
		k := &kinds[i]
		if _, err := k.take(t.Context(), router.API, key, "tell me"); err != nil { // one alone, so that a router has seen whole answers
			t.Fatal(err)
		}
		mu.Lock() // the kinds before are still asked
		want[k.model] = counted{1, prompts["tell me"], 0}
		mu.Unlock()
		for n := range each - 1 {
			all.Go(func() {
				turn <- true
				defer func() { <-turn }()
				prompt := "tell me"
				if k.cuts && n%4 == 0 {
					prompt = []string{"hang up", "die now"}[n/4%2]
				}
				events, err := k.take(t.Context(), router.API, key, prompt)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				c := want[k.model]
				want[k.model] = counted{c.requests + 1, c.input + prompts[prompt], c.output + events}
			})
		}
	}
	all.Wait()
	for i := range kinds { // that of the first ones
		c := want[kinds[i].model]
		c.output += map[bool]int64{true: int64(len(pieces)), false: 12}[kinds[i].cuts]
		want[kinds[i].model] = c
	}

	got := ledgerOf(t, router, key, int64(each*len(kinds)))
	for i := range kinds {
		name := kinds[i].model
		g, w := got[name], want[name]
		t.Logf("%-10s client %4d streams, %6d and %6d tokens; ledger %4d, %6d and %6d", name, w.requests, w.input, w.output, g.requests, g.input, g.output)
		if name == "unknown" { // the prompt's tokens are not known
			g.input, w.input = 0, 0
		}
		if g != w {
			t.Errorf("%s: the ledger has %+v, its clients %+v", name, g, w)
		}
	}
}

// ledgerOf waits until the ledger has so many requests, and gives its sums by model.
func ledgerOf(t *testing.T, p *servertest.Process, key string, requests int64) map[string]counted {
	t.Helper()
	for {
		var u struct {
			Rows []struct {
				Model    string
				Requests int64
				Input    int64 `json:"input_tokens"`
				Output   int64 `json:"output_tokens"`
			}
		}
		if _, _, text := p.As(key, "GET", p.API+"/v1/usage", ""); json.Unmarshal([]byte(text), &u) != nil {
			t.Fatal(text)
		}
		sums, all := map[string]counted{}, int64(0)
		for _, r := range u.Rows {
			c := sums[r.Model]
			sums[r.Model] = counted{c.requests + r.Requests, c.input + r.Input, c.output + r.Output}
			all += r.Requests
		}
		if all >= requests {
			return sums
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%d of %d requests: %+v", all, requests, sums)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
