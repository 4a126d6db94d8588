package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAnyOrder: any_order lets the model write properties in any order, wherever a request may say it and where the server's setting does.
func TestAnyOrder(t *testing.T) {
	const (
		schema   = `{"type":"object","properties":{"a":{"enum":[1]},"b":{"enum":[2]}},"required":["a","b"]}`
		backward = `{"b":2,"a":1}`
		tools    = `"tool_choice":"required","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]`
	)
	for _, c := range []struct {
		fields string
		server bool
		any    bool
	}{
		{`"guided_json":` + schema, false, false},
		{`"guided_json":` + schema, true, true},
		{`"any_order":false,"guided_json":` + schema, true, false},
		{`"any_order":true,"guided_json":` + schema, false, true},
		{`"any_order":true,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`, false, true},
		{`"structured_outputs":{"any_order":true,"json":` + schema + `}`, false, true},
		{`"any_order":true,"structured_outputs":{"any_order":false,"json":` + schema + `}`, false, false},
		{`"structured_outputs":{"structural_tag":{"type":"structural_tag","format":{"type":"json_schema","any_order":true,"json_schema":` + schema + `}}}`, false, true},
		{`"any_order":true,"structured_outputs":{"structural_tag":{"type":"structural_tag","format":{"type":"json_schema","json_schema":` + schema + `}}}`, false, true},
		{`"any_order":true,` + tools, false, true},
		{tools, false, false},
	} {
		config := DefaultConfig()
		config.AnyOrder = c.server
		text := backward
		if strings.Contains(c.fields, "tools") {
			text = `<tool_call>` + "\n" + `{"name": "f", "arguments": ` + backward + `}` + "\n" + `</tool_call>`
		}
		r := newRig(t, config, &fakeBackend{script: writer(t, 1, text)})
		longModel(r)
		a := r.ask(chatWith(c.fields + `,"max_tokens":800`))
		got := a.text()
		if len(a.Calls) == 1 {
			got = a.Calls[0].Arguments
		}
		var values map[string]int
		if err := json.Unmarshal([]byte(got), &values); err != nil || values["a"] != 1 || values["b"] != 2 {
			t.Errorf("%s: %q", c.fields, got)
		}
		if first := strings.Index(got, `"b"`) < strings.Index(got, `"a"`); first != c.any {
			t.Errorf("%s, server %v: %s", c.fields, c.server, got)
		}
		r.close()
	}
}
