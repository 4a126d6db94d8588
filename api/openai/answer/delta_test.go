package answer_test

import (
	"fmt"
	"testing"

	"weir/api/openai/answer"
	"weir/internal/inference"
)

// An encoder tells from a call's parts where its calls begin.
func ExampleCallPart() {
	d := answer.Delta{Calls: []answer.CallPart{
		{Index: 0, ID: "call_1", Name: "weather", Arguments: []byte(`{"city":`)},
		{Index: 0, Arguments: []byte(`"Oslo"}`)},
		{Index: 1, ID: "call_2", Name: "shell", Custom: true, Arguments: []byte("ls")},
	}}
	for _, p := range d.Calls {
		if p.Begins() {
			fmt.Println(p.Kind(), p.Name)
		}
		fmt.Printf("%d: %s\n", p.Index, p.Arguments)
	}
	// Output:
	// function weather
	// 0: {"city":
	// 0: "Oslo"}
	// custom shell
	// 1: ls
}

// TestIsEmpty: a delta is sent for what a client reads in it. That it is the first of its choice, that the choice ends, and what it used, an
// encoder tells by itself.
func TestIsEmpty(t *testing.T) {
	for name, d := range map[string]answer.Delta{
		"content":  {Content: []byte("x")},
		"thought":  {Reasoning: []byte("x")},
		"calls":    {Calls: make([]answer.CallPart, 1)},
		"logprobs": {Tokens: make([]answer.TokenRecord, 1)},
	} {
		if d.IsEmpty() {
			t.Errorf("a delta with %s is empty", name)
		}
	}
	for name, d := range map[string]answer.Delta{
		"nothing":                            {},
		"the end":                            {Finish: inference.FinishStop, Stopped: answer.StopReason{Text: "x"}, Called: true},
		"the first, of a choice, with usage": {First: true, Choice: 1, Prompt: 2, Usage: answer.Usage{Prompt: 3}},
	} {
		if !d.IsEmpty() {
			t.Errorf("a delta with %s is not empty", name)
		}
	}
}
