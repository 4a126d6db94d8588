package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// Schemas that are put together of others are served under every name: their objects are closed as a whole, not member by member.
func TestComposedSchemasAreClosedAsAWhole(t *testing.T) {
	for _, schema := range []string{
		`{"allOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},{"type":"object","properties":{"b":{"const":2}},"required":["b"]}]}`,
		`{"$ref":"#/$defs/base","properties":{"b":{"const":2}},"required":["b"],
			"$defs":{"base":{"type":"object","properties":{"a":{"const":1}},"required":["a"]}}}`,
		`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a"],"if":{"required":["a"]},"then":{"required":["b"]}}`,
	} {
		const tool = `"tool_choice":"required","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f","parameters":`
		for _, fields := range []string{
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`,
			`"guided_json":` + schema,
			`"structured_outputs":{"structural_tag":{"type":"structural_tag","format":{"type":"json_schema","json_schema":` + schema + `}}}`,
			tool + schema + `}}]`,
		} {
			r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, "Hello")})
			longModel(r)
			a := r.ask(chatWith(fields + `,"max_tokens":800`))
			text := a.text()
			if strings.HasPrefix(fields, `"tool`) {
				if len(a.Calls) != 1 {
					t.Fatalf("%s: %+v", fields, a)
				}
				text = a.Calls[0].Arguments
			}
			var got map[string]int
			if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 2 || got["a"] != 1 || got["b"] != 2 {
				t.Errorf("%s: %q", fields, text)
			}
			r.close()
		}
	}
}
