package messagebatch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"weir/api/batch"
)

// TestRequestsAreRefusedByName: what is wrong with the body of a batch is told with its place.
func TestRequestsAreRefusedByName(t *testing.T) {
	const good = `{"custom_id":"a","params":{"model":"m"}}`
	for body, want := range map[string]string{
		`{"requests":[` + good + `]}`: "",
		`{}`:                          "missing_required_parameter requests",
		`{"requests":[]}`:             "invalid_value requests",
		`{"requests":[7]}`:            "invalid_type requests[0]",
		`{"requests":[` + good + `,` + good + `]}`:                                  "invalid_value requests[1].custom_id",
		`{"requests":[{"params":{}}]}`:                                              "missing_required_parameter requests[0].custom_id",
		`{"requests":[{"custom_id":"a b","params":{}}]}`:                            "invalid_value requests[0].custom_id",
		`{"requests":[{"custom_id":"a"}]}`:                                          "missing_required_parameter requests[0].params",
		`{"requests":[{"custom_id":"a","params":{"stream":true}}]}`:                 "invalid_value requests[0].params.stream",
		`{"requests":[` + good + `],"more":1}`:                                      "unknown_parameter more",
		`{"requests":[{"custom_id":"a","params":{},"url":"/v1/chat/completions"}]}`: "unknown_parameter requests[0].url",
	} {
		_, fault := readRequests([]byte(body))
		got := ""
		if fault != nil {
			got = fault.Code + " " + fault.Param
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// FuzzRequests: whatever is read becomes lines, one a request, whose body says what the client sent.
func FuzzRequests(f *testing.F) {
	f.Add(`{"requests":[{"custom_id":"a","params":{"model":"m","messages":[{"role":"user","content":"a\nb"}]}}]}`)
	f.Add("{\"requests\":[{\"custom_id\":\"a\",\"params\":{\n\"model\":\r\n\"m\"}}]}")
	f.Fuzz(func(t *testing.T, body string) {
		list, fault := readRequests([]byte(body))
		if fault != nil {
			return
		}
		var out bytes.Buffer
		if err := writeLines(list)(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(list) {
			t.Fatalf("%d lines of %d requests", len(lines), len(list))
		}
		for i, text := range lines {
			var l struct {
				ID   string `json:"custom_id"`
				Body json.RawMessage
			}
			if err := json.Unmarshal([]byte(text), &l); err != nil || l.ID != list[i].id || l.Body[0] != '{' {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

// TestResultsAreAnthropics: each end of a request has its own type.
func TestResultsAreAnthropics(t *testing.T) {
	cancelled := &batch.Batch{Status: batch.StatusCancelled}
	for _, c := range []struct {
		r    batch.Result
		want string
	}{
		{batch.Result{CustomID: "a", Status: 200, Body: []byte(`{"id":"msg_1"}`)}, `{"custom_id":"a","result":{"type":"succeeded","message":{"id":"msg_1"}}}`},
		{batch.Result{CustomID: "a", Status: 400, Body: []byte(`{"type":"error"}`)}, `{"custom_id":"a","result":{"type":"errored","error":{"type":"error"}}}`},
		{batch.Result{CustomID: "a", Code: "batch_expired"}, `{"custom_id":"a","result":{"type":"expired"}}`},
		{batch.Result{CustomID: "a"}, `{"custom_id":"a","result":{"type":"canceled"}}`},
		{batch.Result{CustomID: "a", Code: "request_timeout", Message: "late"},
			`{"custom_id":"a","result":{"type":"errored","error":{"type":"error","error":{"type":"timeout_error","message":"late"}}}}`},
	} {
		if got := string(appendResult(nil, cancelled, &c.r)); got != c.want+"\n" {
			t.Errorf("%+v: %s", c.r, got)
		}
	}
}
