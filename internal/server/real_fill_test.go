package server_test

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"weir/internal/server/servertest"
)

// realFill is a gap in a program, the prompt that llama.cpp makes of it, and the 16 tokens that it fills it with, greedily.
type realFill struct {
	Prompt, Suffix string
	Tokens         []int32
	Answer         string
}

// A real model reads the prompt that llama.cpp gives it, and fills in the middle as there.
func testRealModelFills(t *testing.T, m realModel, s *servertest.Server) {
	if m.fills == 0 {
		t.Skip("it has no tokens for it")
	}
	raw, err := os.ReadFile("testdata/" + m.name + "/fills.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []realFill
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	same := 0
	bodies := make([][]byte, len(list))
	var all sync.WaitGroup
	for i, f := range list {
		all.Go(func() {
			r := s.Post("/v1/completions", jsonText(map[string]any{
				"prompt": f.Prompt, "suffix": f.Suffix, "temperature": 0, "max_tokens": realModelTokens, "return_token_ids": true,
			}))
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			bodies[i] = body
		})
	}
	all.Wait()
	for i, f := range list {
		var answer struct {
			Choices []struct {
				Text   string
				Prompt []int32 `json:"prompt_token_ids"`
			}
		}
		if err := json.Unmarshal(bodies[i], &answer); err != nil || len(answer.Choices) != 1 {
			t.Fatalf("%q: %v %s", f.Prompt, err, bodies[i])
		}
		got := answer.Choices[0]
		if !slices.Equal(got.Prompt, f.Tokens) {
			t.Errorf("%q: the prompt is %v, and llama.cpp's %v", f.Prompt, got.Prompt, f.Tokens)
		}
		if got.Text == f.Answer {
			same++
		} else {
			t.Logf("%q: %q, llama.cpp says %q", f.Prompt, got.Text, f.Answer)
		}
	}
	t.Logf("%d of %d middles are llama.cpp's", same, len(list))
	if same < m.fills {
		t.Errorf("%d of %d middles are llama.cpp's, want at least %d", same, len(list), m.fills)
	}
}
