package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/edge"
	"weir/api/moderation"
	"weir/internal/inference"
	"weir/tokenizer"
)

func testPolicy(t testing.TB, rules ...moderation.RuleSpec) *moderation.Policy {
	t.Helper()
	p, err := moderation.New(moderation.Spec{Name: "house", Rules: rules}, moderation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	bombRule = moderation.RuleSpec{ID: "bombs", Category: "violence", Words: []string{"pipe bomb"}, Input: moderation.Block, Output: moderation.Block}
	mailRule = moderation.RuleSpec{ID: "mail", PII: []string{"email"}, Input: moderation.Flag, Output: moderation.Redact}
)

// moderatedRig is a rig whose model has a policy, and what its hooks are told.
type moderatedRig struct {
	*rig
	mu       sync.Mutex
	finished []edge.RequestFinish
	refused  []edge.Refusal
}

func newModeratedRig(t testing.TB, b *fakeBackend, rules ...moderation.RuleSpec) *moderatedRig {
	t.Helper()
	m := &moderatedRig{}
	c := DefaultConfig()
	c.ResponseCache.Bytes = 1 << 20
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.finished = append(m.finished, f)
	}
	c.Hooks.OnRefused = func(r edge.Refusal) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.refused = append(m.refused, r)
	}
	m.rig = newRig(t, c, b)
	entry := testModel(t, b)
	entry.Policy = testPolicy(t, rules...)
	if err := m.openai.SetModels(entry); err != nil {
		t.Fatal(err)
	}
	return m
}

func chatBody(content, more string) string {
	return fmt.Sprintf(`{"model":"test-model","messages":[{"role":"user","content":%s}]%s}`, content, more)
}

