//go:build llamacpp

package local

import (
	"testing"

	"weir/configs"
	"weir/engine/llamacpp"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/tokenizer"
)

// llama.cpp and weir's own engine continue a text alike, greedily: the same prompt reaches both, and the ids of the answer are found.
func TestLlamaCppAnswersAsTheEngine(t *testing.T) {
	if !llamacpp.Linked {
		t.Fatal("a build with the tag has no llama.cpp")
	}
	path := reference.Path(t, "testdata/stories/stories260K.gguf")
	answer := func(engine string) (ids []inference.TokenID, reason inference.FinishReason, text string) {
		c := configs.Default()
		c.Model.Path, c.Model.Engine, c.Engine.Threads = path, engine, 1
		f, err := OpenRunnable(c)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := Load(c, f, Hooks{Progress: func(int64, int64) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		prompt := m.Tokenizer.AppendSpans(nil, []tokenizer.Span{{Text: "Once upon a time"}}, tokenizer.EncodeOptions{AddSpecial: true})
		s := inference.DefaultSampling()
		s.Temperature = 0
		stream, err := m.Submit(&inference.Request{ID: "a", Prompt: prompt, MaxTokens: 40, N: 1, PromptLogprobs: -1, Sampling: s})
		if err != nil {
			t.Fatal(err)
		}
		events := make([]inference.Event, 64)
		for {
			n, done, err := stream.Poll(events)
			for _, e := range events[:n] {
				if e.Kind == inference.EventToken {
					ids = append(ids, e.Token)
				} else {
					reason = e.Finish
				}
			}
			if done {
				if err != nil {
					t.Fatal(err)
				}
				return ids, reason, m.Tokenizer.Decode(ids, false)
			}
			if n == 0 {
				<-stream.Wake()
			}
		}
	}
	want, wantReason, wantText := answer(configs.NativeEngine)
	got, reason, text := answer(configs.LlamaCppEngine)
	if len(got) != 40 || len(got) != len(want) || reason != wantReason || text != wantText {
		t.Errorf("llama.cpp: %d ids, %v, %q\nweir: %d ids, %v, %q", len(got), reason, text, len(want), wantReason, wantText)
	}
}
