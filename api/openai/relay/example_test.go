package relay_test

import (
	"fmt"

	"weir/api/openai/jsonbody"
	"weir/api/openai/relay"
)

// A request goes to an upstream as it came, without the name that the model has here.
func ExampleWithoutModel() {
	o, fault := jsonbody.Parse([]byte(`{"model":"llama","messages":[{"role":"user","content":"What is a weir?"}],"seed":1,"deadline_ms":5000}`), false)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	body, prompt := relay.WithoutModel(o)
	fmt.Println(string(body))
	for _, part := range prompt {
		fmt.Printf("%s: %s\n", part.Kind, part.Text)
	}
	// Output:
	// {"messages":[{"role":"user","content":"What is a weir?"}],"seed":1}
	// messages: [{"role":"user","content":"What is a weir?"}]
}

// The chunks of an upstream's chat become deltas, which an encoder writes in the form of another API.
func ExampleChatReader() {
	var r relay.ChatReader
	for _, chunk := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":"A low"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":" dam."},"finish_reason":"stop"}]}`,
	} {
		d, err := r.Read([]byte(chunk))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q, finish reason %q\n", d.Content, d.Finish)
	}
	// Output:
	// "A low", finish reason ""
	// " dam.", finish reason "stop"
}
