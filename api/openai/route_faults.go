package openai

import (
	"encoding/json"
	"net/http"

	"weir/api/openai/messages"
	"weir/api/openai/ollama"
)

// StatusOf is a server's status as the path's clients know it.
func (rt *route) StatusOf(status int) int {
	if status == messages.StatusOverloaded && rt.dialect() != anthropics {
		return http.StatusServiceUnavailable
	}
	return status
}

// HasErrorForm reports whether a body is an error as the path's clients read it.
func (rt *route) HasErrorForm(body []byte) bool {
	if rt.dialect() == ollamas {
		return ollama.IsFault(body)
	}
	var said struct {
		Type  string
		Error *struct{ Message *string }
	}
	return json.Unmarshal(body, &said) == nil && said.Error != nil && said.Error.Message != nil && (rt.dialect() != anthropics || said.Type == "error")
}

// Name is the path as hooks know it.
func (rt *route) Name() string { return rt.Pattern }
