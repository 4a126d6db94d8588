package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// arithmetic makes Add, Sub, Mul and Div.
func arithmetic(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return calculation[float32](n.op), nil
	case tensor.Float64:
		return calculation[float64](n.op), nil
	case tensor.Int32:
		return calculation[int32](n.op), nil
	case tensor.Int64:
		return calculation[int64](n.op), nil
	case tensor.Int8:
		return calculation[int8](n.op), nil
	case tensor.Int16:
		return calculation[int16](n.op), nil
	case tensor.Uint8:
		return calculation[uint8](n.op), nil
	case tensor.Uint16:
		return calculation[uint16](n.op), nil
	case tensor.Uint32:
		return calculation[uint32](n.op), nil
	case tensor.Uint64:
		return calculation[uint64](n.op), nil
	}
	return nil, n.oneOf(0, numeric...)
}

// calculation computes in loops without calls. Integers wrap around; those divided
// by zero are an error.
func calculation[T number](op string) kernel {
	one := T(1)
	integers := one/2 == 0
	return func(c *call) error {
		if op == "Div" && integers {
			if slices.Contains(tensor.Values[T](c.in(1)), 0) {
				return errors.New("an integer is divided by zero")
			}
		}
		return pairs(c, func(to, a, b []T) {
			switch {
			case len(a) == len(to) && len(b) == len(to):
				rows(op, to, a, b)
			case len(a) == len(to):
				rowByNumber(op, to, a, b[0])
			case len(b) == len(to):
				numberByRow(op, to, a[0], b)
			default:
				for i := range to {
					rows(op, to[i:i+1], a[:1], b[:1])
				}
			}
		})
	}
}

func rows[T number](op string, to, a, b []T) {
	a, b = a[:len(to)], b[:len(to)]
	switch op {
	case "Add":
		for i := range to {
			to[i] = a[i] + b[i]
		}
	case "Sub":
		for i := range to {
			to[i] = a[i] - b[i]
		}
	case "Mul":
		for i := range to {
			to[i] = a[i] * b[i]
		}
	case "Div":
		for i := range to {
			to[i] = a[i] / b[i]
		}
	}
}

func rowByNumber[T number](op string, to, a []T, b T) {
	a = a[:len(to)]
	switch op {
	case "Add":
		for i := range to {
			to[i] = a[i] + b
		}
	case "Sub":
		for i := range to {
			to[i] = a[i] - b
		}
	case "Mul":
		for i := range to {
			to[i] = a[i] * b
		}
	case "Div":
		for i := range to {
			to[i] = a[i] / b
		}
	}
}

func numberByRow[T number](op string, to []T, a T, b []T) {
	b = b[:len(to)]
	switch op {
	case "Add":
		for i := range to {
			to[i] = a + b[i]
		}
	case "Sub":
		for i := range to {
			to[i] = a - b[i]
		}
	case "Mul":
		for i := range to {
			to[i] = a * b[i]
		}
	case "Div":
		for i := range to {
			to[i] = a / b[i]
		}
	}
}

// combined applies f to every pair of two inputs.
func combined[T, U number](f func(a, b T) U) kernel {
	return func(c *call) error {
		return pairs(c, func(to []U, a, b []T) {
			sa, sb := min(1, len(a)-1), min(1, len(b)-1)
			for i := range to {
				to[i] = f(a[i*sa], b[i*sb])
			}
		})
	}
}

// power is a to the power of b, in the type of a.
func power(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	if n.typ(0) == n.typ(1) {
		switch n.typ(0) {
		case tensor.Float32:
			return combined(func(a, b float32) float32 { return float32(raised(float64(a), float64(b))) }), nil
		case tensor.Float64:
			return combined(raised), nil
		case tensor.Int32:
			return combined(func(a, b int32) int32 { return int32(raised(float64(a), float64(b))) }), nil
		case tensor.Int64:
			return combined(func(a, b int64) int64 { return int64(raised(float64(a), float64(b))) }), nil
		}
	}
	if !slices.Contains(numbers, n.typ(1)) {
		return nil, fmt.Errorf("%v to the power of %v is not supported; %s", n.typ(0), n.typ(1), wayOut)
	}
	switch n.typ(0) {
	case tensor.Float32:
		return powerBy[float32], nil
	case tensor.Float64:
		return powerBy[float64], nil
	case tensor.Int32:
		return powerBy[int32], nil
	case tensor.Int64:
		return powerBy[int64], nil
	}
	return nil, n.oneOf(0, numeric...)
}

// powerBy is the power with exponents of another type than the numbers.
func powerBy[T float32 | float64 | int32 | int64](c *call) error {
	x, e := c.in(0), c.in(1)
	shape, err := broadcast(x.Shape, e.Shape)
	if err != nil {
		return err
	}
	out, err := c.out(0, shape...)
	if err != nil || len(out.Data) == 0 {
		return err
	}
	to, from, exponents := tensor.Values[T](out), tensor.Values[T](x), reals(e)
	walk := newWalk(shape, x.Shape, e.Shape)
	for at := 0; at < len(to); at += walk.run {
		for i := range walk.run {
			a, b := from[walk.at[0]+i*min(1, walk.length[0]-1)], exponents[walk.at[1]+i*min(1, walk.length[1]-1)]
			to[at+i] = T(raised(float64(a), b))
		}
		walk.next()
	}
	return nil
}

