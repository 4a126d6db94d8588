package defaultmodel_test

import (
	"fmt"

	"weir/internal/defaultmodel"
)

// The model comes with what it answers, which serves as a test of whatever runs it.
func Example() {
	fmt.Printf("%q, %d bytes\n", defaultmodel.GGUF()[:4], defaultmodel.Reader().Size())
	for _, qa := range defaultmodel.Questions() {
		if qa.Topic == "arithmetic" || len(qa.Messages) > 1 {
			continue
		}
		fmt.Println(qa.Question())
		fmt.Println(qa.Answer)
		break
	}
	// Output:
	// "GGUF", 2046400 bytes
	// What is TTFT?
	// TTFT is the time to first token: how long a client waits from sending its request until the first token of the answer arrives.
}

// The tree model answers with a probability for each species.
func ExampleIris() {
	model, golden := defaultmodel.Iris()
	fmt.Println(len(model) > 0, len(golden) > 0, defaultmodel.IrisClasses())
	// Output:
	// true true [setosa versicolor virginica]
}
