package openai

import "testing"

// TestStrictIsAboutEnforcing: strict asks that all of a schema is enforced. What OpenAI's own strict schemas must have beside that (all properties
// required, additionalProperties false) is not asked for.
func TestStrictIsAboutEnforcing(t *testing.T) {
	format := func(schema string) string {
		return chatWith(`"max_tokens":800,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`)
	}
	r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, "Hello")})
	defer r.close()
	longModel(r)
	for schema, want := range map[string]int{
		`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"}},"required":["a"]}`:                               200,
		`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`:                      200,
		`{"type":"object","properties":{"a":{"type":"array","contains":{"const":1}}},"required":["a"],"additionalProperties":false}`: 400,
	} {
		if status, body := r.post(routeChat, format(schema)); status != want {
			t.Errorf("%s: %d %s", schema, status, body)
		}
	}
}
