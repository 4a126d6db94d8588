package inference_test

import (
	"errors"
	"fmt"

	"weir/internal/inference"
)

// An engine pushes what happens to a request; the connection's goroutine polls it.
func ExampleStream() {
	s := inference.NewStream(16, func(choice int) { fmt.Println("cancel choice", choice) })
	s.Push(inference.Event{Kind: inference.EventToken, Token: 1042})
	s.Push(inference.Event{Kind: inference.EventToken, Token: 7})
	s.Push(inference.Event{Kind: inference.EventFinish, Finish: inference.FinishLength})
	s.Close(nil)

	events := make([]inference.Event, 8)
	for range s.Wake() {
		n, done, err := s.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken {
				fmt.Println("token", e.Token)
			} else {
				fmt.Println("choice", e.Choice, "ended:", e.Finish)
			}
		}
		if done {
			fmt.Println("the request ended:", err)
			break
		}
	}
	// Output:
	// token 1042
	// token 7
	// choice 0 ended: length
	// the request ended: <nil>
}

// A refusal says what is missing and the way out; its sentinel gives the HTTP status.
func ExampleLimitError() {
	err := error(&inference.LimitError{
		Err: inference.ErrContextLength, What: "prompt tokens + max_tokens", Need: 5000, Limit: 4096,
		Remedy: "shorten the prompt or raise --max-model-len",
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, inference.ErrContextLength))
	// Output:
	// context length exceeded: prompt tokens + max_tokens 5000, limit 4096; shorten the prompt or raise --max-model-len
	// true
}
