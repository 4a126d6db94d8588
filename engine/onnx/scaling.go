package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// scaler is (x-offset)*scale, by column or the same for all.
func scaler(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	s := offsets{n.floats("offset"), n.floats("scale")}
	if len(s.offset) == 0 || len(s.offset) != len(s.scale) {
		return nil, fmt.Errorf("%d offsets and %d scales", len(s.offset), len(s.scale))
	}
	n.gives(tensor.Float32)
	switch n.typ(0) {
	case tensor.Float32:
		return columns(len(s.offset), func(x float32, i int) float32 { return (x - s.offset[i]) * s.scale[i] }), nil
	case tensor.Float64:
		return columns(len(s.offset), func(x float64, i int) float32 {
			return float32((x - float64(s.offset[i])) * float64(s.scale[i]))
		}), nil
	case tensor.Int32:
		return columns(len(s.offset), func(x int32, i int) float32 { return (float32(x) - s.offset[i]) * s.scale[i] }), nil
	case tensor.Int64:
		return columns(len(s.offset), func(x int64, i int) float32 { return (float32(x) - s.offset[i]) * s.scale[i] }), nil
	}
	return nil, n.oneOf(0, numeric...)
}

type offsets struct{ offset, scale []float32 }

// columns applies f to every element and the index of its column, of width columns;
// 0 is every column's index where width is 1.
func columns[T, U number](width int, f func(x T, column int) U) kernel {
	return func(c *call) error {
		in := c.in(0)
		if size := in.Shape; width > 1 && (len(size) == 0 || size[len(size)-1] != int64(width)) {
			return fmt.Errorf("rows of shape %v; the model has %d columns", size, width)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[U](out)
		column := 0
		for i, x := range tensor.Values[T](in) {
			to[i] = f(x, column)
			if column++; column == width {
				column = 0
			}
		}
		return nil
	}
}

// imputer replaces a value that stands for a missing one, by column or the same for all.
func imputer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	floats, missing := n.floats("imputed_value_floats"), n.float("replaced_value_float", 0)
	ints, missingInt := n.integers("imputed_value_int64s"), n.integer("replaced_value_int64", 0)
	switch n.typ(0) {
	case tensor.Float32:
		return imputing(floats, func(x float32) bool { return x == missing || x != x && missing != missing })
	case tensor.Float64:
		values := make([]float64, len(floats))
		for i, v := range floats {
			values[i] = float64(v)
		}
		return imputing(values, func(x float64) bool { return x == float64(missing) || x != x && missing != missing })
	case tensor.Int64:
		return imputing(ints, func(x int64) bool { return x == missingInt })
	}
	return nil, n.oneOf(0, tensor.Float32, tensor.Float64, tensor.Int64)
}

func imputing[T number](values []T, missing func(x T) bool) (kernel, error) {
	if len(values) == 0 {
		return nil, errors.New("no values to impute")
	}
	return columns(len(values), func(x T, column int) T {
		if missing(x) {
			return values[column]
		}
		return x
	}), nil
}

// normalizer divides each row by its norm, as float32.
func normalizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	norm := n.str("norm", "MAX")
	if !slices.Contains([]string{"MAX", "L1", "L2"}, norm) {
		return nil, fmt.Errorf("norm %q is unknown", norm)
	}
	n.gives(tensor.Float32)
	n.labelsOf(0)
	switch n.typ(0) {
	case tensor.Float32:
		return normalizing[float32](norm), nil
	case tensor.Float64:
		return normalizing[float64](norm), nil
	case tensor.Int32:
		return normalizing[int32](norm), nil
	case tensor.Int64:
		return normalizing[int64](norm), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func normalizing[T float32 | float64 | int32 | int64](norm string) kernel {
	return func(c *call) error {
		in := c.in(0)
		_, width, err := table(in)
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil || width == 0 {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[T](in)
		for at := 0; at < len(to); at += int(width) {
			normalize(norm, to[at:at+int(width)], from[at:at+int(width)])
		}
		return nil
	}
}

func normalize[T float32 | float64 | int32 | int64](norm string, to []float32, from []T) {
	total := float32(0)
	if norm == "MAX" {
		total = -math.MaxFloat32
	}
	for _, x := range from {
		switch norm {
		case "MAX":
			if y := float32(x); y > total {
				total = y
			}
		case "L1":
			total += abs32(float32(x))
		default:
			total += float32(x * x)
		}
	}
	for i, x := range from {
		switch {
		case total == 0:
			to[i] = float32(x)
		case norm != "L2":
			to[i] = float32(x) / total
		default:
			to[i] = float32(math.Sqrt(float64(float32(x*x) / total)))
			if x < 0 {
				to[i] = -to[i]
			}
		}
	}
}

// binarizer is 1 above a threshold.
func binarizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	threshold := n.float("threshold", 0)
	n.gives(n.typ(0))
	return each(func(x float32) float32 { return float32(bit(x > threshold)) }), n.oneOf(0, tensor.Float32)
}
