package openai

import (
	"strings"
	"testing"
)

// TestInvocations: SageMaker's path takes what the others take, and says which it knows.
func TestInvocations(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"messages":[{"role":"user","content":"ping"}]}`, 200, `"object":"chat.completion"`},
		{`{"prompt":"ping"}`, 200, `"object":"text_completion"`},
		{`{"input":"ping","model":"test-model"}`, 400, `"wrong_model_kind"`},
		{`{"query":"a","documents":["b"],"model":"test-model"}`, 400, `"wrong_model_kind"`},
		{`{"model":"test-model"}`, 400, "send that of /v1/chat/completions"},
		{`[`, 400, `"invalid_json"`},
	} {
		if status, text := r.post(routeInvocations, tc.body); status != tc.status || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %d %s", tc.body, status, text)
		}
	}
	if _, text := r.do("GET", routeLoad, "", ""); text != `{"server_load":0}`+"\n" {
		t.Error(text)
	}
	for _, method := range []string{"GET", "POST"} {
		if _, text := r.do(method, "/ping", "", ""); !strings.Contains(text, `"ok"`) {
			t.Error(text)
		}
	}
}

// TestEveryWrongBiasIsNamed: a client that sends texts as keys sees all of them, and how many tokens there are.
func TestEveryWrongBiasIsNamed(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	_, text := r.post(routeChat, chatWith(`"logit_bias":{"one":1,"5":1,"two":1,"99999999":1}`))
	for _, want := range []string{`\"one\", \"two\", \"99999999\"; keys are token ids below the size of the vocabulary, `} {
		if !strings.Contains(text, want) {
			t.Error(text)
		}
	}
}
