package provider_test

import (
	"fmt"

	"weir/router/provider"
)

// A chat goes out in Anthropic's words, and the answer comes back as a chat completion.
func Example() {
	api := provider.Anthropic
	r, err := api.Request([]byte(`{"messages": [{"role": "user", "content": "What is a weir?"}], "max_tokens": 40, "seed": 1}`), "claude", provider.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(api.Path("claude", false))
	fmt.Println(string(r.Body), r.Ignored)

	whole, err := provider.Whole(api, []byte(`{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "A low dam."}],
		"stop_reason": "end_turn", "usage": {"input_tokens": 12, "output_tokens": 4}}`), provider.Identity{ID: "1", Model: "claude"})
	fmt.Println(string(whole), err)
	// Output:
	// /messages
	// {"model":"claude","max_tokens":40,"messages":[{"role":"user","content":[{"type":"text","text":"What is a weir?"}]}]} [seed]
	// {"choices":[{"finish_reason":"stop","index":0,"logprobs":null,"message":{"content":"A low dam.","role":"assistant"}}],"created":0,"id":"chatcmpl-1","model":"claude","object":"chat.completion","usage":{"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":16}} <nil>
}
