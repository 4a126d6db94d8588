package weight_test

import (
	"fmt"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/weight"
)

// A matrix of two outputs by 32 inputs, as a file has it in Q8_0, is multiplied with a row.
func Example() {
	ones, rising := make([]float32, 32), make([]float32, 32)
	for i := range 32 {
		ones[i], rising[i] = 1, float32(i)
	}
	file := make([]byte, 2*34) // a block of 32 values has 34 bytes
	weight.QuantizeQ8_0(file[:34], ones)
	weight.QuantizeQ8_0(file[34:], rising)
	w, err := weight.NewMatrix(gguf.TypeQ8_0, 2, 32, file)
	if err != nil {
		fmt.Println(err)
		return
	}
	x, out := make([]float32, 32), make([]float32, 2)
	x[0], x[31] = 1, 1
	weight.NewMultiplier(pool.Alone(), isa.Best()).Products(x, 1, weight.Norm{}, weight.Product{Dst: out, W: w})
	fmt.Printf("%.2f\n", out)
	// Output:
	// [2.00 31.01]
}
