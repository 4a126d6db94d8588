package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// lengthCases are requests to a model with a context of 256 tokens; a chat of
// one "hi" has chatTokens of them, a letter of a completion one.
const chatTokens = 14

// What is asked for and what fits decide together how long an answer may be.
func TestLengthsAreCutToWhatFits(t *testing.T) {
	letters := func(n int) string { return `{"prompt":"` + strings.Repeat("x", n) + `"` }
	for _, tc := range []struct {
		path, body string
		want       int
		warning    string
	}{
		{routeChat, chatWith(`"max_tokens":-1`), 256 - chatTokens, ""},
		{routeChat, chatWith(`"max_tokens":null`), 256 - chatTokens, ""},
		{routeChat, chatWith(`"max_tokens":1000`), 256 - chatTokens, "max_tokens 1000 cut to 242; the context has 256"},
		{routeChat, chatWith(`"max_completion_tokens":1000,"max_tokens":1000`), 256 - chatTokens, "max_tokens 1000 cut to 242; the context has 256"},
		{routeChat, chatWith(`"max_tokens":1000,"min_tokens":1000`), 256 - chatTokens, "max_tokens 1000 cut to 242; the context has 256"},
		{routeChat, chatWith(`"n_predict":5`), 5, ""},
		{routeCompletions, letters(250) + `}`, 6, ""}, // no client asked for the default of 16
		{routeCompletions, letters(250) + `,"max_tokens":-1}`, 6, ""},
		{routeCompletions, letters(10) + `,"n_predict":-1}`, 246, ""},
		{routeCompletions, letters(10) + `,"max_completion_tokens":7}`, 7, ""},
		{routeCompletions, letters(250) + `,"max_tokens":7}`, 6, "max_tokens 7 cut to 6; the context has 256"},
		{routeCompletions, letters(250) + `,"max_tokens":6}`, 6, ""},
		{routeCompletions, letters(256) + `,"max_tokens":0,"echo":true}`, 0, ""},
	} {
		b := &fakeBackend{}
		r := newRig(t, DefaultConfig(), b)
		res, body := r.do(http.MethodPost, tc.path, "", tc.body)
		r.close()
		if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != tc.warning {
			t.Errorf("%s %.80s…%.60s: %d, warnings %q, want %q: %s", tc.path, tc.body, tail(tc.body), res.StatusCode, got, tc.warning, body)
			continue
		}
		if q := b.runs[0].req; q.MaxTokens != tc.want || q.MinTokens > q.MaxTokens {
			t.Errorf("%s %s: %d tokens at most, %d at least; want %d", tc.path, tail(tc.body), q.MaxTokens, q.MinTokens, tc.want)
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-60):] }

// Prompts of one request are cut each to its own room.
func TestEachPromptHasItsOwnRoom(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	status, body := r.post(routeCompletions, `{"prompt":["`+strings.Repeat("x", 250)+`","x"],"max_tokens":100}`)
	if status != 200 {
		t.Fatal(status, body)
	}
	if a, z := b.runs[0].req, b.runs[1].req; a.MaxTokens != 6 || z.MaxTokens != 100 {
		t.Errorf("%d and %d tokens, want 6 and 100", a.MaxTokens, z.MaxTokens)
	}
}

// A context that overflows is told in the words that clients look for.
func TestContextOverflowIsToldAsClientsExpect(t *testing.T) {
	strict := DefaultConfig()
	strict.Strict = true
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		c           Config
		path, body  string
		param, want string
	}{
		{DefaultConfig(), routeChat, message(`{"role":"user","content":"` + long + `"}`), "messages", overflow(256, 312, 1, "messages")},
		{DefaultConfig(), routeChat, `{"max_tokens":9,` + message(`{"role":"user","content":"` + long + `"}`)[1:], "messages", overflow(256, 312, 9, "messages")},
		{DefaultConfig(), routeCompletions, `{"prompt":"` + long + `"}`, "prompt", overflow(256, 300, 1, "prompt")},
		{DefaultConfig(), routeCompletions, `{"prompt":["a","` + long[:256] + `"],"max_tokens":16}`, "prompt", overflow(256, 256, 16, "prompt")},
		{DefaultConfig(), routeCompletions, `{"prompt":"` + long + `","max_tokens":0,"echo":true}`, "prompt", overflow(256, 300, 0, "prompt")},
		{strict, routeChat, chatWith(`"max_tokens":250`), "messages", overflow(256, chatTokens, 250, "messages")},
		{strict, routeCompletions, `{"prompt":["a","` + long[:250] + `"],"max_tokens":7}`, "prompt", overflow(256, 250, 7, "prompt")},
	} {
		r := newRig(t, tc.c, &fakeBackend{})
		status, body := r.post(tc.path, tc.body)
		r.close()
		param, code, text := parseError(t, body)
		if status != 400 || param != tc.param || code != "context_length_exceeded" || text != tc.want {
			t.Errorf("%s %s: %d, param %q, code %q\n got %s\nwant %s", tc.path, tail(tc.body), status, param, code, text, tc.want)
		}
	}
}

