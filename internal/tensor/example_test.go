package tensor_test

import (
	"fmt"

	"weir/internal/tensor"
)

// A request's input is two rows of three numbers; the model asks for any number of rows of three.
func Example() {
	x := tensor.Of("x", tensor.Float32, []int64{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	fmt.Println(x.Rows(), "rows,", len(x.Data), "bytes of", x.Type)

	takes := tensor.Spec{Name: "x", Type: tensor.Float32, Shape: []int64{tensor.Any, 3}}
	fmt.Println(takes.Fits(&x))
	fmt.Println(tensor.Values[float32](&x))

	takes.Shape[1] = 4
	fmt.Println(takes.Fits(&x))
	// Output:
	// 2 rows, 24 bytes of FP32
	// <nil>
	// [1 2 3 4 5 6]
	// input "x" has shape [2 3]; the model takes [-1 4], where -1 is any size
}
