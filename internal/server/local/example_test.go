package local_test

import (
	"fmt"

	"weir/configs"
	"weir/internal/inference"
	"weir/internal/server/local"
)

// The built-in model answers a chat without a server.
func Example() {
	c := configs.Default()
	f, err := local.Open("") // the path of a GGUF file, or the model in the binary
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close() // it was only read
	m, err := local.Load(c, f, local.Hooks{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close() // the process ends
	prompt, err := m.Render([]local.Message{{Role: "user", Content: "What is TTFT?"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	sampling := inference.DefaultSampling()
	sampling.Temperature = 0 // the likeliest tokens
	s, err := m.Submit(&inference.Request{ID: "1", Prompt: prompt, MaxTokens: 60, N: 1, PromptLogprobs: -1, Sampling: sampling})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ids []inference.TokenID
	events := make([]inference.Event, 16)
	for {
		n, done, err := s.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken {
				ids = append(ids, e.Token)
			}
		}
		if done {
			fmt.Println(m.Tokenizer.Decode(ids, false), err)
			return
		}
		if n == 0 {
			<-s.Wake()
		}
	}
	// Output: TTFT is the time to first token: how long a client waits from sending its request until the first token of the answer arrives. <nil>
}
