package server_test

import (
	"encoding/json"
	"io"
	"sync"
	"testing"

	"weir/internal/server/servertest"
)

// realPersons are texts that a real model reads a name, an age and a colour out of.
var realPersons = []struct {
	text string
	want realPerson
}{
	{"Ann is 31 years old and likes red.", realPerson{"Ann", 31, "red"}},
	{"My friend Robert, whose favourite colour is blue, turned 52 yesterday.", realPerson{"Robert", 52, "blue"}},
	{"Maria has just become 7. She paints everything green.", realPerson{"Maria", 7, "green"}},
}

type realPerson struct {
	Name   string `json:"name"`
	Age    int    `json:"age"`
	Colour string `json:"colour"`
}

const realPersonSchema = `{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":120},` +
	`"colour":{"enum":["red","green","blue"]}},"required":["name","age","colour"],"additionalProperties":false}`

// A real model's answers to a schema are of it, and say what the text says.
func testRealModelSchemas(t *testing.T, m realModel, s *servertest.Server) {
	if m.schemas == 0 {
		t.Skip("it is too small for it")
	}
	right := make([]bool, len(realPersons))
	var all sync.WaitGroup
	for i, p := range realPersons {
		all.Go(func() {
			r := s.Post("/v1/chat/completions", jsonText(map[string]any{
				"messages":        []map[string]string{{"role": "user", "content": p.text + " Give the person as JSON."}},
				"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "person", "schema": json.RawMessage(realPersonSchema)}},
				"temperature":     0, "max_tokens": 60,
			}))
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			var answer struct {
				Choices []struct {
					Message struct{ Content string }
					Reason  string `json:"finish_reason"`
				}
			}
			var got realPerson
			if err := json.Unmarshal(body, &answer); err != nil || len(answer.Choices) != 1 || answer.Choices[0].Reason != "stop" {
				t.Errorf("%s: %v %s", p.text, err, body)
			} else if err := json.Unmarshal([]byte(answer.Choices[0].Message.Content), &got); err != nil {
				t.Errorf("%s: %v in %s", p.text, err, answer.Choices[0].Message.Content)
			} else if right[i] = got == p.want; !right[i] {
				t.Logf("%s: %+v", p.text, got)
			}
		})
	}
	all.Wait()
	n := 0
	for _, ok := range right {
		if ok {
			n++
		}
	}
	t.Logf("%d of %d answers are right", n, len(right))
	if n < m.schemas {
		t.Errorf("%d of %d answers are right, want at least %d", n, len(right), m.schemas)
	}
}
