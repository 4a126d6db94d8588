package servertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// CallJSON sends a request to the API and reads its JSON; one that is no JSON is under "text".
func (s *Server) CallJSON(method, path, key, contentType string, body io.Reader) (status int, answer map[string]any) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.API+path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	if json.Unmarshal(text, &answer) != nil {
		answer = map[string]any{"text": string(text)}
	}
	return res.StatusCode, answer
}

// Upload sends a file with the fields of its form.
func (s *Server) Upload(key, text string, fields ...string) (status int, answer map[string]any) {
	s.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			s.T.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", "in.jsonl")
	if err != nil {
		s.T.Fatal(err)
	}
	_, _ = io.WriteString(part, text) // into memory
	if err := form.Close(); err != nil {
		s.T.Fatal(err)
	}
	return s.CallJSON(http.MethodPost, "/v1/files", key, form.FormDataContentType(), &body)
}

// Batch uploads lines of chats and makes a batch of them.
func (s *Server) Batch(key, lines string) (id string) {
	s.T.Helper()
	return s.BatchFor(key, "/v1/chat/completions", lines)
}

// BatchFor is Batch of lines for another endpoint.
func (s *Server) BatchFor(key, endpoint, lines string) (id string) {
	s.T.Helper()
	status, file := s.Upload(key, lines, "purpose", "batch")
	if status != 200 {
		s.T.Fatalf("upload: %d %v", status, file)
	}
	status, b := s.CallJSON(http.MethodPost, "/v1/batches", key, "application/json", strings.NewReader(fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"a":"b"}}`, file["id"], endpoint)))
	if status != 200 || b["status"] != "validating" {
		s.T.Fatalf("create: %d %v", status, b)
	}
	return b["id"].(string)
}

// AwaitBatch waits for a batch that is as asked for.
func (s *Server) AwaitBatch(key, id string, ok func(b map[string]any) bool) map[string]any {
	s.T.Helper()
	for end := time.Now().Add(4 * Patience); ; time.Sleep(20 * time.Millisecond) {
		status, b := s.CallJSON(http.MethodGet, "/v1/batches/"+id, key, "application/json", http.NoBody)
		if status == 200 && ok(b) {
			return b
		}
		if status != 200 || time.Now().After(end) {
			s.T.Fatalf("%d %v", status, b)
		}
	}
}

// BatchOutput reads a file's lines by their custom_id.
func (s *Server) BatchOutput(key string, file any) map[string]string {
	s.T.Helper()
	status, answer := s.CallJSON(http.MethodGet, fmt.Sprintf("/v1/files/%v/content", file), key, "application/json", http.NoBody)
	text, _ := answer["text"].(string)
	if status != 200 || text == "" {
		s.T.Fatalf("content of %v: %d %v", file, status, answer)
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
			s.T.Fatalf("%v in %s", err, line)
		}
		if _, twice := found[l.CustomID]; twice {
			s.T.Errorf("%s is done twice", l.CustomID)
		}
		found[l.CustomID] = l.Response.Body.Choices[0].Message.Content
	}
	return found
}
