package logprob_test

import (
	"fmt"

	"weir/api/openai/answer"
	"weir/api/openai/logprob"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/tokenizer"
)

// A token and its alternatives, as chat completions and as completions show them.
func Example() {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	ids := tok.AppendEncode(nil, "A weir", tokenizer.EncodeOptions{})
	sampled := answer.TokenRecord{ID: ids[1], Logprob: -0.25}
	names := logprob.Names{Tokenizer: tok}
	fmt.Printf("%s\n", names.AppendRecords(nil, []answer.TokenRecord{sampled}))
	fmt.Printf("%s\n", names.AppendTopOf(nil, &sampled))
	// Output:
	// {"token":" weir","logprob":-0.25,"bytes":[32,119,101,105,114],"top_logprobs":[]}
	// {" weir":-0.25}
}
