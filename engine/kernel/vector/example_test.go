package vector_test

import (
	"fmt"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// A row of activations is normed, and of a row of scores the first three become weights.
func Example() {
	x, weight := []float32{3, 4, 0, 0}, []float32{1, 1, 1, 2}
	row := make([]float32, 4)
	vector.Norm(isa.Portable, row, x, weight, 0)
	fmt.Println(row)

	scores := []float32{0, 0, 0, 9}
	sums := make([]vector.Softmax, 1)
	vector.Weigh(isa.Portable, scores, 4, 4, []vector.Seen{{First: 0, N: 3}}, sums)
	fmt.Println(scores, "divided by", sums[0].Sum)
	// Output:
	// [1.2 1.6 0 0]
	// [1 1 1 0] divided by 3
}

// Half precision has eleven bits.
func ExampleF32ToF16() {
	h := vector.F32ToF16(1.0 / 3)
	fmt.Printf("%#04x is %v\n", h, vector.F16ToF32(h))
	// Output:
	// 0x3555 is 0.33325195
}
