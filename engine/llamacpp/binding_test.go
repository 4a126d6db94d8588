//go:build llamacpp

package llamacpp

import (
	"context"
	"os"
	"strings"
	"testing"

	"weir/internal/inference"
	"weir/internal/reference"
)

// The real library answers, where a model that it knows is named.
func TestRealLibrary(t *testing.T) {
	path := os.Getenv("WEIR_TEST_LLAMACPP_MODEL")
	if path == "" {
		reference.Missing(t, "llamacpp", "no model for llama.cpp: WEIR_TEST_LLAMACPP_MODEL is not set")
	}
	pieces := []string{""} // ids of pieces in the order in which they come
	vocabulary := Vocabulary{
		Text: func([]inference.TokenID) string { return "The capital of France is" },
		Tokens: func(piece string) []inference.TokenID {
			pieces = append(pieces, piece)
			return []inference.TokenID{inference.TokenID(len(pieces) - 1)}
		},
	}
	e, err := Open(path, Options{Threads: 2, MaxModelLen: 512, Vocabulary: vocabulary})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	r := request("a", "12345", 16)
	r.Sampling.Temperature = 0
	var answers []string
	for range 2 {
		pieces = pieces[:1]
		_, reason, err := read(submit(t, e, r))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, strings.Join(pieces, ""))
		t.Logf("%q, %v", answers[len(answers)-1], reason)
	}
	if answers[0] == "" || answers[0] != answers[1] {
		t.Errorf("greedy answers are %q", answers)
	}
}
