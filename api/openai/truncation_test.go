package openai

import (
	"fmt"
	"strings"
	"testing"

	"weir/api/openai/translation"
)

// truncation: auto leaves the oldest messages out of an input that does not fit, and keeps what
// the system says; no result is left without its call.
func TestTruncationDropsTheOldest(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	items := []string{`{"role":"developer","content":"In English."}`}
	for i := range 12 {
		items = append(items,
			fmt.Sprintf(`{"role":"user","content":"question %d %s"}`, i, strings.Repeat("word ", 5)),
			fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`, i),
			fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":"result %d"}`, i, i),
			fmt.Sprintf(`{"role":"assistant","content":"answer %d"}`, i))
	}
	ask := func(last, fields string) string {
		return `{"instructions":"Be kind.",` + fields + `"input":[` + strings.Join(items, ",") + `,{"role":"user","content":"` + last + `"}]}`
	}
	status, body := r.post(routeResponses, ask("so?", ""))
	if _, code, _ := parseError(t, body); status != 400 || code != "context_length_exceeded" {
		t.Fatalf("without truncation: %d %s", status, body)
	}
	res, body := r.do("POST", routeResponses, "", ask("so?", `"truncation":"auto",`))
	prompt := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true)
	if res.StatusCode != 200 || !strings.Contains(body, `"truncation":"auto"`) || !strings.Contains(res.Header.Get("X-Weir-Warnings"), "truncation left out") {
		t.Errorf("%d %s, warnings %q", res.StatusCode, body, res.Header.Get("X-Weir-Warnings"))
	}
	for _, want := range []string{"Be kind.", "In English.", "answer 11", "so?"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the prompt lacks %q: %s", want, prompt)
		}
	}
	_, conversation, _ := strings.Cut(prompt, "<|im_end|>\n")
	if strings.Contains(prompt, "question 0 ") || !strings.HasPrefix(conversation, "<|im_start|>user\nquestion ") {
		t.Errorf("the conversation begins with %.80q", conversation)
	}
	if room := 256 - len(r.backend.run(t, 0).req.Prompt); room < 256/translation.AnswerShare {
		t.Errorf("%d tokens are left for the answer", room)
	}
	status, body = r.post(routeResponses, ask("so?", `"truncation":"auto","store":false,"max_output_tokens":5,`))
	if more := len(r.backend.run(t, 1).req.Prompt); status != 200 || more < len(r.backend.run(t, 0).req.Prompt) {
		t.Errorf("for a short answer the prompt has %d tokens: %d %s", more, status, body)
	}
	status, body = r.post(routeResponses, ask(strings.Repeat("word ", 400), `"truncation":"auto",`))
	if _, code, _ := parseError(t, body); status != 400 || code != "context_length_exceeded" {
		t.Errorf("a question that does not fit alone: %d %s", status, body)
	}
	status, body = r.post(routeResponses, `{"input":"hi","truncation":"auto"}`)
	if status != 200 || !strings.Contains(body, `"truncation":"auto"`) {
		t.Errorf("an input that fits: %d %s", status, body)
	}
	status, body = r.post(routeResponses, `{"input":"hi","truncation":"some"}`)
	if param, code, _ := parseError(t, body); status != 400 || param != "truncation" || code != "invalid_value" {
		t.Errorf("another word: %d %s", status, body)
	}
}
