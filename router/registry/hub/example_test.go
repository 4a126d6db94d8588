package hub_test

import (
	"fmt"

	"weir/router/registry/hub"
)

// A name says where its files lie, and what the models folder calls them.
func ExampleHub_Parse() {
	h := hub.New(func(string) string { return "" })
	for _, name := range []string{"hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "llama3.2:1b", "https://example.com/models/chat.gguf", "a b"} {
		s, err := h.Parse(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(s.Name, "from", s.Repository+s.Reference+s.URL)
	}
	// Output:
	// hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M from bartowski/Llama-3.2-1B-Instruct-GGUF
	// llama3.2:1b from registry.ollama.ai/library/llama3.2:1b
	// chat:latest from https://example.com/models/chat.gguf
	// not a name that can be pulled: "a b" has the part "a b"; give hf.co/ORG/REPO:QUANTISATION, HOST/NAME:TAG, NAME:TAG of Ollama's registry, or a URL
}
