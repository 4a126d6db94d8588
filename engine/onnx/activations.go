package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// activation is a function of one number with at most two parameters, which an
// operator has as attributes, and a recurrent or fused one in a list.
type activation struct {
	of          func(x, a, b float64) float64
	names       [2]string // of the attributes
	by          [2]float32
	recurrently bool // LSTM, GRU and RNN may name it
}

var activations = map[string]activation{
	"Relu":     {of: func(x, _, _ float64) float64 { return max(0, x) }, recurrently: true},
	"Tanh":     {of: func(x, _, _ float64) float64 { return math.Tanh(x) }, recurrently: true},
	"Sigmoid":  {of: func(x, _, _ float64) float64 { return sigmoid(x) }, recurrently: true},
	"Softsign": {of: func(x, _, _ float64) float64 { return softsign(x) }, recurrently: true},
	"Softplus": {of: func(x, _, _ float64) float64 { return vector.Softplus(x) }, recurrently: true},
	"LeakyRelu": {of: func(x, alpha, _ float64) float64 {
		if x >= 0 {
			return x
		}
		return alpha * x
	}, names: [2]string{"alpha"}, by: [2]float32{0.01}, recurrently: true},
	"Elu": {of: func(x, alpha, _ float64) float64 {
		if x >= 0 {
			return x
		}
		return alpha * math.Expm1(x)
	}, names: [2]string{"alpha"}, by: [2]float32{1}, recurrently: true},
	"Selu": {of: func(x, alpha, gamma float64) float64 {
		if x > 0 {
			return gamma * x
		}
		return gamma * alpha * math.Expm1(x)
	}, names: [2]string{"alpha", "gamma"}, by: [2]float32{1.67326324, 1.05070102}},
	"Celu": {of: func(x, alpha, _ float64) float64 {
		return max(0, x) + min(0, alpha*math.Expm1(x/alpha))
	}, names: [2]string{"alpha"}, by: [2]float32{1}},
	"HardSigmoid": {of: func(x, alpha, beta float64) float64 {
		return max(0, min(1, alpha*x+beta))
	}, names: [2]string{"alpha", "beta"}, by: [2]float32{0.2, 0.5}, recurrently: true},
	"ThresholdedRelu": {of: func(x, alpha, _ float64) float64 {
		if x > alpha || x != x {
			return x
		}
		return 0
	}, names: [2]string{"alpha"}, by: [2]float32{1}, recurrently: true},
	"Shrink": {of: func(x, bound, bias float64) float64 {
		switch {
		case x < -bound:
			return x + bias
		case x > bound:
			return x - bias
		}
		return 0
	}, names: [2]string{"lambd", "bias"}, by: [2]float32{0.5, 0}},
	"Swish": {of: func(x, alpha, _ float64) float64 {
		return x * sigmoid(alpha*x)
	}, names: [2]string{"alpha"}, by: [2]float32{1}},
	"QuickGelu": {of: func(x, alpha, _ float64) float64 {
		return x * sigmoid(alpha*x)
	}, names: [2]string{"alpha"}, by: [2]float32{1.702}},
	"ScaledTanh": {of: func(x, alpha, beta float64) float64 { return alpha * math.Tanh(beta*x) }, by: [2]float32{1, 1}, recurrently: true},
	"Affine":     {of: func(x, alpha, beta float64) float64 { return alpha*x + beta }, by: [2]float32{1, 0}, recurrently: true},
	"Clip":       {of: func(x, low, high float64) float64 { return clamped(x, low, high) }, by: [2]float32{-math.MaxFloat32, math.MaxFloat32}},
}

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

// activate makes the operators that apply an activation, computed in float64.
func activate(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	a, by := activations[n.op], [2]float64{}
	for i, name := range a.names {
		by[i] = float64(a.by[i])
		if name != "" {
			by[i] = float64(n.float(name, a.by[i]))
		}
	}
	return mappedBy(n, func(x float64) float64 { return a.of(x, by[0], by[1]) })
}

// mappedBy applies f to every element, in float64.
func mappedBy(n *node, f func(x float64) float64) (kernel, error) {
	n.gives(n.typ(0))
	if n.typ(0) == tensor.Float64 {
		return each(f), nil
	}
	return each(func(x float32) float32 { return float32(f(float64(x))) }), n.oneOf(0, floating...)
}

func gelu(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func geluOf(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	switch form := n.str("approximate", "none"); form {
	case "none":
		return mappedBy(n, gelu)
	case "tanh":
		return mappedBy(n, geluTanh)
	default:
		return nil, fmt.Errorf("approximate %q is unknown", form)
	}
}

// biasGelu makes BiasGelu and FastGelu: of the sum with a row, which FastGelu may leave out.
func biasGelu(n *node) (kernel, error) {
	f, least := gelu, 2
	if n.op == "FastGelu" {
		f, least = geluTanh, 1
	}
	if err := n.takes(least, 2); err != nil {
		return nil, err
	}
	if !n.has(1) {
		return mappedBy(n, f)
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, n.typ(0)); err != nil {
		return nil, err
	}
	return combined(func(a, b float32) float32 { return float32(f(float64(a + b))) }), n.oneOf(0, tensor.Float32)
}

// pRelu multiplies what is below zero by a slope that is broadcast to it.
func pRelu(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return sloped[float32](), nil
	case tensor.Float64:
		return sloped[float64](), nil
	case tensor.Int32:
		return sloped[int32](), nil
	case tensor.Int64:
		return sloped[int64](), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func sloped[T number]() kernel {
	f := combined(func(x, slope T) T {
		if x < 0 {
			return x * slope
		}
		return x
	})
	return func(c *call) error {
		if shape, err := broadcast(c.in(0).Shape, c.in(1).Shape); err != nil || !slices.Equal(shape, c.in(0).Shape) {
			return fmt.Errorf("a slope of shape %v of elements of shape %v", c.in(1).Shape, c.in(0).Shape)
		}
		return f(c)
	}
}

// hardmax is 1 for the first greatest element along an axis, and 0 for the others.
// Before set 13 the axis and those after it are one.
func hardmax(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis, flat := softmaxAxis(n)
	n.gives(n.typ(0))
	n.labelsOf(0)
	if n.typ(0) == tensor.Float64 {
		return hardmaxOf[float64](axis, flat), nil
	}
	return hardmaxOf[float32](axis, flat), n.oneOf(0, floating...)
}

func hardmaxOf[T float](axis int64, flat bool) kernel {
	return func(c *call) error {
		in := c.in(0)
		shape, at, err := softmaxLines(in.Shape, axis, flat)
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](in)
		clear(to)
		lines(shape, at, func(_, first, stride, size int) {
			best := first
			for i := 1; i < size; i++ {
				if from[first+i*stride] > from[best] {
					best = first + i*stride
				}
			}
			if size > 0 {
				to[best] = 1
			}
		})
		return nil
	}
}
