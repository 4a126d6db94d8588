package responses_test

import (
	"fmt"

	"weir/api/openai/job"
	"weir/api/openai/responses"
)

// A request of Responses becomes a chat, which is then read as any other.
func ExampleTranslate() {
	o, fault := job.ReadBody([]byte(`{"model": "llama", "max_output_tokens": 40, "instructions": "Be short.", "input": "What is a weir?",
		"tools": [{"type": "function", "name": "depth", "parameters": {"type": "object"}}]}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w, fault := responses.Translate(o)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w.Finish(o.Object)
	fmt.Println(string(w.Chat.AppendJSON(nil)))
	// Output: {"tools":[{"type":"function","function":{"name":"depth","parameters":{"type": "object"}}}],"max_output_tokens":40,"messages":[{"role":"system","content":"Be short."},{"role":"user","content":"What is a weir?"}],"model":"llama"}
}
