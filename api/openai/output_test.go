package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/tokenizer"
)

// vLLM's extensions of answers, which its clients and benchmarks read.

type usageFields struct {
	Prompt int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
	Total  int `json:"total_tokens"`
}

// outputFields are those of both endpoints, whole and as chunks.
type outputFields struct {
	ID      string
	Usage   *usageFields
	Choices []struct {
		Index      int
		Reason     *string          `json:"finish_reason"`
		StopReason *json.RawMessage `json:"stop_reason"`
		Prompt     json.RawMessage  `json:"prompt_logprobs"`
	}
	Prompt json.RawMessage `json:"prompt_logprobs"`
}

func (r *rig) whole(path, header, body string) outputFields {
	r.t.Helper()
	res, text := r.do("POST", path, header, body)
	if res.StatusCode != statusOK {
		r.t.Fatalf("%s %s: %d %s", path, body, res.StatusCode, text)
	}
	return decodeOutput(r.t, text)
}

func decodeOutput(t testing.TB, text string) (out outputFields) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

func (r *rig) chunks(path, body string) (list []outputFields) {
	r.t.Helper()
	res, text := r.do("POST", path, "", body)
	if res.StatusCode != statusOK {
		r.t.Fatalf("%s %s: %d %s", path, body, res.StatusCode, text)
	}
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			list = append(list, decodeOutput(r.t, data))
		}
	}
	return list
}

func TestContinuousUsageCountsInEveryChunk(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{script: say("one two three", 0)})
	defer r.close()
	for path, body := range map[string]string{
		routeChat:        `{"messages":[{"role":"user","content":"Hello"}],"n":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		routeCompletions: `{"prompt":["a","bcd"],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
	} {
		chunks := r.chunks(path, body)
		last := map[int]usageFields{}
		for _, c := range chunks[:len(chunks)-1] {
			if c.Usage == nil || len(c.Choices) != 1 {
				t.Fatalf("%s: a chunk without usage or choice: %+v", path, c)
			}
			before := last[c.Choices[0].Index]
			if u := *c.Usage; u.Prompt < 1 || u.Output < before.Output || u.Total != u.Prompt+u.Output {
				t.Errorf("%s: usage %+v after %+v", path, u, before)
			}
			last[c.Choices[0].Index] = *c.Usage
		}
		end := chunks[len(chunks)-1]
		if sum := last[0].Output + last[1].Output; len(end.Choices) != 0 || end.Usage.Output != sum || sum == 0 {
			t.Errorf("%s: the stream ends with %+v, its choices with %+v", path, end.Usage, last)
		}
	}
	for _, c := range r.chunks(routeChat, `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"continuous_usage_stats":true}}`) {
		if c.Usage != nil {
			t.Errorf("usage without include_usage: %+v", c.Usage)
		}
	}
}

func TestPromptLogprobs(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	type entry struct {
		Logprob float64
		Rank    *int
		Decoded string `json:"decoded_token"`
	}
	check := func(raw json.RawMessage, tokens, alternatives int) {
		t.Helper()
		var list []map[string]entry
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if len(list) != tokens || list[0] != nil {
			t.Fatalf("%d entries, the first %v; want %d, null", len(list), list[0], tokens)
		}
		for i, top := range list[1:] {
			if len(top) != max(1, alternatives) {
				t.Errorf("token %d has %d entries, want %d", i+1, len(top), max(1, alternatives))
			}
			for id, e := range top {
				if e.Logprob >= 0 || e.Decoded == "" || alternatives > 0 && e.Rank == nil {
					t.Errorf("token %d: %s is %+v", i+1, id, e)
				}
			}
		}
	}
	out := r.whole(routeCompletions, "", `{"prompt":[[65,66,67],[65,66]],"prompt_logprobs":2}`)
	check(out.Choices[0].Prompt, 3, 2)
	check(out.Choices[1].Prompt, 2, 2)
	out = r.whole(routeCompletions, "", `{"prompt":[65,66,67],"prompt_logprobs":0}`)
	check(out.Choices[0].Prompt, 3, 0)
	out = r.whole(routeChat, "", `{"messages":[{"role":"user","content":"Hello"}],"prompt_logprobs":1}`)
	check(out.Prompt, len(r.backend.run(t, 3).req.Prompt), 1)
	if out := r.whole(routeCompletions, "", `{"prompt":[65,66,67]}`); string(out.Choices[0].Prompt) != "null" {
		t.Errorf("prompt_logprobs unasked: %s", out.Choices[0].Prompt)
	}
	if status, text := r.post(routeCompletions, `{"prompt":[65,66],"prompt_logprobs":1,"stream":true}`); status != 400 || !strings.Contains(text, "stream") {
		t.Errorf("prompt_logprobs of a stream: %d %s", status, text)
	}
}

