package servertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weir/api/admin"
)

// AdminStatus sends a request to the admin listener.
func (s *Server) AdminStatus(method, path, key string) int {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.Admin+path, http.NoBody)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// Models is GET /admin/models, by NAME@VERSION.
func (s *Server) Models() map[string]admin.ModelState {
	s.T.Helper()
	var list struct{ Models []admin.ModelState }
	if status, body := s.Get(s.Admin + "/admin/models"); status != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
		s.T.Fatalf("%d %s", status, body)
	}
	all := make(map[string]admin.ModelState)
	for _, m := range list.Models {
		all[m.Name+"@"+m.Version] = m
	}
	return all
}

// ChangeModel is POST /admin/models/ACTION.
func (s *Server) ChangeModel(action, name, version string) (int, admin.ModelChanged, string) {
	s.T.Helper()
	body := fmt.Sprintf(`{"name": %q, "version": %q}`, name, version)
	r, err := http.Post(s.Admin+"/admin/models/"+action, "application/json", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	defer r.Body.Close()
	var raw json.RawMessage
	var done admin.ModelChanged
	_ = json.NewDecoder(r.Body).Decode(&raw)
	_ = json.Unmarshal(raw, &done)
	return r.StatusCode, done, string(raw)
}

// Said asks a model to greet and returns its text and version.
func (s *Server) Said(model string) (status int, text, version string) {
	s.T.Helper()
	r := s.Post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}],"temperature":0}`, model))
	var whole Completion
	_ = json.NewDecoder(r.Body).Decode(&whole)
	if len(whole.Choices) > 0 {
		text = whole.Choices[0].Message.Content
	}
	return r.StatusCode, text, r.Header.Get("X-Weir-Version")
}

// Control is a request of an operator and its answer.
func (s *Server) Control(operator, method, path, body string, into any) int {
	s.T.Helper()
	status, _, text := s.As(operator, method, s.Admin+path, body)
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			s.T.Fatalf("%s %s: %d %s", method, path, status, text)
		}
	}
	return status
}
