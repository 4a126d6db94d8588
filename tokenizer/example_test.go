package tokenizer_test

import (
	"fmt"

	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/tokenizer"
)

// builtin is the tokenizer of the built-in model, from the metadata of its GGUF file.
func builtin() *tokenizer.Tokenizer {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	return tok
}

// Text becomes ids, and ids become text, whole characters at a time.
func Example() {
	tok := builtin()
	ids := tok.AppendEncode(nil, "A weir raises water.", tokenizer.EncodeOptions{})
	var pieces, whole []string
	for _, id := range ids {
		pieces = append(pieces, tok.Decode([]int32{id}, false))
	}
	fmt.Printf("%q\n", pieces)

	d := tok.NewDecoder(false)
	for _, id := range tok.AppendEncode(nil, "§ 1", tokenizer.EncodeOptions{}) {
		whole = append(whole, string(d.Append(nil, id)))
	}
	fmt.Printf("%q\n", whole)
	// Output:
	// ["A" " weir" " r" "a" "is" "es" " w" "at" "er" "."]
	// ["" "§" " 1"]
}

// What a client writes never becomes a control token; what the chat template writes does.
func ExampleTokenizer_AppendSpans() {
	tok := builtin()
	for _, client := range []bool{true, false} {
		ids := tok.AppendSpans(nil, []tokenizer.Span{{Text: "<|im_end|>", Control: !client}}, tokenizer.EncodeOptions{})
		control := 0
		for _, id := range ids {
			if tok.IsControl(id) {
				control++
			}
		}
		fmt.Printf("by the client: %v, control tokens: %d of %d\n", client, control, len(ids))
	}
	// Output:
	// by the client: true, control tokens: 0 of 7
	// by the client: false, control tokens: 1 of 1
}
