package server_test

import (
	"fmt"
	"regexp"
	"testing"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// goWords are what Go's decoders say to programmers.
var goWords = regexp.MustCompile(`Go (struct|value|type)|unmarshal|strconv\.|json: (cannot|unknown|invalid)|reflect|map\[string`)

// Whatever is wrong with a body, no answer names Go's types: each endpoint is sent fields of every kind of JSON.
func TestErrorsNameNoGoTypes(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin,inference,metrics"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	bodies := []string{``, `[]`, `7`, `{`, `{"model":NaN}`, `nul`, `{"a":1}{"b":2}`}
	for _, field := range []string{
		"model", "messages", "tools", "stop", "temperature", "logit_bias", "response_format", "metadata", "prompt", "input", "texts", "instances", "inputs", "parameters", "outputs",
		"tenant", "scope", "expires", "limits", "models", "name", "weight", "claims", "grace", "candidate", "steps", "gates", "input_file_id", "output_expires_after", "completion_window", "id", "thumbs", "label",
	} {
		for _, value := range []string{`7`, `-1.5`, `"x"`, `{"a":{"b":1}}`, `[1,"a",{}]`, `true`, `1e999`, `[{"name":"input","shape":["a"],"datatype":7,"data":{}}]`} {
			bodies = append(bodies, fmt.Sprintf(`{%q:%s}`, field, value))
		}
	}
	for _, base := range []struct {
		url   string
		paths []string
	}{
		{s.API, []string{
			servertest.ChatPath, "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v2/embed", "/v1/rerank", "/v1/moderations", "/tokenize", "/v1/batches",
			"/v1/models/weir-iris:predict", "/v2/models/weir-iris/infer", "/v2/repository/index", "/v1/outcomes",
		}},
		{s.Admin, []string{"/admin/tenants", "/admin/keys", "/admin/keys/0000000000/rotate", "/v1/deployments", "/v1/outcomes", "/admin/models"}},
	} {
		for _, path := range base.paths {
			for _, body := range bodies {
				if _, _, text := s.As(key, "POST", base.url+path, body); goWords.MatchString(text) {
					t.Errorf("POST %s %s: %s", path, body, text)
				}
			}
		}
	}
}
