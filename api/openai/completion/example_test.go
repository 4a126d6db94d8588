package completion_test

import (
	"fmt"

	"weir/api/openai/answer"
	"weir/api/openai/completion"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/internal/inference"
)

// One answer of one token, as a stream of chunks.
func ExampleNewChatEncoder() {
	j := &job.Job{Name: "chatcmpl-1", Created: 1_772_366_400, Model: &models.Model{ID: "llama"}, Params: &params.Params{Stream: true, N: 1}}
	e := completion.NewChatEncoder(j)
	events := e.AppendDelta(nil, &answer.Delta{First: true, Content: []byte("Water.")})
	events = e.AppendDelta(events, &answer.Delta{Finish: inference.FinishStop})
	events = e.AppendEnd(events, answer.Usage{Prompt: 12, Output: 1})
	fmt.Print(string(events))
	// Output:
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772366400,"model":"llama","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"Water."},"logprobs":null,"finish_reason":null}]}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1772366400,"model":"llama","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}
	//
	// data: [DONE]
}
