package ollama_test

import (
	"fmt"

	"weir/api/openai/job"
	"weir/api/openai/ollama"
)

// A request of Ollama's API becomes a chat, which is then read as any other.
func ExampleTranslateChat() {
	o, fault := job.ReadBody([]byte(`{"model": "llama", "options": {"num_predict": 40, "stop": ["END"]}, "format": "json",
		"messages": [{"role": "user", "content": "What is a weir?"}]}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w, fault := ollama.TranslateChat(o)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	w.Finish(o.Object)
	fmt.Println(string(w.Chat.AppendJSON(nil)))
	// Output: {"stream":true,"response_format":{"type":"json_object"},"max_tokens":40,"stop":["END"],"messages":[{"role":"user","content":"What is a weir?"}]}
}