// More alternatives for prompt_logprobs are not shown in the echoed ones.
func TestPromptLogprobsBesideEcho(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	_, text := r.post(routeCompletions, `{"prompt":[65,66,67],"echo":true,"logprobs":1,"prompt_logprobs":3}`)
	var out struct {
		Choices []struct {
			Logprobs struct {
				Top []map[string]float64 `json:"top_logprobs"`
			}
			Prompt []map[string]any `json:"prompt_logprobs"`
		}
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	c := out.Choices[0]
	if len(c.Logprobs.Top) < 3 || len(c.Logprobs.Top[1]) != 1 || len(c.Prompt) != 3 || len(c.Prompt[1]) != 3 {
		t.Errorf("got %s", text)
	}
}

// A token's own entry comes first, with the logprob that token_logprobs has, and
// is there when no alternatives are asked for.
func TestCompletionTopLogprobsBeginWithTheToken(t *testing.T) {
	ids := mustTokenizer(t).AppendEncode(nil, "bc", tokenizer.EncodeOptions{})
	backend := &fakeBackend{script: func(r *fakeRun) {
		best := []inference.TokenLogprob{{ID: ids[1], Logprob: -0.125}, {ID: ids[0], Logprob: -2}}
		r.stream.Push(inference.Event{Kind: inference.EventToken, Token: ids[0], Logprob: -2, Top: best[:r.req.Sampling.Logprobs]})
		r.finish(0, inference.FinishLength)
		r.stream.Close(nil)
	}}
	r := newRig(t, DefaultConfig(), backend)
	defer r.close()
	for _, tc := range []struct{ asked, want string }{
		{"0", `[{"b":-2}]`}, {"1", `[{"b":-2,"c":-0.125}]`}, {"2", `[{"b":-2,"c":-0.125}]`},
	} {
		_, text := r.post(routeCompletions, `{"prompt":"x","logprobs":`+tc.asked+`}`)
		if !strings.Contains(text, `"top_logprobs":`+tc.want) {
			t.Errorf("logprobs %s: want %s in %s", tc.asked, tc.want, text)
		}
	}
}

// A template is the authority on control tokens; where it leaves out the beginning
// token that a model expects, a request can ask for it.
func TestBeginningTokenBeforeAChat(t *testing.T) {
	backend := &fakeBackend{}
	r := newRig(t, DefaultConfig(), backend)
	defer r.close()
	m := testModel(t, backend)
	var err error
	if m.Tokenizer, err = newTokenizer(true); err != nil {
		t.Fatal(err)
	}
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	bos, _ := m.Tokenizer.BOS()
	for i, field := range []string{"", `,"add_special_tokens":false`, `,"add_special_tokens":true`} {
		if status, text := r.post(routeChat, `{"messages":[{"role":"user","content":"Hello"}]`+field+`}`); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		if prompt := backend.run(t, i).req.Prompt; (prompt[0] == bos) != (i == 2) {
			t.Errorf("with %q the prompt begins with %v", field, prompt[:2])
		}
	}
}

// Evaluations score a prompt with echo, logprobs and one token, and drop the last
// entry: it must be there when that token ends the answer. A chat's entries are
// those of its text.
func TestEndTokenOfACompletionHasALogprob(t *testing.T) {
	tok := mustTokenizer(t)
	eos, _ := tok.EOS()
	backend := &fakeBackend{script: func(r *fakeRun) {
		if r.req.PromptLogprobs >= 0 {
			r.promptLogprobs()
		}
		r.token(0, 97)
		r.token(0, eos)
		r.finish(0, inference.FinishStop)
		r.stream.Close(nil)
	}}
	r := newRig(t, DefaultConfig(), backend)
	defer r.close()
	for body, want := range map[string]string{
		`{"prompt":[65,66],"logprobs":1,"echo":true}`:                                             `"text_offset":[0,1,2,3]}`,
		`{"prompt":[65,66],"logprobs":1}`:                                                         `"text_offset":[0,1]}`,
		`{"prompt":[65,66],"logprobs":1,"stream":true}`:                                           `"tokens":["<|im_end|>"],"token_logprobs":[-0.25],"top_logprobs":[{"<|im_end|>":-0.25}],"text_offset":[1]}`,
		`{"prompt":[65,66],"logprobs":1,"stop_token_ids":[97],"include_stop_str_in_output":true}`: `"text_offset":[0,1]}`,
		`{"prompt":[65,66],"logprobs":1,"stop":["zz"],"include_stop_str_in_output":true}`:         `"text_offset":[0,1]}`,
	} {
		if _, text := r.post(routeCompletions, body); strings.Count(text, want) != 1 {
			t.Errorf("%s: %s once in %s", body, want, text)
		}
	}
	if _, text := r.post(routeChat, `{"messages":[{"role":"user","content":"Hello"}],"logprobs":true}`); strings.Count(text, `"token":`) != 1 {
		t.Errorf("a chat's logprobs: %s", text)
	}
}

func TestStopReason(t *testing.T) {
	script := func(ids ...inference.TokenID) func(*fakeRun) {
		return func(r *fakeRun) {
			for _, id := range ids {
				r.token(0, id)
			}
			r.finish(0, inference.FinishStop)
			r.stream.Close(nil)
		}
	}
	eos, _ := mustTokenizer(t).EOS()
	for _, tc := range []struct {
		name, field string
		ids         []inference.TokenID
		want        string
	}{
		{"end token", `"stop":["x"]`, []inference.TokenID{65, eos}, "null"},
		{"stop token", `"stop_token_ids":[66]`, []inference.TokenID{65, 66}, "66"},
		{"stop token shown", `"stop_token_ids":[66],"include_stop_str_in_output":true`, []inference.TokenID{65, 66}, "66"},
		{"stop string", `"stop":["zz","bc"]`, []inference.TokenID{97, 98, 99}, `"bc"`}, // a b c
		{"longest stop string", `"stop":["c","bc"]`, []inference.TokenID{97, 98, 99}, `"bc"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &fakeBackend{script: script(tc.ids...)})
			defer r.close()
			out := r.whole(routeCompletions, "", `{"prompt":"Hello","max_tokens":9,`+tc.field+`}`)
			if c := out.Choices[0]; *c.Reason != "stop" || !isReason(c.StopReason, tc.want) {
				t.Errorf("completion: %+v, want %s", c, tc.want)
			}
			chunks := r.chunks(routeChat, `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":9,"stream":true,`+tc.field+`}`)
			if c := chunks[len(chunks)-1].Choices[0]; *c.Reason != "stop" || !isReason(c.StopReason, tc.want) {
				t.Errorf("chat's last chunk: %+v, want %s", c, tc.want)
			}
		})
	}
}

