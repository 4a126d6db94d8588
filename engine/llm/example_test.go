package llm_test

import (
	"context"
	"fmt"
	"slices"

	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/tokenizer"
)

// A model is opened, asked once and closed. The engine takes token ids and gives them; text is the tokenizer's.
func Example() {
	f, err := gguf.Parse(defaultmodel.Reader(), defaultmodel.Reader().Size()) // gguf.Open, for a path
	if err != nil {
		fmt.Println(err)
		return
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := llm.Open(f, llm.Options{Threads: 1, MaxModelLen: 512, KVBytes: 4 << 20, EndTokens: tok.EOG()}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := []tokenizer.Span{{Text: "<|im_start|>user\nWhat is TTFT?<|im_end|>\n<|im_start|>assistant\n", Control: true}}
	sampling := inference.DefaultSampling()
	sampling.Temperature = 0
	stream, err := e.Submit(&inference.Request{
		Tenant: "acme", Class: inference.Interactive,
		Prompt: tok.AppendSpans(nil, prompt, tokenizer.EncodeOptions{}), MaxTokens: 64, N: 1, PromptLogprobs: -1, Sampling: sampling,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var answer []int32
	events := make([]inference.Event, 16)
	for done := false; !done; {
		<-stream.Wake()
		var n int
		n, done, err = stream.Poll(events)
		for _, event := range events[:n] {
			if event.Kind == inference.EventToken {
				answer = append(answer, event.Token)
			}
		}
	}
	fmt.Println(tok.Decode(answer, false), err)
	fmt.Println(e.Close(context.Background()))
	// Output:
	// TTFT is the time to first token: how long a client waits from sending its request until the first token of the answer arrives. <nil>
	// <nil>
}

// A file is judged without reading its weights.
func ExampleDescribe() {
	f, err := gguf.Parse(defaultmodel.Reader(), defaultmodel.Reader().Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	i, err := llm.Describe(f, llm.Options{KVBlocks: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(i.Architecture, i.Layers, "layers,", i.Params, "parameters, context of", i.ContextLength)
	// Output:
	// llama 4 layers, 1875648 parameters, context of 1024
}

// A scorer tells how likely a text is to a model: here, how many of its tokens would be the model's own.
func ExampleScorer() {
	f, err := gguf.Parse(defaultmodel.Reader(), defaultmodel.Reader().Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := llm.OpenScorer(f, llm.Options{Threads: 1, MaxModelLen: 64}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := tok.AppendEncode(nil, "TTFT is the time to first token: how long a client waits.", tokenizer.EncodeOptions{})
	right := 0
	err = s.Score(tokens, 0, func(position int, logits []float32) {
		if position+1 < len(tokens) && logits[tokens[position+1]] == slices.Max(logits) {
			right++
		}
	})
	fmt.Println(right, "of", len(tokens)-1, err)
	fmt.Println(s.Close())
	// Output:
	// 13 of 15 <nil>
	// <nil>
}