// reals are the elements of a tensor of numbers as float64.
func reals(t *tensor.Tensor) []float64 {
	switch t.Type {
	case tensor.Float32:
		return asReals(tensor.Values[float32](t))
	case tensor.Float64:
		return tensor.Values[float64](t)
	case tensor.Int64:
		return asReals(tensor.Values[int64](t))
	case tensor.Uint32:
		return asReals(tensor.Values[uint32](t))
	case tensor.Uint64:
		return asReals(tensor.Values[uint64](t))
	}
	return asReals(wholes(t))
}

func asReals[T number](from []T) []float64 {
	to := make([]float64, len(from))
	for i, x := range from {
		to[i] = float64(x)
	}
	return to
}

// raised is math.Pow, exact for squares and cubes of float32.
func raised(a, b float64) float64 {
	switch b {
	case 2:
		return a * a
	case 3:
		return a * a * a
	}
	return math.Pow(a, b)
}

// modulo is the remainder: with the divisor's sign, or as C has it (fmod).
func modulo(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	fmod := n.integer("fmod", 0) != 0
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		if fmod {
			return combined(func(a, b float32) float32 { return float32(math.Mod(float64(a), float64(b))) }), nil
		}
	case tensor.Float64:
		if fmod {
			return combined(math.Mod), nil
		}
	case tensor.Int32:
		return remainder[int32](fmod), nil
	case tensor.Int64:
		return remainder[int64](fmod), nil
	case tensor.Int8:
		return remainder[int8](fmod), nil
	case tensor.Int16:
		return remainder[int16](fmod), nil
	case tensor.Uint8:
		return remainder[uint8](fmod), nil
	case tensor.Uint16:
		return remainder[uint16](fmod), nil
	case tensor.Uint32:
		return remainder[uint32](fmod), nil
	case tensor.Uint64:
		return remainder[uint64](fmod), nil
	}
	return nil, fmt.Errorf("elements are %v with fmod %v, which is not supported; %s", n.typ(0), fmod, wayOut)
}

func remainder[T integral](fmod bool) kernel {
	return func(c *call) error {
		if slices.Contains(tensor.Values[T](c.in(1)), 0) {
			return errors.New("an integer is divided by zero")
		}
		return combined(func(a, b T) T {
			r := a % b
			if !fmod && r != 0 && (r < 0) != (b < 0) {
				r += b
			}
			return r
		})(c)
	}
}

// comparison makes Equal, Less, Greater and the like.
func comparison(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	switch n.typ(0) {
	case tensor.Float32:
		return compared[float32](n.op), nil
	case tensor.Float64:
		return compared[float64](n.op), nil
	case tensor.Int32:
		return compared[int32](n.op), nil
	case tensor.Int64:
		return compared[int64](n.op), nil
	case tensor.Int8:
		return compared[int8](n.op), nil
	case tensor.Int16:
		return compared[int16](n.op), nil
	case tensor.Uint8:
		return compared[uint8](n.op), nil
	case tensor.Uint16:
		return compared[uint16](n.op), nil
	case tensor.Uint32:
		return compared[uint32](n.op), nil
	case tensor.Uint64:
		return compared[uint64](n.op), nil
	case tensor.Bool:
		if n.op == "Equal" {
			return compared[uint8](n.op), nil
		}
	case tensor.Bytes:
		if n.op == "Equal" {
			return equalStrings, nil
		}
	}
	return nil, n.oneOf(0, numeric...)
}

func compared[T number](op string) kernel {
	switch op {
	case "Equal":
		return combined(func(a, b T) uint8 { return bit(a == b) })
	case "Less":
		return combined(func(a, b T) uint8 { return bit(a < b) })
	case "Greater":
		return combined(func(a, b T) uint8 { return bit(a > b) })
	case "LessOrEqual":
		return combined(func(a, b T) uint8 { return bit(a <= b) })
	}
	return combined(func(a, b T) uint8 { return bit(a >= b) })
}

func equalStrings(c *call) error {
	x, y := c.in(0), c.in(1)
	shape, err := broadcast(x.Shape, y.Shape)
	if err != nil {
		return err
	}
	out, err := c.out(0, shape...)
	if err != nil || len(out.Data) == 0 {
		return err
	}
	w := newWalk(out.Shape, x.Shape, y.Shape)
	for at := 0; at < len(out.Data); at += w.run {
		for i := range w.run {
			a, b := x.Strings[w.at[0]+i*min(1, w.length[0]-1)], y.Strings[w.at[1]+i*min(1, w.length[1]-1)]
			out.Data[at+i] = bit(string(a) == string(b))
		}
		w.next()
	}
	return nil
}

func logic(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	f := func(a, b uint8) uint8 { return a & b }
	switch n.op {
	case "Or":
		f = func(a, b uint8) uint8 { return a | b }
	case "Xor":
		f = func(a, b uint8) uint8 { return a ^ b }
	}
	return combined(f), n.oneOf(0, tensor.Bool)
}
