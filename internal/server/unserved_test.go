package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// What the servers behind a model do not have is the request's fault: callers are told so, and nothing says that an operator has to
// correct the servers. The answer is that of vLLM 0.32 with a chat model.
func TestAnAPIThatTheServersDoNotHave(t *testing.T) {
	t.Parallel()
	vllm := func() string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/models"):
				_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			case strings.HasSuffix(r.URL.Path, "/chat/completions"):
				_, _ = io.WriteString(w, `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)
			default:
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	one, two := servertest.ChatVersion("1", vllm(), "m"), vllm()
	one.Replicas = append(one.Replicas, servertest.ChatVersion("1", two, "m").Replicas...)
	s := servertest.Start(t, func(c *configs.Config) { c.Models = []configs.ServedModel{one} })
	for path, body := range map[string]string{
		"/v1/embeddings": `{"model": "chat", "input": "a river"}`,
		"/v1/rerank":     `{"model": "chat", "query": "a", "documents": ["b"]}`,
		"/v1/score":      `{"model": "chat", "text_1": "a", "text_2": "b"}`,
		"/v1/decisions":  `{"model": "chat", "input": "a", "questions": [{"type": "predicate", "instructions": "b"}]}`,
		"/v1/systemone":  `{"model": "chat", "state": "a", "questions": {"b": {"type": "noul"}}}`,
	} {
		res := s.Post(path, body)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), `"unsupported_endpoint"`) || !strings.Contains(string(text), "do not have "+path) {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	res := s.Post("/v1/chat/completions", `{"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}`)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a chat: %d", res.StatusCode)
	}
	_, metrics := s.Get(s.Admin + "/metrics")
	for _, kind := range []string{"misconfigured", "no_endpoint"} {
		found := strings.Contains(metrics, `weir_route_errors_total{kind="`+kind+`",`)
		if found != (kind == "no_endpoint") {
			t.Errorf("faults of the kind %s: %v", kind, found)
		}
	}
}
