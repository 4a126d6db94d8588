package openai

import (
	"slices"
	"strings"
	"testing"

	"weir/tokenizer"
)

// newFillInRig is a rig whose model has tokens for filling in the middle, and a beginning token.
func newFillInRig(t *testing.T, b *fakeBackend) *rig {
	t.Helper()
	r := newRig(t, DefaultConfig(), b)
	tok, err := newTokenizer(true, "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
	if err != nil {
		t.Fatal(err)
	}
	b.tok = tok
	if err := r.openai.SetModels(testModel(t, b)); err != nil {
		t.Fatal(err)
	}
	return r
}

// The model reads what llama.cpp's /infill gives it, and stops at the tokens that a prompt has, whatever else is asked for.
func TestSuffixFillsInTheMiddle(t *testing.T) {
	b := &fakeBackend{script: say("one two", 0)}
	r := newFillInRig(t, b)
	defer r.close()
	plain := func(text string) []int32 { return b.tok.AppendEncode(nil, text, tokenizer.EncodeOptions{}) }
	f, _ := b.tok.FillIn()
	bos, _ := b.tok.BOS()
	middle := slices.Concat([]int32{f.Suffix}, plain(" tail <|fim_middle|>"), []int32{f.Middle})
	head := append([]int32{bos, f.Prefix}, plain("head <|fim_suffix|>")...)
	for _, c := range []struct {
		fields  string
		prompts [][]int32
		stops   []int32
	}{
		{`"prompt":"head <|fim_suffix|>"`, [][]int32{slices.Concat(head, middle)}, []int32{f.Prefix, f.Suffix, f.Middle}},
		{`"prompt":"","n":2,"logprobs":1`, [][]int32{slices.Concat([]int32{bos, f.Prefix}, middle)}, []int32{f.Prefix, f.Suffix, f.Middle}},
		{`"prompt":["head <|fim_suffix|>","head <|fim_suffix|>"],"add_special_tokens":false,"parse_special":true,"stop_token_ids":[7]`,
			[][]int32{slices.Concat(head[1:], middle), slices.Concat(head[1:], middle)}, []int32{7, f.Prefix, f.Suffix, f.Middle}},
		{`"prompt":"head <|fim_suffix|>","ignore_eos":true,"stream":true`, [][]int32{slices.Concat(head, middle)}, nil},
	} {
		b.mu.Lock()
		b.runs = nil
		b.mu.Unlock()
		status, answer := r.post(routeCompletions, `{`+c.fields+`,"suffix":" tail <|fim_middle|>"}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", c.fields, status, answer)
		}
		b.mu.Lock()
		if len(b.runs) != len(c.prompts) {
			t.Fatalf("%s: %d requests", c.fields, len(b.runs))
		}
		for i, run := range b.runs {
			if !slices.Equal(run.req.Prompt, c.prompts[i]) || !slices.Equal(run.req.StopTokens, c.stops) {
				t.Errorf("%s: prompt %v, stops %v, want %v, %v", c.fields, run.req.Prompt, run.req.StopTokens, c.prompts[i], c.stops)
			}
		}
		b.mu.Unlock()
	}
}

func TestSuffixRefusesWhatItCannotGoWith(t *testing.T) {
	r := newFillInRig(t, &fakeBackend{})
	defer r.close()
	for _, c := range []struct{ fields, param, code string }{
		{`"prompt":"a","echo":true`, `"echo"`, "invalid_value"},
		{`"prompt":"a","truncate_prompt_tokens":8`, `"truncate_prompt_tokens"`, "invalid_value"},
		{`"prompt":[65,66]`, `"prompt"`, "invalid_type"},
		{`"prompt":[[65,66]]`, `"prompt[0]"`, "invalid_type"},
	} {
		status, answer := r.post(routeCompletions, `{`+c.fields+`,"suffix":"b"}`)
		if status != 400 || !strings.Contains(answer, `"param":`+c.param) || !strings.Contains(answer, c.code) {
			t.Errorf("%s: %d %s", c.fields, status, answer)
		}
		if status, answer = r.post(routeCompletions, `{`+c.fields+`,"suffix":""}`); status != 200 {
			t.Errorf("%s and no suffix: %d %s", c.fields, status, answer)
		}
	}
}
