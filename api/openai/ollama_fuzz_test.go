package openai

import (
	"encoding/json"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/api/openai/ollama"
)

// Each body must be refused in Ollama's form, ask for no answer, or reach the backend, which answers 503, as a sound request.
func FuzzOllamaRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"test-model","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"x"}],` +
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"think":"high","keep_alive":"5m"}`,
		`{"model":"test-model","prompt":"hi","system":"s","context":[1,2],"format":{"type":"integer"},"logprobs":true,"top_logprobs":2,` +
			`"options":{"num_predict":-1,"top_k":0,"top_p":0,"repeat_last_n":0,"num_ctx":9,"seed":-1,"stop":["a"],"mirostat":1}}`,
		`{"model":"test-model","prompt":"hi","template":"{{ range .Messages }}{{ .Role }}{{ end }}{{ if .System }}{{ end }}","suffix":"x"}`,
		`{"model":"test-model","prompt":"hi","raw":true,"images":["eA=="],"input":["a"],"dimensions":3,"truncate":false}`,
		`{"model":"test-model","prompt":"","keep_alive":-1,"options":{"num_ctx":1}}`, `{"name":"test-model","verbose":true}`,
	} {
		f.Add([]byte(body))
	}
	tok := mustTokenizer(f)
	s := newServer(f, DefaultConfig(), &fakeBackend{})
	m := testModel(f, &fakeBackend{tok: tok})
	m.Backend = checker{tok.Size()}
	vectors := testPooler(f, nil, false)
	vectors.Pooler.Embedder = soundTexts{vectors}
	vectors.Aliases = []string{""}
	if err := s.SetModels(m, vectors); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		for _, path := range []string{routeOllamaChat, routeOllamaGenerate, routeOllamaEmbed, routeOllamaVectors, routeOllamaShow} {
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, nil, nil)
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.SetRequestURI(path)
			ctx.Request.SetBody(body)
			muxOf(s).Handle(&ctx)
			status, answer := ctx.Response.StatusCode(), ctx.Response.Body()
			switch {
			case !json.Valid(answer):
				t.Fatalf("%s %q got %d and no JSON: %q", path, body, status, answer)
			case status >= 400 && (!ollama.IsFault(answer) || status >= 500 && status != 503):
				t.Fatalf("%s %q got %d %s", path, body, status, answer)
			}
		}
	})
}
