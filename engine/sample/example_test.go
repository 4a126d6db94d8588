package sample_test

import (
	"fmt"
	"math"

	"weir/engine/sample"
	"weir/internal/inference"
)

// A top-p of 0.9 leaves two of four tokens, and the same seed draws the same ones again.
func Example() {
	p := sample.Params{Sampling: inference.DefaultSampling()}
	p.Seed, p.TopP = 42, 0.9
	var w sample.Scratch
	probabilities := []float64{0.6, 0.35, 0.04, 0.01}
	for range 2 {
		s := sample.New(p, []inference.TokenID{1, 2, 3}) // the prompt
		var answer []inference.TokenID
		for range 10 {
			logits := make([]float32, len(probabilities)) // a model's
			for i, q := range probabilities {
				logits[i] = float32(math.Log(q))
			}
			id, err := s.Sample(logits, &w)
			if err != nil {
				fmt.Println(err)
				return
			}
			answer = append(answer, id)
		}
		fmt.Println(answer)
	}
	// Output:
	// [0 1 1 0 1 1 0 0 0 1]
	// [0 1 1 0 1 1 0 0 0 1]
}

// What is asked of some tokens alone is told of them, behind the one that was sampled.
func ExampleScratch_LogprobsOf() {
	var w sample.Scratch
	_, named := w.LogprobsOf([]float32{0, 1, 3, 3}, 2, []inference.TokenID{0, 2})
	for _, t := range named {
		fmt.Printf("%d %.2f\n", t.ID, t.Logprob)
	}
	// Output:
	// 2 -0.78
	// 0 -3.78
}

// A token's log-probability is that of the model, before biases and filters.
func ExampleScratch_Logprob() {
	var w sample.Scratch
	logprob, top := w.Logprob([]float32{0, 1, 3}, 1, 2)
	fmt.Printf("token 1: %.4f\n", logprob)
	for _, t := range top {
		fmt.Printf("token %d: %.4f\n", t.ID, t.Logprob)
	}
	// Output:
	// token 1: -2.1698
	// token 2: -0.1698
	// token 1: -2.1698
}
