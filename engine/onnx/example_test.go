package onnx_test

import (
	"fmt"
	"os"

	"weir/engine/onnx"
	"weir/internal/tensor"
)

// A linear regression of scikit-learn's, as skl2onnx has written it, takes rows of any number.
func Example() {
	file, err := os.ReadFile("testdata/linear.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := onnx.Load(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close() }()
	fmt.Println(m.Inputs(), m.Outputs())

	rows := tensor.Of("X", tensor.Float32, []int64{2, 6}, []float32{0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6})
	out, err := m.Run([]tensor.Tensor{rows})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %.3f\n", out[0].Name, tensor.Values[float32](&out[0]))
	// Output:
	// [{X FP32 [-1 6]}] [{variable FP32 [-1 1]}]
	// variable [-0.040 -3.333]
}
