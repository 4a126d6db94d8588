package servertest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/telemetry/trace/tracetest"
)

// Predict is a request to a model, and what came back.
func (s *Server) Predict(model, body string) (status int, answer string) {
	s.T.Helper()
	r := s.Post("/v1/models/"+model+":predict", body)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// PostInto posts a body and decodes the answer.
func (s *Server) PostInto(path, body string, to any) int {
	s.T.Helper()
	r := s.Post(path, body)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		s.T.Fatalf("%s: %v in %s", path, err, raw)
	}
	return r.StatusCode
}

// PostWithKey is a request with a key: its status, and the error's code and message.
func (s *Server) PostWithKey(key, path, body string) (status int, code, message string) {
	s.T.Helper()
	status, _, text := s.As(key, "POST", s.API+path, body)
	var answer struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal([]byte(text), &answer) // an answer has no error
	return status, answer.Error.Code, answer.Error.Message
}

// Counter is a series of the metrics, all its labels but the model's given.
func (s *Server) Counter(name, label string) int {
	s.T.Helper()
	_, text := s.Get(s.Admin + "/metrics")
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			n, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			return int(n)
		}
	}
	s.T.Fatalf("no series %s with %s", name, label)
	return 0
}

// Body reads an answer to its end.
func Body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Get asks for a URL.
func (s *Server) Get(url string) (int, string) {
	s.T.Helper()
	r, err := http.Get(url)
	if err != nil {
		s.T.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// Post sends a body to the API; the answer is closed with the test.
func (s *Server) Post(path, body string) *http.Response {
	s.T.Helper()
	r, err := http.Post(s.API+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { r.Body.Close() })
	return r
}

// Completion is what a chat and its events have of their choices.
type Completion struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// Stream joins the text of a streamed chat; ended: the last event is [DONE].
func (s *Server) Stream(body string) (text string, ended bool) {
	s.T.Helper()
	var all strings.Builder
	for lines := bufio.NewScanner(s.Post("/v1/chat/completions", body).Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
		case data == "[DONE]":
			ended = true
		default:
			var chunk Completion
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				s.T.Fatalf("event %s: %v", data, err)
			}
			for _, c := range chunk.Choices {
				all.WriteString(c.Delta.Content)
			}
		}
	}
	return all.String(), ended
}

// AwaitMetric scrapes until the metrics hold a line.
func (s *Server) AwaitMetric(line string) {
	s.T.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, text := s.Get(s.Admin + "/metrics"); strings.Contains(text, line+"\n") {
			return
		}
	}
	s.T.Errorf("the metrics never said %s", line)
}

// As sends a request with a key, and reads all of the answer.
func (s *Server) As(key, method, url, body string) (int, http.Header, string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// Call sends a body to the API with a key.
func (s *Server) Call(method, path, key, body string) (status int, answer string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.API+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-"+tracetest.CallersTrace+"-"+tracetest.CallersSpan+"-01")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return res.StatusCode, string(raw)
}
