package pages

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// serve starts weir with its own model and returns its address.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	return start(t, 1, append([]string{"--admin-address", "off"}, flags...)...)[0]
}

// start starts weir and returns the first addresses that it names, which are different.
func start(t *testing.T, addresses int, flags ...string) (found []string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("WEIR_BINARY"), append([]string{"serve", "--port", "0"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if base := listening.FindString(lines.Text()); base != "" && !slices.Contains(found, base) {
			if found = append(found, base); len(found) == addresses {
				go func() { _, _ = io.Copy(io.Discard, out) }()
				return found
			}
		}
	}
	t.Fatal("weir ended before it listened")
	return nil
}

// front is a server that answers some paths itself and has weir answer the others, pages among them.
func front(t *testing.T, weir string, own map[string]http.HandlerFunc) string {
	t.Helper()
	to, err := url.Parse(weir)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Origin") // which names the front
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := own[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

const chats = "/v1/chat/completions"

// stream writes the events of an answer.
type stream struct {
	w http.ResponseWriter
	n int
}

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Request-Id", "request-1")
	return &stream{w: w}
}

func (s *stream) send(delta map[string]any, finish any) {
	event, err := json.Marshal(map[string]any{"object": "chat.completion.chunk", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", event)
	s.n++
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *stream) text(text string) { s.send(map[string]any{"content": text}, nil) }

func (s *stream) end(finish string) {
	s.send(map[string]any{}, finish)
	_, _ = fmt.Fprintf(s.w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\ndata: [DONE]\n\n", s.n)
}

// asked is the body of a request for a chat.
type asked struct {
	Model    string `json:"model"`
	Messages []struct {
		Role       string `json:"role"`
		Content    string `json:"content"`
		ToolCallID string `json:"tool_call_id"`
	} `json:"messages"`
	Tools []any `json:"tools"`
}

func read(t *testing.T, r *http.Request) (a asked) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err != nil {
		t.Errorf("the page sent %.200q: %v", body, err)
	}
	return a
}

func (a asked) said() string {
	var all []string
	for _, m := range a.Messages {
		all = append(all, m.Role+": "+m.Content)
	}
	return strings.Join(all, "\n")
}
