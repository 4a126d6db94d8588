package relay

import (
	"regexp"
	"testing"

	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/messages"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/responses"
)

// Whatever a server writes, the client's stream has one end.
func FuzzTranslatedStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), true)
	f.Add([]byte(": ping\n\ndata: {\"choices\":[{\"delta\":{\"reasoning\":\"h\"}}]}\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, asMessage bool) {
		last := regexp.MustCompile(`event: response\.(completed|incomplete|failed)\n`)
		j := &job.Job{NewEncoder: responses.NewEncoder, Model: &models.Model{ID: "m"}, Params: &params.Params{N: 1}, Own: &responses.Request{Summary: jsonbody.Null}}
		if asMessage {
			last = regexp.MustCompile(`event: (message_stop|error)\n`)
			j.NewEncoder, j.Prompts = messages.NewEncoder, []job.Prompt{{}}
		}
		r := NewTranslatedStream(&Exchange{Relay: &Relay{Hooks: &edge.Hooks{}}, Cancel: func(error) {}, Cause: func() error { return nil }, Result: edge.RequestFinish{}}, j, 0)
		if fault := r.lines(text); fault != nil {
			r.broken(fault)
		}
		r.end()
		if n := len(last.FindAll(r.buf, -1)); n != 1 {
			t.Errorf("%q has %d ends: %q", text, n, r.buf)
		}
	})
}
