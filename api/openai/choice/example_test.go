package choice_test

import (
	"fmt"

	"weir/api/openai/answer"
	"weir/api/openai/choice"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/stop"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/tokenizer"
)

// Tokens come one by one, and text leaves once no stop string can cut it any more.
func Example() {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	j := &job.Job{
		Model: &models.Model{ID: "llama", Tokenizer: tok}, Prompts: make([]job.Prompt, 1),
		Params: &params.Params{N: 1, Stops: stop.NewSet([]string{" rises"}, false)},
	}
	var pieces []string
	c := choice.New(j, &choice.Source{}, 0)
	for _, id := range tok.AppendEncode(nil, "A weir raises water. It rises.", tokenizer.EncodeOptions{}) {
		complete := c.Token(inference.Event{Kind: inference.EventToken, Token: id})
		var d answer.Delta
		for c.Next(&d) {
			pieces = append(pieces, string(d.Content))
		}
		if complete {
			break
		}
	}
	fmt.Printf("%q\n%v %q\n", pieces, c.Finish, c.Stopped.Text)
	// Output:
	// ["A" " weir" " ra" "is" "es" " w" "at" "er" "." " It" ""]
	// stop " rises"
}
