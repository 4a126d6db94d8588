package openai

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/openai/generation"
	"weir/internal/inference"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// transcripts are exchanges whose every byte is the contract. They run in
// virtual time, which begins on 2000-01-01.
var transcripts = []struct {
	name    string
	method  string // POST where empty
	path    string
	header  string
	body    string
	backend *fakeBackend
	change  func(*Config)
}{
	{name: "chat", path: routeChat, body: `{"model":"test-model","messages":[{"role":"user","content":"Hello"}],"seed":1}`},
	{name: "chat stream", path: routeChat, body: `{"model":"test-model","messages":[{"role":"user","content":"Hello"}],"stream":true}`},
	{name: "chat stream usage", path: routeChat,
		body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"include_usage":true}}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.stream.SetProgress(inference.Progress{PrefillTokens: 12, CachedTokens: 4})
			r.say("Hello world", 0)
		}}},
	{name: "chat empty answer", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		backend: &fakeBackend{script: say("", 0)}},
	{name: "chat n 2", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"n":2}`},
	{name: "chat n 2 stream", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"n":2,"stream":true}`},
	{name: "chat length", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"max_completion_tokens":1}`},
	{name: "chat logprobs", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"logprobs":true,"top_logprobs":2}`},
	{name: "chat logprobs stream", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"logprobs":true,"stream":true}`},
	{name: "chat token ids", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"return_token_ids":true}`},
	{name: "chat token ids stream", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"return_token_ids":true,"stream":true}`},
	{name: "chat stop held back", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stop":["END",". "],"stream":true}`,
		backend: &fakeBackend{script: say("An EN or ENE, then END and more", 0)}},
	{name: "chat stop included", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stop":"wor","include_stop_str_in_output":true}`},
	{name: "chat stop never comes", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stop":"worldwide","stream":true}`},
	{name: "chat stop cuts logprobs", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stop":"b","logprobs":true}`,
		backend: &fakeBackend{script: say("abc", 0)}},
	{name: "chat runes whole", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"logprobs":true}`,
		backend: &fakeBackend{script: say("é👋", 0)}},
	{name: "chat rune cut off", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"max_tokens":2}`,
		backend: &fakeBackend{script: say("👋", 0)}},
	{name: "chat error in stream", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.token(0, 'H'-'!'+33)
			r.finish(0, inference.FinishError)
			r.stream.Close(&inference.LimitError{Err: inference.ErrOutOfCache, What: "KV blocks", Need: 9, Limit: 8, Remedy: "lower max_tokens"})
		}}},
	{name: "chat broken backend", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"logprobs":true}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.stream.Push(inference.Event{Kind: inference.EventToken, Token: -5}) // a backend's bug
			r.token(0, 40)
			r.stream.Push(inference.Event{Kind: 99})
			r.stream.Close(errors.New("secret detail of a bug"))
		}}},
	{name: "chat heartbeat", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			time.Sleep(25 * time.Second)
			r.say("Hello world", 0)
		}}},
	{name: "chat heartbeat chunk", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"include_usage":true}}`,
		change: func(c *Config) { c.Heartbeat = generation.HeartbeatChunk },
		backend: &fakeBackend{script: func(r *fakeRun) {
			time.Sleep(15 * time.Second)
			r.say("Hello", 0)
		}}},
	{name: "chat heartbeat off", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		change: func(c *Config) { c.Heartbeat = generation.HeartbeatOff },
		backend: &fakeBackend{script: func(r *fakeRun) {
			time.Sleep(time.Hour)
			r.say("Hello", 0)
		}}},
	{name: "chat progress", path: routeChat, header: "X-Weir-Progress: 1\r\n", body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.stream.SetProgress(inference.Progress{Position: 3})
			time.Sleep(time.Second)
			r.stream.SetProgress(inference.Progress{Position: 1})
			time.Sleep(time.Second)
			r.stream.SetProgress(inference.Progress{PrefillTokens: 8, CachedTokens: 4})
			time.Sleep(12 * time.Second)
			r.say("Hello", time.Second)
		}}},
	{name: "chat parts and developer", path: "/apply-template",
		body: `{"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"<|im_end|>"}]},{"role":"user","content":"b","name":"x"}]}`},
	{name: "chat continue", path: "/apply-template",
		body: `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"continue_final_message":true}`},
	{name: "completion", path: routeCompletions, body: `{"model":"alias","prompt":"Hello"}`},
	{name: "completion stream", path: routeCompletions, body: `{"prompt":"Hello","stream":true,"stream_options":{"include_usage":true}}`},
	{name: "completion logprobs", path: routeCompletions, body: `{"prompt":"Hello","logprobs":2}`},
	{name: "completion echo", path: routeCompletions, body: `{"prompt":"Hello","echo":true,"logprobs":1}`},
	{name: "completion echo stream", path: routeCompletions, body: `{"prompt":"Hello the","echo":true,"logprobs":0,"stream":true}`},
	{name: "completion echo alone", path: routeCompletions, body: `{"prompt":"Hello the","echo":true,"max_tokens":0,"logprobs":0}`},
	{name: "completion echo no tokens", path: routeCompletions, body: `{"prompt":"Hello the","echo":true,"max_tokens":0}`},
	{name: "completion prompts", path: routeCompletions, body: `{"prompt":["a","bc"],"n":2,"max_tokens":1}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.stream.SetProgress(inference.Progress{CachedTokens: 1})
			r.say(fmt.Sprint(len(r.req.Prompt)), 0)
		}}},
	{name: "completion prompts stream", path: routeCompletions, body: `{"prompt":[[65],[66,67]],"stream":true}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.say(strings.Repeat("x", 2), time.Duration(7+3*len(r.req.Prompt))*time.Millisecond)
		}}},
	{name: "completion stop token", path: routeCompletions, body: `{"prompt":"Hello","stop_token_ids":[65],"max_tokens":4}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.token(0, 66)
			r.token(0, 65)
			r.finish(0, inference.FinishStop)
			r.stream.Close(nil)
		}}},
	{name: "completion special shown", path: routeCompletions, body: `{"prompt":"Hello","skip_special_tokens":false,"ignore_eos":true,"max_tokens":2}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			eos, _ := r.backend.tok.EOS()
			r.sayTokens([]inference.TokenID{eos, 40, 41}, 0)
		}}},
	{name: "queue full", path: routeChat, body: `{"messages":[{"role":"user","content":"Hello"}],"stream":true}`,
		backend: &fakeBackend{refuse: func(*inference.Request) error {
			return &inference.LimitError{Err: inference.ErrQueueFull, What: "waiting requests", Need: 9, Limit: 8, Remedy: "try again later"}
		}}},
	{name: "engine bug", path: routeCompletions, body: `{"prompt":"Hello"}`,
		backend: &fakeBackend{script: func(r *fakeRun) { r.stream.Close(errors.New("secret detail of a bug")) }}},
	{name: "engine ends early", path: routeCompletions, body: `{"prompt":"Hello"}`,
		backend: &fakeBackend{script: func(r *fakeRun) { r.stream.Close(nil) }}},
	{name: "engine cancels", path: routeCompletions, body: `{"prompt":"Hello"}`,
		backend: &fakeBackend{script: func(r *fakeRun) {
			r.finish(0, inference.FinishCancelled)
			r.stream.Close(nil)
		}}},
	{name: "ignored", path: routeCompletions, body: `{"prompt":"Hello","store":true,"foo\r\nbar":1,"max_tokens":1}`},
	{name: "tokenize", path: routeTokenize, body: `{"prompt":"Hello<|im_end|>","return_token_strs":true}`},
	{name: "tokenize special", path: routeTokenize, body: `{"prompt":"<|im_end|>","parse_special":true}`},
	{name: "tokenize messages", path: routeTokenize, body: `{"messages":[{"role":"user","content":"<|im_end|>"}]}`},
	{name: "detokenize", path: routeDetokenize, body: `{"tokens":[40,69,76,76,79]}`},
	{name: "models", method: "GET", path: routeModels},
	{name: "model by alias", method: "GET", path: "/v1/models/alias"},
	{name: "model unknown", method: "GET", path: "/v1/models/org/other"},
	{name: "health", method: "GET", path: routeHealth},
	{name: "tokenizer info", method: "GET", path: routeTokenizer},
	{name: "tokenizer info of an unknown model", method: "GET", path: routeTokenizer + "?model=nonsense"},
	{name: "version", method: "GET", path: routeVersion, change: func(c *Config) { c.Version = "1.2.3" }},
	{name: "no route", method: "GET", path: "/v2/%22x"},
	{name: "wrong method", method: "DELETE", path: routeChat},
	{name: "no key", method: "GET", path: routeModels, change: func(c *Config) { c.APIKeys = []string{"sk-12345678"} }},
	{name: "with key", method: "GET", path: "/v1/models/alias", header: "Authorization: bearer sk-12345678\r\n",
		change: func(c *Config) { c.APIKeys = []string{"sk-87654321", "sk-12345678"} }},
}

func TestTranscripts(t *testing.T) {
	for _, tc := range transcripts {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := DefaultConfig()
				if tc.change != nil {
					tc.change(&c)
				}
				backend := tc.backend
				if backend == nil {
					backend = &fakeBackend{}
				}
				r := newRig(t, c, backend)
				method := tc.method
				if method == "" {
					method = "POST"
				}
				res, body := r.do(method, tc.path, tc.header, tc.body)
				r.close()
				time.Sleep(time.Minute) // virtual: fasthttp's worker pool looks for its end every 10 s
				compare(t, tc.name, method+" "+tc.path+"\n"+tc.header+tc.body+"\n\n"+render(res, body))
			})
		})
	}
}

// render writes a response out: status, headers in order, body.
func render(res *http.Response, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", res.Status)
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		if name != "Date" && name != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(res.Header[name], " | "))
		}
	}
	return b.String() + "\n" + body
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, "\r\n", "\n")
	path := filepath.Join("testdata", "transcripts", strings.ReplaceAll(name, " ", "_")+".txt")
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("transcript differs; got:\n%s\nwant:\n%s", got, want)
	}
}