// isReason compares; encoding/json makes null a nil pointer.
func isReason(got *json.RawMessage, want string) bool {
	if got == nil {
		return want == "null"
	}
	return string(*got) == want
}

func TestRequestIDNamesTheAnswer(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	chat := `{"messages":[{"role":"user","content":"Hello"}],"request_id":"mine \"1\""}`
	if status, text := r.post(routeChat, chat); status != 400 || !strings.Contains(text, "request_id") {
		t.Errorf("an id with a space: %d %s", status, text)
	}
	for _, tc := range []struct{ path, header, field, id, header2 string }{
		{routeChat, "", `,"request_id":"a\"b"`, `chatcmpl-a"b`, `a"b`},
		{routeCompletions, "", `,"request_id":"one"`, "cmpl-one", "one"},
		{routeCompletions, "X-Request-Id: two\r\n", "", "cmpl-two", "two"},
		{routeCompletions, "X-Request-Id: three\r\n", `,"request_id":"one"`, "cmpl-three", "three"},
	} {
		body := `{"prompt":"Hello"` + tc.field + `}`
		if tc.path == routeChat {
			body = `{"messages":[{"role":"user","content":"Hello"}]` + tc.field + `}`
		}
		res, text := r.do("POST", tc.path, tc.header, body)
		if res.StatusCode != statusOK {
			t.Errorf("%+v: %s", tc, text)
			continue
		}
		if got := decodeOutput(t, text).ID; got != tc.id || res.Header.Get("X-Request-Id") != tc.header2 {
			t.Errorf("%+v: the answer is %q, the header %q", tc, got, res.Header.Get("X-Request-Id"))
		}
	}
	if a, b := r.backend.run(t, 0).req.ID, r.backend.run(t, 1).req.ID; strings.Contains(a, "a\"b") || a == b {
		t.Errorf("the backend got %q and %q; a client's ids are not unique", a, b)
	}
}

