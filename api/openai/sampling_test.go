package openai

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/inference"
	"weir/tokenizer"
)

// Masks reach the backend as token ids.
func TestMasksReachTheBackend(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	id := func(text string) inference.TokenID {
		return b.tok.AppendEncode(nil, text, tokenizer.EncodeOptions{})[0]
	}
	space := id(" ")
	for i, tc := range []struct {
		fields  string
		words   [][]inference.TokenID
		allowed []inference.TokenID
	}{
		{`"bad_words":null,"allowed_token_ids":null`, nil, nil},
		{`"bad_words":[]`, nil, nil},
		{`"bad_words":["x"]`, [][]inference.TokenID{{id("x")}, {space, id("x")}}, nil},
		{`"bad_words":["world","the"]`, [][]inference.TokenID{
			b.tok.AppendEncode(nil, "world", tokenizer.EncodeOptions{}), {id(" world")}, b.tok.AppendEncode(nil, "the", tokenizer.EncodeOptions{}), {id(" the")}}, nil},
		{`"bad_words":["  x","x"]`, [][]inference.TokenID{{id("x")}, {space, id("x")}}, nil},
		{`"bad_words":[" "]`, [][]inference.TokenID{{space}}, nil},
		{`"bad_words":["<|im_end|>"]`, [][]inference.TokenID{
			b.tok.AppendEncode(nil, "<|im_end|>", tokenizer.EncodeOptions{}), b.tok.AppendEncode(nil, " <|im_end|>", tokenizer.EncodeOptions{})}, nil},
		{`"allowed_token_ids":[7,8,7]`, nil, []inference.TokenID{7, 8, 7}},
	} {
		status, body := r.post(routeChat, chatWith(tc.fields))
		if status != 200 {
			t.Fatal(tc.fields, status, body)
		}
		s := b.runs[i].req.Sampling
		if !slices.EqualFunc(s.BadWords, tc.words, slices.Equal) || !slices.Equal(s.AllowedTokens, tc.allowed) {
			t.Errorf("%s: bad words %v, allowed %v; want %v, %v", tc.fields, s.BadWords, s.AllowedTokens, tc.words, tc.allowed)
		}
	}
	for _, tc := range []struct{ fields, param string }{
		{`"bad_words":"x"`, "bad_words"},
		{`"bad_words":[1]`, "bad_words[0]"},
		{`"bad_words":["a",""]`, "bad_words[1]"},
		{`"bad_words":["` + strings.Repeat("x", 2000) + `"]`, "bad_words[0]"},
		{`"bad_words":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 2000), ",") + `]`, "bad_words"},
		{`"allowed_token_ids":[]`, "allowed_token_ids"},
		{`"allowed_token_ids":[99999]`, "allowed_token_ids[0]"},
		{`"allowed_token_ids":"1"`, "allowed_token_ids"},
	} {
		status, body := r.post(routeCompletions, textWith(tc.fields))
		if status != 400 {
			t.Errorf("%s: %d %s", tc.fields, status, body)
			continue
		}
		if param, _, text := parseError(t, body); param != tc.param {
			t.Errorf("%.80s: param %q: %s", tc.fields, param, text)
		}
	}
}

func TestPrioritiesAreClasses(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	for i, tc := range []struct {
		value string
		want  inference.Class
	}{
		{"null", inference.Default}, {"0", inference.Default}, {"-1", inference.Interactive}, {"-9e15", inference.Interactive},
		{"1", inference.Batch}, {"100.0", inference.Batch},
	} {
		status, body := r.post(routeChat, chatWith(`"priority":`+tc.value))
		if status != 200 {
			t.Fatal(tc.value, status, body)
		}
		if got := b.runs[i].req.Class; got != tc.want {
			t.Errorf("priority %s is class %d, want %d", tc.value, got, tc.want)
		}
	}
	for _, value := range []string{`"high"`, "1.5", "true"} {
		status, body := r.post(routeChat, chatWith(`"priority":`+value))
		if param, code, _ := parseError(t, body); status != 400 || param != "priority" || code != "invalid_type" {
			t.Errorf("priority %s: %d %s", value, status, body)
		}
	}
}

// llama-server's name of the repetition penalty.
func TestRepeatPenalty(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	for i, fields := range []string{`"repeat_penalty":1.25`, `"repeat_penalty":1.25,"repetition_penalty":1.25`, `"repeat_penalty":null,"repetition_penalty":1.25`} {
		if status, body := r.post(routeChat, chatWith(fields)); status != 200 {
			t.Fatal(fields, status, body)
		}
		if got := b.runs[i].req.Sampling.RepetitionPenalty; got != 1.25 {
			t.Errorf("%s: %g", fields, got)
		}
	}
	for fields, param := range map[string]string{
		`"repeat_penalty":0`:                            "repeat_penalty",
		`"repeat_penalty":1.2,"repetition_penalty":1.1`: "repeat_penalty",
	} {
		status, body := r.post(routeChat, chatWith(fields))
		if got, code, _ := parseError(t, body); status != 400 || got != param || code != "invalid_value" {
			t.Errorf("%s: %d %s", fields, status, body)
		}
	}
}
