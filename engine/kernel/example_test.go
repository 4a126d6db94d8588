package kernel_test

import (
	"fmt"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// Two rows of activations are normed and multiplied with a matrix that doubles the first value and adds up all.
func Example() {
	cpu := kernel.NewCPU(2, isa.Best())
	defer cpu.Close()
	rows := [][]float32{{2, 0, 0, 0}, {1, 1, 1, 1}}
	w, err := weight.NewMatrix(gguf.TypeF32, 2, 4, vector.Bytes([]float32{2, 0, 0, 0, 1, 1, 1, 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	x, out := append(rows[0], rows[1]...), make([]float32, 4)
	norm := weight.Norm{Weight: []float32{1, 1, 1, 1}} // x / sqrt(mean(x*x))
	cpu.Norm(x, x, norm, 2)
	cpu.MatMul(out, w, x, 2, nil)
	fmt.Println(out[:2], out[2:])
	// Output:
	// [4 2] [2 4]
}
