package openai_test

import (
	"fmt"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/completion"
	"weir/api/openai/job"
	"weir/api/openai/llamaserver"
	"weir/api/openai/messages"
	"weir/api/openai/models"
	"weir/api/openai/ollama"
	"weir/api/openai/params"
	"weir/api/openai/responses"
	"weir/api/openai/translation"
	"weir/internal/inference"
)

// What an assistant said and called in a row is one message, as chat templates have it.
func Example_translation() {
	var m translation.Messages
	m.Instruct("system", "Be short.")
	m.Say("input[0]", "user", []byte(`"How deep is it?"`))
	m.Reply("input[1]", []byte(`"I look."`))
	m.AddCall("input[2]", "function", translation.Call{Place: "input[2]", ID: "call_1", Name: "depth", With: `{}`})
	m.Result("input[3]", "call_1", []byte(`"2 m"`))
	fmt.Println(string(m.End()))
	// Output: [{"role":"system","content":"Be short."},{"role":"user","content":"How deep is it?"},{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"depth","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"2 m"}]
}

// A request of Responses becomes a chat, which is then read as any other.
func Example_responses() {
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

// A request of Anthropic's API becomes a chat, which is then read as any other.
func Example_messages() {
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

// A request of Ollama's API becomes a chat, which is then read as any other.
func Example_ollama() {
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

// A request of llama.cpp's server is a completion with other names.
func Example_llamaserver() {
	read := func(o *job.Body, _ *models.Model) (*job.Job, *api.Error) {
		fmt.Println(string(o.AppendJSON(nil)))
		return nil, api.Refuse("model_not_found", "none in this example")
	}
	o, fault := job.ReadBody([]byte(`{"prompt":"Hi","n_predict":8,"n_probs":3,"seed":-1,"cache_prompt":true,"logit_bias":[[5,false]]}`), true)
	if fault == nil {
		_, fault = llamaserver.Read(read, o, &models.Model{})
	}
	fmt.Println(fault.Code)
	// Output:
	// {"prompt":"Hi","n_predict":8,"logprobs":3,"logit_bias":{"5":-100},"parse_special":true,"return_token_ids":true}
	// model_not_found
}

// One answer of one token, as a stream of chunks.
func Example_completion() {
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
