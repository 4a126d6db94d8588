package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// Schemas of a request may refer to documents that the request gives beside them, since nothing is fetched.
func TestSchemasReferToTheRequestsDocuments(t *testing.T) {
	const schema = `{"type":"object","properties":{"at":{"$ref":"https://example.com/point.json"}},"required":["at"]}`
	const documents = `,"schema_documents":{"https://example.com/point.json":{"type":"object","properties":{"x":{"enum":[7]}},"required":["x"]}}`
	for _, fields := range []string{
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`,
		`"guided_json":` + schema,
		`"tool_choice":"required","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]`,
	} {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, "Hello")})
		longModel(r)
		a := r.ask(chatWith(fields + documents + `,"max_tokens":800`))
		text := a.text()
		if len(a.Calls) == 1 {
			text = a.Calls[0].Arguments
		}
		var got struct{ At struct{ X int } }
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.At.X != 7 {
			t.Errorf("%s: %q", fields, text)
		}
		if status, body := r.post(routeChat, chatWith(fields)); status != 400 || !strings.Contains(body, "schema_documents") {
			t.Errorf("%s: without documents %d %s", fields, status, body)
		}
		if status, body := r.post(routeChat, chatWith(fields+`,"schema_documents":[]`)); status != 400 {
			t.Errorf("%s: with a list %d %s", fields, status, body)
		}
		r.close()
	}
}
