package openai

import (
	"strings"
	"testing"

	"weir/api/openai/job"
	"weir/api/openai/models"
)

// Requests that do not say get what the model's record says, and those that do get what they say.
func TestModelDefaults(t *testing.T) {
	b := &fakeBackend{}
	s := newServer(t, DefaultConfig(), b)
	m := testModel(t, b)
	m.Defaults = []models.Default{
		{Field: "temperature", Value: []byte("0.25")}, {Field: "top_k", Value: []byte("7")}, {Field: "max_tokens", Value: []byte("11")}, {Field: "stop", Value: []byte(`["END"]`)},
		{Field: "repetition_penalty", Value: []byte("1.5")}, {Field: "system", Value: []byte(`"Be kind."`)},
	}
	const said = `"temperature":1,"top_k":3,"max_completion_tokens":5,"repeat_penalty":1.25`
	for _, tc := range []struct {
		e           *endpoint
		body        string
		temperature float32
		k, most     int
		penalty     float32
		prompt      string
	}{
		{&chatEndpoint, `{"messages":[{"role":"user","content":"x"}]}`, 0.25, 7, 11, 1.5, "Be kind."},
		{&chatEndpoint, `{"messages":[{"role":"user","content":"x"}],"temperature":null}`, 0.25, 7, 11, 1.5, "Be kind."},
		{&chatEndpoint, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"x"}],` + said + `}`, 1, 3, 5, 1.25, "Be brief."},
		{&completionEndpoint, `{"prompt":"x",` + said + `}`, 1, 3, 5, 1.25, ""},
		{&completionEndpoint, `{"prompt":"x"}`, 0.25, 7, 11, 1.5, ""},
		{&responseEndpoint, `{"input":"x","instructions":"Be brief."}`, 0.25, 7, 11, 1.5, "Be brief."},
		{&responseEndpoint, `{"input":"x","max_output_tokens":5}`, 0.25, 7, 5, 1.5, "Be kind."},
		{&messageEndpoint, `{"max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, 0.25, 7, 5, 1.5, "Be kind."},
	} {
		o, fault := job.ReadBody([]byte(tc.body), true)
		if fault != nil {
			t.Fatal(fault)
		}
		j, fault := tc.e.read(s.config.reader(), o, m)
		if fault != nil {
			t.Errorf("%s: %v", tc.body, fault)
			continue
		}
		got := j.Params.Sampling
		text := b.tok.Decode(j.Prompts[0].IDs, true)
		if got.Temperature != tc.temperature || got.TopK != tc.k || j.MaxTokens != tc.most || got.RepetitionPenalty != tc.penalty || !strings.Contains(text, tc.prompt) ||
			strings.Contains(text, "kind") != strings.Contains(tc.prompt, "kind") {
			t.Errorf("%s: %+v, %d tokens at most, prompt %q", tc.body, got, j.MaxTokens, text)
		}
	}
	o, _ := job.ReadBody([]byte(`{"messages":[{"role":"user","content":7}]}`), true)
	if _, fault := chatEndpoint.read(s.config.reader(), o, m); fault == nil || fault.Param != "messages[0].content" {
		t.Errorf("%+v", fault)
	}
}
