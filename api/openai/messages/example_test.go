package messages_test

import (
	"fmt"

	"weir/api/openai/job"
	"weir/api/openai/messages"
)

// A request of Anthropic's API becomes a chat, which is then read as any other.
func ExampleTranslate() {
	o, fault := job.ReadBody([]byte(`{"model": "llama", "max_tokens": 40, "system": "Be short.", "stop_sequences": ["END"],
		"messages": [{"role": "user", "content": [{"type": "text", "text": "What is a weir?"}]}]}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w, fault := messages.Translate(o)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w.Finish(o.Object)
	fmt.Println(string(w.Chat.AppendJSON(nil)))
	// Output: {"enable_thinking":false,"stop":["END"],"max_tokens":40,"messages":[{"role":"system","content":"Be short."},{"role":"user","content":[{"type":"text","text":"What is a weir?"}]}],"model":"llama"}
}
