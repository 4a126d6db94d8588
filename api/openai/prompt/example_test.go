package prompt_test

import (
	"fmt"

	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/prompt"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/tokenizer"
)

// Two texts are two prompts; a client that tokenises by itself sends ids.
func Example() {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	r := prompt.Reader{Field: "prompt", Most: 2, TooMany: "in one request", Model: &models.Model{Tokenizer: tok}, Notes: new(jsonbody.Notes)}
	for _, field := range []string{`["A weir", "Water"]`, `[65, 66]`, `["a", "b", "c"]`} {
		prompts, fault := r.All([]byte(field))
		if fault != nil {
			fmt.Println(fault.Message)
		}
		for _, p := range prompts {
			fmt.Printf("%q %v\n", p.Text, p.IDs)
		}
	}
	// Output:
	// "A weir" [35 314]
	// "Water" [57 259 282]
	// "_`" [65 66]
	// prompt has more than 2 values in one request
}