func TestInputIsRefusedBeforeAdmission(t *testing.T) {
	b := &fakeBackend{}
	r := newModeratedRig(t, b, bombRule, mailRule)
	defer r.close()
	for _, c := range []struct{ name, path, body, param string }{
		{"chat", routeChat, chatBody(`"a pipe  bomb"`, ""), "messages[0]"},
		{"parts", routeChat, chatBody(`[{"type":"text","text":"a pipe"},{"type":"text","text":" bomb"}]`, ""), "messages[0]"},
		{"parts on lines", routeChat, chatBody(`[{"type":"text","text":"a pipe"},{"type":"text","text":"bomb"}]`, ""), "messages[0]"},
		{"tool", routeChat, `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"a","content":"pipe bomb"}]}`, "messages[2]"},
		{"completion", routeCompletions, `{"prompt":["x","a pipe bomb"]}`, "prompt[1]"},
		{"tokens", routeCompletions, tokensBody(t, "a pipe bomb"), "prompt"},
		{"response", routeResponses, `{"input":"a pipe bomb"}`, "input"},
		{"response items", routeResponses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"a pipe bomb"}]}]}`, "input[0]"},
		{"message", routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"a pipe bomb"}]}]}`, ""},
	} {
		status, text := r.post(c.path, c.body)
		if status != http.StatusBadRequest || strings.Contains(text, "pipe") {
			t.Errorf("%s: %d %s", c.name, status, text)
			continue
		}
		var got struct {
			Error struct {
				Message, Code, Param string
				Result               map[string]map[string]bool `json:"content_filter_result"`
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || !strings.Contains(got.Error.Message, `rule "bombs" (violence)`) {
			t.Errorf("%s: %v %s", c.name, err, text)
		}
		if c.path != routeMessages && (got.Error.Code != "content_policy_violation" || got.Error.Param != c.param || !got.Error.Result["violence"]["filtered"]) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	if n := len(b.runs); n != 0 {
		t.Errorf("%d requests reached the engine", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.refused {
		if f.Moderation == nil || f.Moderation.Model != "test-model" || f.Moderation.Report.Blocked().Rule != "bombs" {
			t.Errorf("a refusal without its finding: %+v", f)
		}
	}
	if len(r.refused) != 9 || len(r.finished) != 0 {
		t.Errorf("%d refusals and %d ends", len(r.refused), len(r.finished))
	}
}

func tokensBody(t *testing.T, text string) string {
	t.Helper()
	var ids []int32
	for _, b := range []byte(text) {
		ids = append(ids, mustTokenizer(t).AppendEncode(nil, string(b), tokenizer.EncodeOptions{})...)
	}
	raw, err := json.Marshal(map[string]any{"prompt": ids})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// What an assistant or the system says is not read unless the policy names these roles.
func TestInputOfOtherRolesPasses(t *testing.T) {
	r := newModeratedRig(t, &fakeBackend{}, bombRule)
	defer r.close()
	body := `{"messages":[{"role":"system","content":"never speak of a pipe bomb"},{"role":"assistant","content":"a pipe bomb"},{"role":"user","content":"x"}]}`
	if status, text := r.post(routeChat, body); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// events are the data of a stream's events.
func dataOf(stream string) (list []map[string]any) {
	for line := range strings.Lines(stream) {
		var e map[string]any
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
			list = append(list, e)
		}
	}
	return list
}

func TestOutputIsBlockedInEveryShape(t *testing.T) {
	const said = "Write to ann@example.org, then build a pipe bomb at home, slowly and with care"
	for _, stream := range []bool{false, true} {
		b := &fakeBackend{script: say(said, 0)}
		r := newModeratedRig(t, b, bombRule, mailRule)
		more := fmt.Sprintf(`,"max_tokens":200,"stream":%v`, stream)
		for i, c := range []struct {
			path, body string
			want       []string
		}{
			{routeChat, chatBody(`"x"`, more+`,"temperature":0`), []string{`"finish_reason":"content_filter"`}},
			{routeChat, chatBody(`"x"`, more+`,"temperature":0`), []string{`"finish_reason":"content_filter"`}}, // the response cache keeps none of it
			{routeCompletions, `{"prompt":"x"` + more + `}`, []string{`"finish_reason":"content_filter"`}},
			{routeResponses, fmt.Sprintf(`{"input":"x","max_output_tokens":200,"stream":%v}`, stream), []string{`"status":"incomplete"`, `"incomplete_details":{"reason":"content_filter"}`}},
			{routeMessages, `{"messages":[{"role":"user","content":"x"}]` + more + `}`, []string{`"stop_reason":"refusal"`}},
		} {
			status, text := r.post(c.path, c.body)
			if status != http.StatusOK || strings.Contains(text, "ann@") || strings.Contains(text, "pipe") || !strings.Contains(joinedText(t, c.path, stream, text), "Write to [email], then build a ") {
				t.Errorf("%s, stream %v: %d %s", c.path, stream, status, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s, stream %v: no %s in %s", c.path, stream, want, text)
				}
			}
			run := b.run(t, i)
			if !run.wasCancelled(0) {
				t.Errorf("%s, stream %v: the engine's choice was not cancelled", c.path, stream)
			}
		}
		r.close()
		r.mu.Lock()
		for _, f := range r.finished {
			if len(f.Reasons) != 1 || f.Reasons[0] != inference.FinishFiltered || f.Status != http.StatusOK || f.OutputTokens == 0 ||
				f.Moderated == nil || len(f.Moderated.Findings) != 2 || f.Moderated.Findings[0].Action != moderation.Redact {
				t.Errorf("stream %v: %+v %+v", stream, f, f.Moderated)
			}
		}
		if len(r.finished) != 5 {
			t.Errorf("%d ends", len(r.finished))
		}
		r.mu.Unlock()
	}
}

// joinedText is what a client reads of an answer.
func joinedText(t *testing.T, path string, stream bool, text string) string {
	t.Helper()
	if !stream {
		return text
	}
	var b strings.Builder
	for _, e := range dataOf(text) {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct {
				Text  string
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Choices {
			b.WriteString(c.Text + c.Delta.Content)
		}
		var piece string
		var block struct{ Text string }
		switch {
		case json.Unmarshal(d.Delta, &piece) == nil:
			b.WriteString(piece)
		case json.Unmarshal(d.Delta, &block) == nil:
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// Text that no rule can match passes with the token that brings it.
func TestOutputIsHeldBackOnlyWhereARuleMayMatch(t *testing.T) {
	b := &fakeBackend{script: func(r *fakeRun) {
		r.say("Hello world", 0)
	}}
	r := newModeratedRig(t, b, bombRule)
	defer r.close()
	plain := newRig(t, DefaultConfig(), &fakeBackend{script: say("Hello world", 0)})
	defer plain.close()
	body := chatBody(`"x"`, `,"stream":true`)
	_, with := r.post(routeChat, body)
	_, without := plain.post(routeChat, body)
	if n, m := len(dataOf(with)), len(dataOf(without)); n != m {
		t.Errorf("%d events with a policy and %d without:\n%s\n%s", n, m, with, without)
	}
}

func TestTokensOfModeratedAnswersAreRefused(t *testing.T) {
	r := newModeratedRig(t, &fakeBackend{}, mailRule)
	defer r.close()
	for _, more := range []string{`,"logprobs":true`, `,"return_token_ids":true`} {
		if status, text := r.post(routeChat, chatBody(`"x"`, more)); status != http.StatusBadRequest || !strings.Contains(text, "unsupported_parameter") {
			t.Errorf("%s: %d %s", more, status, text)
		}
	}
}

// A stop string ends an answer that a policy reads, too, and what is held back is told at the end.
func TestStopStringsAndPolicies(t *testing.T) {
	b := &fakeBackend{script: say("one stop two", time.Millisecond)}
	r := newModeratedRig(t, b, bombRule)
	defer r.close()
	if _, text := r.post(routeChat, chatBody(`"x"`, `,"stop":["stop"],"max_tokens":50`)); !strings.Contains(text, `"content":"one "`) || !strings.Contains(text, `"finish_reason":"stop"`) {
		t.Error(text)
	}
	b.script = say("a pipe", 0)
	for _, stream := range []string{"false", "true"} {
		_, text := r.post(routeCompletions, `{"prompt":"x","max_tokens":50,"stream":`+stream+`}`)
		if got := joinedText(t, routeCompletions, stream == "true", text); !strings.Contains(got, "a pipe") {
			t.Errorf("stream %s: %s", stream, text)
		}
	}
}

func TestModerations(t *testing.T) {
	r := newModeratedRig(t, &fakeBackend{}, bombRule, mailRule)
	defer r.close()
	for _, c := range []struct {
		body string
		want []bool
	}{
		{`{"input":"a pipe bomb"}`, []bool{true}},
		{`{"input":"hello","model":"test-model"}`, []bool{false}},
		{`{"input":["hello","a pipe bomb","ann@example.org"],"model":"omni-moderation-latest"}`, []bool{false, true, true}},
		{`{"input":[{"type":"text","text":"a pipe"},{"type":"text","text":"bomb"}],"model":"house"}`, []bool{true}},
	} {
		status, text := r.post(routeModerations, c.body)
		var got struct {
			ID, Model string
			Results   []moderationJSON
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || !strings.HasPrefix(got.ID, "modr-") || len(got.Results) != len(c.want) {
			t.Errorf("%s: %d %s", c.body, status, text)
			continue
		}
		for i, res := range got.Results {
			if res.Flagged != c.want[i] || len(res.Categories) != 14 || len(res.Scores) != 14 || len(res.Types) != 14 || res.Types["violence"][0] != "text" || len(res.Types["hate"]) != 0 {
				t.Errorf("%s: result %d is %+v", c.body, i, res)
			}
		}
	}
	for body, code := range map[string]string{
		`{}`:                           "missing_required_parameter",
		`{"input":3}`:                  "invalid_type",
		`{"input":[]}`:                 "invalid_value",
		`{"input":["a",{}]}`:           "invalid_type",
		`{"input":"a","model":"what"}`: "model_not_found",
		`{"input":[{"type":"image_url","image_url":{"url":"x"}}]}`: "unsupported_parameter",
	} {
		if _, text := r.post(routeModerations, body); !strings.Contains(text, `"`+code+`"`) {
			t.Errorf("%s: %s", body, text)
		}
	}
	plain := newRig(t, DefaultConfig(), &fakeBackend{})
	defer plain.close()
	if status, text := plain.post(routeModerations, `{"input":"a"}`); status != http.StatusNotFound || !strings.Contains(text, `"no_policy"`) {
		t.Errorf("%d %s", status, text)
	}
}
