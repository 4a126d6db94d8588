package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestChatsAreAnsweredTogether: each conversation of a batch is a prompt of its own and a choice, in their order.
func TestChatsAreAnsweredTogether(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	ask := func(more string) (int, string) {
		return r.post(routeChats, `{"model":"test-model","messages":[[{"role":"user","content":"one"}],[{"role":"system","content":"be brief"},{"role":"user","content":"two"}]]`+more+`}`)
	}
	status, text := ask(`,"max_tokens":4`)
	var got struct {
		Object  string
		Choices []struct {
			Index   int
			Message struct{ Role, Content string }
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if got.Object != "chat.completion" || len(got.Choices) != 2 || got.Choices[0].Index != 0 || got.Choices[1].Index != 1 || got.Choices[1].Message.Content == "" {
		t.Errorf("%s", text)
	}
	prompts, tokens := []string{}, 0
	for _, run := range b.runs {
		prompts, tokens = append(prompts, b.tok.Decode(run.req.Prompt, true)), tokens+len(run.req.Prompt)
	}
	if all := fmt.Sprint(prompts); len(prompts) != 2 || !strings.Contains(prompts[0], "one") || strings.Contains(prompts[0], "two") || !strings.Contains(prompts[1], "two") {
		t.Errorf("the prompts are %s", all)
	}
	if got.Usage.Prompt != tokens {
		t.Errorf("%d tokens of prompts are told, %d were read", got.Usage.Prompt, tokens)
	}
	for more, param := range map[string]string{`,"stream":true`: "stream", `,"n":2`: "n", `,"tools":[]`: "tools", `,"prompt_logprobs":1`: "prompt_logprobs", `,"store":true`: "store"} {
		status, body := ask(more)
		if got, _, _ := parseError(t, body); status != 400 || got != param {
			t.Errorf("%s: %d %s", more, status, body)
		}
	}
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"one"}]}`: "messages[0] is no array",
		`{"messages":[]}`: "at least one conversation",
		`{}`:              "array of conversations",
		`{"messages":[[{"role":"user","content":"one"}],[{"role":"judge"}]]}`: "of conversation messages[1]: ",
	} {
		if status, text := r.post(routeChats, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

func FuzzChats(f *testing.F) { fuzzBodies(f, routeChats) }
