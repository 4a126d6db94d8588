package onnx

import (
	"fmt"
	"math"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// float is what functions of the reals are computed in.
type float interface{ float32 | float64 }

// functions are the operators of one float.
var functions = map[string]func(x float64) float64{
	"Sqrt": math.Sqrt, "Exp": math.Exp, "Log": math.Log, "Sin": math.Sin, "Cos": math.Cos, "Erf": math.Erf,
	"Floor": math.Floor, "Ceil": math.Ceil, "Round": math.RoundToEven, "Tanh": math.Tanh,
	"Sigmoid": sigmoid, "Softplus": vector.Softplus, "Softsign": softsign, "Mish": func(x float64) float64 { return x * math.Tanh(vector.Softplus(x)) },
	"HardSwish": func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) },
	"Tan":       math.Tan, "Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan,
	"Sinh": math.Sinh, "Cosh": math.Cosh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh,
	"Reciprocal": func(x float64) float64 { return 1 / x },
}

// sigmoid is 1/(1+exp(-x)) without overflow.
func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// unary makes the operators of one number each. Functions of the reals are computed
// in float64 and rounded once, so that a float32 is right to its last bit almost always.
func unary(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.op {
	case "Abs", "Neg", "Sign", "Relu":
		return signs(n)
	}
	f := functions[n.op]
	if n.typ(0) == tensor.Float64 {
		return each(f), nil
	}
	return each(func(x float32) float32 { return float32(f(float64(x))) }), n.oneOf(0, floating...)
}

// each applies f to every element of input 0.
func each[T, U number](f func(T) U) kernel {
	return func(c *call) error {
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[U](out)
		for i, x := range tensor.Values[T](in) {
			to[i] = f(x)
		}
		return nil
	}
}

func signs(n *node) (kernel, error) {
	switch n.typ(0) {
	case tensor.Float32:
		return sign[float32](n.op), nil
	case tensor.Float64:
		return sign[float64](n.op), nil
	case tensor.Int32:
		return sign[int32](n.op), nil
	case tensor.Int64:
		return sign[int64](n.op), nil
	case tensor.Int8:
		return sign[int8](n.op), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func sign[T float32 | float64 | int8 | int32 | int64](op string) kernel {
	switch op {
	case "Neg":
		return each(func(x T) T { return -x })
	case "Abs":
		return each(func(x T) T {
			if x <= 0 { // of a zero, too: that of -0 is +0
				return 0 - x
			}
			return x
		})
	case "Sign":
		return each(func(x T) T {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return T(0) - 1
			}
			return x - x // 0, or not a number
		})
	}
	return each(func(x T) T {
		if x < 0 {
			return 0
		}
		return x
	})
}

// clip bounds elements by two numbers: attributes before set 11, inputs since.
func clip(n *node) (kernel, error) {
	if n.version < 11 {
		low, high := n.float("min", -math.MaxFloat32), n.float("max", math.MaxFloat32)
		n.gives(n.typ(0))
		return each(func(x float32) float32 { return clamped(x, low, high) }), n.oneOf(0, tensor.Float32)
	}
	if err := n.takes(1, 3); err != nil {
		return nil, err
	}
	for i := 1; i < len(n.in); i++ {
		if n.has(i) && n.typ(i) != n.typ(0) {
			return nil, fmt.Errorf("bound %d is %v of elements %v", i, n.typ(i), n.typ(0))
		}
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return clipBy[float32](-math.MaxFloat32, math.MaxFloat32), nil
	case tensor.Float64:
		return clipBy(-math.MaxFloat64, math.MaxFloat64), nil
	case tensor.Int32:
		return clipBy[int32](math.MinInt32, math.MaxInt32), nil
	case tensor.Int64:
		return clipBy[int64](math.MinInt64, math.MaxInt64), nil
	case tensor.Int8:
		return clipBy[int8](math.MinInt8, math.MaxInt8), nil
	case tensor.Uint8:
		return clipBy[uint8](0, math.MaxUint8), nil
	case tensor.Uint32:
		return clipBy[uint32](0, math.MaxUint32), nil
	case tensor.Uint64:
		return clipBy[uint64](0, math.MaxUint64), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func clipBy[T number](least, most T) kernel {
	return func(c *call) error {
		low, high := least, most
		for i, bound := range []*T{&low, &high} {
			if t := c.in(i + 1); t != nil {
				v := tensor.Values[T](t)
				if len(v) != 1 {
					return fmt.Errorf("bound %d has %d elements", i+1, len(v))
				}
				*bound = v[0]
			}
		}
		return each(func(x T) T { return clamped(x, low, high) })(c)
	}
}

// clamped leaves what is not a number.
func clamped[T number](x, low, high T) T {
	if x < low {
		x = low
	}
	if x > high {
		x = high
	}
	return x
}

func not(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	return each(func(x uint8) uint8 { return x ^ 1 }), n.oneOf(0, tensor.Bool)
}

func isNaN(n *node) (kernel, error) {
	return tests(n, func(x float64) bool { return x != x })
}

func isInf(n *node) (kernel, error) {
	negative, positive := n.integer("detect_negative", 1) != 0, n.integer("detect_positive", 1) != 0
	return tests(n, func(x float64) bool { return negative && math.IsInf(x, -1) || positive && math.IsInf(x, 1) })
}

func tests(n *node, f func(x float64) bool) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	if n.typ(0) == tensor.Float64 {
		return each(func(x float64) uint8 { return bit(f(x)) }), nil
	}
	return each(func(x float32) uint8 { return bit(f(float64(x))) }), n.oneOf(0, floating...)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
