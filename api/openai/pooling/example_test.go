package pooling_test

import (
	"fmt"

	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/tokenizer"
)

// A request for embeddings says which texts are read, and then writes its answer from the vectors of the model.
func Example() {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	m := &models.Model{ID: "minilm", MaxModelLen: 512, Tokenizer: tok, Pooler: &models.Pooler{Dimensions: 4}}
	o, fault := job.ReadBody([]byte(`{"model": "minilm", "input": ["A weir", "Water"], "dimensions": 2}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	r, fault := pooling.Rules{}.ReadEmbedding(o, m)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(r.Texts, r.Tokens(), "tokens")
	r.Model = m                                        // the version that answers
	vectors := [][]float32{{3, 4, 0, 0}, {0, 2, 1, 0}} // what the model gives
	fmt.Println(string(r.Answer.AppendAnswer(nil, r, vectors)))
	// Output:
	// [[35 314] [57 259 282]] 5 tokens
	// {"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6,0.8]},{"object":"embedding","index":1,"embedding":[0,1]}],"model":"minilm","usage":{"prompt_tokens":5,"total_tokens":5}}
}