func overflow(limit, prompt, output int, part string) string {
	return fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
		"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}

func TestWrongLengthsAreRefused(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, tc := range []struct{ path, body, param string }{
		{routeChat, chatWith(`"max_tokens":0`), "max_tokens"},
		{routeChat, chatWith(`"max_completion_tokens":0`), "max_completion_tokens"},
		{routeChat, chatWith(`"max_tokens":-2`), "max_tokens"},
		{routeChat, chatWith(`"max_tokens":3,"n_predict":4`), "n_predict"},
		{routeChat, chatWith(`"min_tokens":4,"max_tokens":3`), "min_tokens"},
		{routeChat, chatWith(`"min_tokens":250`), "min_tokens"},
		{routeCompletions, textWith(`"max_tokens":0`), "max_tokens"},
		{routeCompletions, textWith(`"min_tokens":17`), "min_tokens"},
	} {
		status, body := r.post(tc.path, tc.body)
		if param, code, text := parseError(t, body); status != 400 || param != tc.param || code != "invalid_value" {
			t.Errorf("%s %s: %d %q %q %s", tc.path, tc.body, status, param, code, text)
		}
	}
}

// A prompt may be cut to its end before it is weighed against the context.
func TestPromptsAreTruncatedAtTheirBeginning(t *testing.T) {
	for _, tc := range []struct {
		path, body string
		tokens     int    // that stay
		last       string // text of a completion's prompt
	}{
		{routeCompletions, `{"prompt":"abcdef","truncate_prompt_tokens":2,"echo":true,"max_tokens":1}`, 2, "ef"},
		{routeCompletions, `{"prompt":"abcdef","truncate_prompt_tokens":2,"truncation_side":"right","echo":true,"max_tokens":1}`, 2, "ab"},
		{routeCompletions, `{"prompt":"abcdef","truncate_prompt_tokens":100}`, 6, "abcdef"},
		{routeCompletions, `{"prompt":[97,98,99],"truncate_prompt_tokens":1}`, 1, ""},
		{routeCompletions, `{"prompt":["abc","d"],"truncate_prompt_tokens":1}`, 1, "c"},
		{routeCompletions, `{"prompt":"` + strings.Repeat("x", 300) + `","truncate_prompt_tokens":-1}`, 256 - 16, ""},
		{routeCompletions, `{"prompt":"` + strings.Repeat("x", 300) + `","truncate_prompt_tokens":-1,"max_tokens":56}`, 200, ""},
		{routeCompletions, `{"prompt":"` + strings.Repeat("x", 300) + `","truncate_prompt_tokens":-1,"max_tokens":5000}`, 1, ""},
		{routeCompletions, `{"prompt":"` + strings.Repeat("x", 300) + `","truncate_prompt_tokens":null,"max_tokens":1}`, 0, ""},
		{routeChat, `{"truncate_prompt_tokens":-1,` + message(`{"role":"user","content":"` + strings.Repeat("x", 300) + `"}`)[1:], 255, ""},
		{routeChat, chatWith(`"truncate_prompt_tokens":5`), 5, ""},
	} {
		b := &fakeBackend{}
		r := newRig(t, DefaultConfig(), b)
		status, body := r.post(tc.path, tc.body)
		r.close()
		if tc.tokens == 0 {
			if _, code, _ := parseError(t, body); status != 400 || code != "context_length_exceeded" {
				t.Errorf("%s: %d %s", tail(tc.body), status, body)
			}
			continue
		}
		if status != 200 {
			t.Errorf("%s: %d %s", tail(tc.body), status, body)
			continue
		}
		q := b.runs[0].req
		if len(q.Prompt) != tc.tokens {
			t.Errorf("%s: %d tokens stay, want %d", tail(tc.body), len(q.Prompt), tc.tokens)
		}
		if cap(q.Prompt) > 2*tc.tokens && len(q.Prompt) < strings.Count(tc.body, "x") {
			t.Errorf("%s: what was cut away is kept, %d tokens", tail(tc.body), cap(q.Prompt))
		}
		if tc.last != "" && b.tok.Decode(q.Prompt, false) != tc.last {
			t.Errorf("%s: %q stays, want %q", tail(tc.body), b.tok.Decode(q.Prompt, false), tc.last)
		}
		if strings.Contains(tc.body, `"echo":true`) && !strings.Contains(body, `"text":"`+tc.last) {
			t.Errorf("%s: the echo is not the prompt that was used: %s", tail(tc.body), body)
		}
	}
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, value := range []string{"0", "-2", "257", `"1"`} {
		status, body := r.post(routeCompletions, textWith(`"truncate_prompt_tokens":`+value))
		if param, _, _ := parseError(t, body); status != 400 || param != "truncate_prompt_tokens" {
			t.Errorf("truncate_prompt_tokens %s: %d %s", value, status, body)
		}
	}
}
