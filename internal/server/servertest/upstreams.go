package servertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Instead of a status: the upstream breaks connections off, or its streams after their first event.
const (
	CutOff = iota + 1
	CutStream
)

// Upstream answers each request for a chat with a status, once it is bad.
func Upstream(t *testing.T, bad *atomic.Bool, status int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost:
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		case bad.Load() && status == CutOff:
			panic(http.ErrAbortHandler)
		case bad.Load() && status == CutStream:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is\"},\"finish_reason\":null}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case bad.Load():
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"no chat template","code":"wrong"}}`)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			for _, delta := range []string{`{"role":"assistant","content":"It is fine today."}`, `{}`} {
				finish := "null"
				if delta == "{}" {
					finish = `"stop"`
				}
				fmt.Fprintf(w, "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
			}
			_, _ = io.WriteString(w, "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4,\"total_tokens\":9}}\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"It is fine today."},
				"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9}}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// EmbeddingUpstream is an upstream that gives each text a vector.
func EmbeddingUpstream(t *testing.T, vector func(text string) []float64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input []string }
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch _ = json.Unmarshal(body, &asked); {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			return
		case !strings.HasSuffix(r.URL.Path, "/embeddings"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"this model gives vectors"}}`)
			return
		}
		type one struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		var list []one
		for i, text := range asked.Input {
			list = append(list, one{i, vector(text)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": "m", "data": list, "usage": map[string]int{"prompt_tokens": 9, "total_tokens": 9}})
	}))
	t.Cleanup(s.Close)
	return s
}
