package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// fusedMatMul multiplies matrices that are transposed where the node says so, and scales
// the product.
func fusedMatMul(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	alpha := n.float("alpha", 1)
	turn := [2]bool{n.integer("transA", 0) != 0, n.integer("transB", 0) != 0}
	if n.integer("transBatchA", 0) != 0 || n.integer("transBatchB", 0) != 0 {
		return nil, fmt.Errorf("transBatchA and transBatchB are not supported; %s", wayOut)
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		factors := [2]*tensor.Tensor{c.in(0), c.in(1)}
		for i, t := range factors {
			if turn[i] && len(t.Shape) > 1 {
				factors[i] = turnedStack(t)
			}
		}
		if err := stacks(c, factors[0], factors[1], multiply32); err != nil || alpha == 1 {
			return err
		}
		out := tensor.Values[float32](c.output(0))
		for i := range out {
			out[i] *= alpha
		}
		return nil
	}, n.oneOf(0, tensor.Float32)
}

// turnedStack is a stack of matrices, each transposed.
func turnedStack(t *tensor.Tensor) *tensor.Tensor {
	rank := len(t.Shape)
	rows, columns := int(t.Shape[rank-2]), int(t.Shape[rank-1])
	shape := append(append([]int64(nil), t.Shape[:rank-2]...), t.Shape[rank-1], t.Shape[rank-2])
	from := tensor.Values[float32](t)
	to := make([]float32, 0, len(from))
	for at := 0; at < len(from); at += rows * columns {
		to = append(to, transposed(from[at:at+rows*columns], rows, columns)...)
	}
	turned := tensor.Of("", tensor.Float32, shape, to)
	return &turned
}

// fusedGemm is Gemm with an activation after it.
func fusedGemm(n *node) (kernel, error) {
	name := n.str("activation", "")
	a, ok := activations[name]
	if !ok {
		return nil, fmt.Errorf("activation %q is not supported; %s", name, wayOut)
	}
	p, q := float64(n.float("activation_alpha", a.by[0])), float64(n.float("activation_beta", a.by[1]))
	if name == "Selu" {
		q = float64(n.float("activation_gamma", a.by[1]))
	}
	if err := n.oneOf(0, tensor.Float32); err != nil {
		return nil, err
	}
	run, err := gemm(n)
	return func(c *call) error {
		if err := run(c); err != nil {
			return err
		}
		out := tensor.Values[float32](c.output(0))
		for i, x := range out {
			out[i] = float32(a.of(float64(x), p, q))
		}
		return nil
	}, err
}
