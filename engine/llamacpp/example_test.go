package llamacpp_test

import (
	"context"
	"fmt"

	"weir/engine/llamacpp"
	"weir/internal/inference"
)

// A build with the tag llamacpp opens a file of an architecture that the native engine does not know. The caller's tokenizer gives
// the vocabulary's two functions; here each token is a rune.
func Example() {
	e, err := llamacpp.Open("/models/falcon.gguf", llamacpp.Options{Threads: 4, Vocabulary: llamacpp.Vocabulary{
		Text:   func(ids []inference.TokenID) string { return string(ids) },
		Tokens: func(piece string) []inference.TokenID { return []rune(piece) },
	}})
	if err != nil {
		fmt.Println(err) // of a build without llama.cpp, see Linked
		return
	}
	streams, err := e.SubmitAll([]*inference.Request{{
		Prompt: []rune("What is TTFT?"), MaxTokens: 64, N: 1, PromptLogprobs: -1, Sampling: inference.DefaultSampling(),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-streams[0].Wake() // see inference.Stream
	fmt.Println(e.Close(context.Background()))
}
