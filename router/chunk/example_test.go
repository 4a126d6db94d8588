package chunk_test

import (
	"fmt"

	"weir/router/chunk"
)

// What relaying a stream depends on is found in each event, whatever else stands in it.
func Example() {
	var r chunk.Reader
	for _, event := range []string{
		`{"model": "llama", "choices": [{"index": 0, "delta": {"content": "A weir"}, "finish_reason": null}]}`,
		`{"model": "llama", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}`,
		`<html>`,
	} {
		data := []byte(event)
		c := r.Read(data)
		if c == nil {
			fmt.Println("no JSON")
			continue
		}
		fmt.Printf("model %s, says something: %v, ended: %b, usage %q\n", c.Model.Of(data), c.Said(), c.Finished, c.Usage.Of(data))
		for _, t := range c.Texts {
			fmt.Printf("choice %d: %s\n", t.Choice, t.Of(data))
		}
	}
	// Output:
	// model "llama", says something: true, ended: 0, usage ""
	// choice 0: A weir
	// model "llama", says something: false, ended: 1, usage "{\"completion_tokens\": 2}"
	// no JSON
}