func TestTokensAsTokenIDs(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{script: say("abc", 0)})
	defer r.close()
	_, text := r.post(routeCompletions, `{"prompt":"Hello","logprobs":2,"return_tokens_as_token_ids":true}`)
	if !strings.Contains(text, `"tokens":["token_id:97","token_id:98","token_id:99",`) || !strings.Contains(text, `{"token_id:97":`) {
		t.Errorf("completion: %s", text)
	}
	_, text = r.post(routeChat, `{"messages":[{"role":"user","content":"Hello"}],"logprobs":true,"top_logprobs":1,"return_tokens_as_token_ids":true}`)
	if strings.Count(text, `"token":"token_id:97"`) != 2 || !strings.Contains(text, `"bytes":[97]`) {
		t.Errorf("chat: %s", text)
	}
}

// Choices are counted as requests: one call may hold so many, and a tenant so
// many at once.
func TestChoicesOfACallAreBounded(t *testing.T) {
	backend := &fakeBackend{refuse: func(r *inference.Request) error {
		if strings.HasSuffix(r.ID, "[2]") {
			return &inference.LimitError{Err: inference.ErrTenantQueueFull, What: "waiting requests of the tenant", Need: 3, Limit: 2, Remedy: "try again later"}
		}
		return nil
	}}
	r := newRig(t, DefaultConfig(), backend)
	defer r.close()
	prompts := strings.Repeat(`"a",`, 129)
	for _, body := range []string{
		`{"prompt":[` + prompts[:len(prompts)-1] + `]}`,
		`{"prompt":["a","b"],"n":65}`,
	} {
		status, text := r.post(routeCompletions, body)
		if status != 400 || !strings.Contains(text, "--max-choices") {
			t.Errorf("more than 128 choices: %d %s", status, text)
		}
	}
	res, text := r.do("POST", routeCompletions, "", `{"prompt":["a","b","c","d"]}`)
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" || !strings.Contains(text, "rate_limit") {
		t.Errorf("a tenant whose share of the queue is full: %d %v %s", res.StatusCode, res.Header, text)
	}
}

// Every refusal of the queue says whose doing it is and when to try again.
func TestRefusalsOfTheQueueSayWhenToRetry(t *testing.T) {
	var refusal error
	r := newRig(t, DefaultConfig(), &fakeBackend{refuse: func(*inference.Request) error { return refusal }})
	defer r.close()
	for _, tc := range []struct {
		err                    error
		status                 int
		code, after, ms, retry string
	}{
		{inference.ErrQueueTimeout, 503, "queue_timeout", "1", "1000", "true"},
		{inference.ErrShed, 503, "request_shed", "1", "1000", "true"},
		{inference.ErrDeadline, 408, "deadline_exceeded", "", "", "false"},
		{&inference.LimitError{Err: inference.ErrDeadlineUnreachable, RetryAfter: 2500 * time.Millisecond}, 429, "deadline_unreachable", "3", "2500", "false"},
		{&inference.LimitError{Err: inference.ErrQueueFull, RetryAfter: 70 * time.Millisecond}, 503, "server_is_overloaded", "1", "70", "true"},
		{&inference.LimitError{Err: inference.ErrQueueFull, RetryAfter: 61 * time.Second}, 503, "server_is_overloaded", "61", "61000", "false"},
		{&inference.LimitError{Err: inference.ErrQueueFull}, 503, "server_is_overloaded", "1", "1000", "true"},
	} {
		refusal = fmt.Errorf("submit: %w", tc.err)
		res, body := r.do("POST", routeCompletions, "", `{"prompt":"a"}`)
		_, code, _ := parseError(t, body)
		h := res.Header
		if res.StatusCode != tc.status || code != tc.code || h.Get("Retry-After") != tc.after ||
			h.Get("Retry-After-Ms") != tc.ms || h.Get("X-Should-Retry") != tc.retry || h.Get("X-Weir-Reason") != code {
			t.Errorf("%v: %d %s, headers %v", tc.err, res.StatusCode, code, h)
		}
	}
}

func TestWarningsComeWithStreams(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for path, body := range map[string]string{
		routeChat:        `{"messages":[{"role":"user","content":"Hello"}],"stream":true,"cache_prompt":true}`,
		routeCompletions: `{"prompt":"Hello","stream":true,"cache_prompt":true}`,
	} {
		res, _ := r.do("POST", path, "", body)
		if got := res.Header.Get("X-Weir-Warnings"); !strings.Contains(got, `"cache_prompt"`) {
			t.Errorf("%s: warnings %q", path, got)
		}
	}
}
