package job_test

import (
	"fmt"

	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/internal/inference"
)

// A limit beyond what the prompt leaves of the context is cut, with a warning; a prompt that leaves no room is refused.
func Example() {
	m := &models.Model{ID: "llama", MaxModelLen: 8}
	for _, tokens := range []int{3, 8} {
		j := &job.Job{
			Model: m, Params: &params.Params{N: 1, MaxTokens: 40, LengthName: "max_tokens", Notes: new(jsonbody.Notes)},
			Prompts: []job.Prompt{{IDs: make([]inference.TokenID, tokens)}},
		}
		if fault := j.LimitOutput("prompt", 16); fault != nil {
			fmt.Println(fault.Code, fault.Message)
			continue
		}
		fmt.Println(j.Room(0), j.Params.Notes.Header())
	}
	// Output:
	// 5 max_tokens 40 cut to 5; the context has 8
	// context_length_exceeded This model's maximum context length is 8 tokens. However, you requested 48 tokens (8 in the prompt, 40 in the completion). Please reduce the length of the prompt or completion.
}

// A body is checked and taken apart once.
func ExampleReadBody() {
	o, fault := job.ReadBody([]byte(`{"model": "llama", "store": true, "previous_response_id": "resp_1"}`), false)
	fmt.Println(len(o.Fields), o.Has("store"), fault == nil)
	_, fault = job.ReadBody([]byte(`{"model": "llama", "model": "gpt-4o"}`), false)
	fmt.Println(fault.Code, fault.Message)
	// Output:
	// 3 true true
	// duplicate_parameter "model" is given twice; which one counts is not defined
}
