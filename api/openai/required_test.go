package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A budget stands before whatever constraint the answer has: the thought is cut, and the
// call that the request demands follows.
func TestABudgetThenACallThatIsDemanded(t *testing.T) {
	for seed := range uint64(3) {
		b := &fakeBackend{script: writer(t, seed, "I think, and think, and think")}
		r := newRig(t, DefaultConfig(), b)
		if err := r.openai.SetModels(toolModel(t, b, thinkTemplate)); err != nil {
			t.Fatal(err)
		}
		a := r.ask(chatWith(bothTool + `,"tool_choice":{"type":"function","function":{"name":"get_time"}},"thinking_token_budget":8,"max_tokens":400`))
		r.close()
		if a.Reasoning != "I think," || len(a.Calls) != 1 || a.Calls[0].Name != "get_time" || a.Reason != "stop" {
			t.Errorf("seed %d: %+v", seed, a)
		}
	}
}

// 28: what is demanded and cut by its length says so.
func TestADemandedCallThatIsCut(t *testing.T) {
	for _, most := range []int{1, 15, 40} {
		b := &fakeBackend{script: writer(t, 1, parisCall)}
		r := newRig(t, DefaultConfig(), b)
		longModel(r)
		status, text := r.post(routeChat, chatWith(fmt.Sprintf(`%s,"tool_choice":"required","max_tokens":%d`, bothTool, most)))
		r.close()
		if strings.Contains(text, "<tool_call") {
			t.Errorf("at most %d tokens: markup in %s", most, text)
		}
		if status != 200 || !strings.Contains(text, `"finish_reason":"length"`) || strings.Contains(text, `"tool_calls":[]`) {
			t.Errorf("at most %d tokens: %d %s", most, status, text)
		}
	}
}

// The response cache keeps an answer's tokens; whether they are a call depends on the
// request, and so does where they end.
func TestCachedAnswersAreReadAgain(t *testing.T) {
	c := cacheConfig()
	b := &fakeBackend{script: say(parisCall+"\n"+romeCall, 0)}
	r := newRig(t, c, b)
	defer r.close()
	longModel(r)
	for i, tc := range []struct {
		fields string
		calls  int
		text   bool
		how    string
	}{
		{bothTool, 2, false, "miss"}, {bothTool, 2, false, "hit"},
		{bothTool + `,"parallel_tool_calls":false`, 1, false, "miss"}, {bothTool + `,"parallel_tool_calls":false`, 1, false, "hit"},
		{bothTool + `,"tool_choice":"none"`, 0, true, "miss"}, {bothTool, 2, false, "hit"},
	} {
		res, body := r.do("POST", routeChat, "", chatWith(tc.fields+`,"temperature":0`))
		var out struct {
			Choices []struct{ Message messageFields }
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			t.Fatal(err)
		}
		m := out.Choices[0].Message
		if how := res.Header.Get("X-Weir-Cache"); len(m.Calls) != tc.calls || (m.Content != nil) != tc.text || how != tc.how {
			t.Errorf("%d: %s: %s", i, how, body)
		}
	}
}

// A repetition under an idempotency key gets the same calls with the same ids, though ids
// are drawn.
func TestRepetitionsHaveTheSameIDs(t *testing.T) {
	b := &fakeBackend{script: say(parisCall, 0)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	longModel(r)
	for _, fields := range []string{bothTool, bothTool + `,"stream":true`} {
		ask := func() string {
			_, body := r.do("POST", routeChat, fmt.Sprintf("Idempotency-Key: \"key-%d\"\r\n", len(fields)), chatWith(fields))
			return body
		}
		if first, again := ask(), ask(); first != again || !strings.Contains(first, `"id":"call_`) {
			t.Errorf("first %s\nagain %s", first, again)
		}
	}
	if b.executions() != 2 {
		t.Errorf("%d executions", b.executions())
	}
}

// What is kept of an answer has its thought, its text and its calls, in their order.
func TestKeptTextsHaveThoughtsAndCalls(t *testing.T) {
	c, ended := consenting(t, true)
	b := &fakeBackend{script: say("Hm.</think>Let me see.\n"+parisCall, 0)}
	r := newRig(t, c, b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, thinkTemplate)); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []func(string) *answered{r.ask, r.stream} {
		ask(chatWith(bothTool))
		if texts := ended(); texts == nil || len(texts.Answers) != 1 || texts.Answers[0] != `Hm.Let me see.get_weather {"city": "Paris"}` {
			t.Errorf("kept %+v", texts)
		}
	}
}
