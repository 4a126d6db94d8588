package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// constant is an output that the node itself holds.
func constant(n *node) (kernel, error) {
	t := n.tensor("value")
	if a, ok := n.attribute("value_float"); ok {
		v := tensor.Of("", tensor.Float32, nil, []float32{a.f})
		t = &v
	}
	if a, ok := n.attribute("value_floats"); ok {
		v := tensor.Of("", tensor.Float32, []int64{int64(len(a.floats))}, a.floats)
		t = &v
	}
	if a, ok := n.attribute("value_int"); ok {
		v := tensor.Of("", tensor.Int64, nil, []int64{a.i})
		t = &v
	}
	if a, ok := n.attribute("value_ints"); ok {
		v := tensor.Of("", tensor.Int64, []int64{int64(len(a.ints))}, a.ints)
		t = &v
	}
	if a, ok := n.attribute("value_string"); ok {
		t = &tensor.Tensor{Type: tensor.Bytes, Strings: clones([][]byte{a.s})}
	}
	if a, ok := n.attribute("value_strings"); ok {
		t = &tensor.Tensor{Type: tensor.Bytes, Shape: []int64{int64(len(a.strings))}, Strings: clones(a.strings)}
	}
	if t == nil {
		return nil, errors.New("no attribute holds the value")
	}
	if t.Type == tensor.Bytes {
		t.Strings = clones(t.Strings)
	}
	n.gives(t.Type)
	return func(c *call) error {
		out, err := c.out(0, t.Shape...)
		if err == nil {
			copy(out.Data, t.Data)
			copy(out.Strings, t.Strings)
		}
		return err
	}, nil
}

// constantOfShape is one value, repeated.
func constantOfShape(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	v := n.tensor("value")
	if v == nil {
		zero := tensor.Of("", tensor.Float32, []int64{1}, []float32{0})
		v = &zero
	}
	if v.Type == tensor.Bytes || len(v.Data) != v.Type.Size() {
		return nil, errors.New("the value is no single number")
	}
	n.gives(v.Type)
	return func(c *call) error {
		out, err := c.out(0, tensor.Values[int64](c.in(0))...)
		if err != nil {
			return err
		}
		for at := 0; at < len(out.Data); at += len(v.Data) {
			copy(out.Data[at:], v.Data)
		}
		return nil
	}, n.oneOf(0, tensor.Int64)
}

// shapeOf is the shape as integers, from start to end.
func shapeOf(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	start, end := n.integer("start", 0), n.integer("end", math.MaxInt64)
	n.gives(tensor.Int64)
	return func(c *call) error {
		shape := c.in(0).Shape
		from, to := within(start, len(shape)), within(end, len(shape))
		from = min(from, to)
		out, err := c.out(0, int64(to-from))
		if err == nil {
			copy(tensor.Values[int64](out), shape[from:to])
		}
		return err
	}, nil
}

func sizeOf(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Int64)
	return func(c *call) error {
		out, err := c.out(0)
		if err == nil {
			tensor.Values[int64](out)[0] = int64(elements(c.in(0)))
		}
		return err
	}, nil
}

// expand broadcasts to a shape.
func expand(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in := c.in(0)
		shape, err := broadcast(in.Shape, tensor.Values[int64](c.in(1)))
		if err != nil {
			return err
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		over(out.Shape, in.Shape, elements(out), func(at, i int) { copyElements(out, at, in, i, 1) })
		return nil
	}, n.oneOf(0, anything...)
}

// tile repeats a tensor along each axis.
func tile(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, repeats := c.in(0), tensor.Values[int64](c.in(1))
		if len(repeats) != len(in.Shape) {
			return fmt.Errorf("%d repeats of shape %v", len(repeats), in.Shape)
		}
		shape := slices.Clone(in.Shape)
		for i, r := range repeats {
			if r < 0 || shape[i] != 0 && r > maxRunBytes/shape[i] {
				return fmt.Errorf("repeats %v", repeats)
			}
			shape[i] *= r
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		index, strides := make([]int64, len(shape)), stretched(in.Shape, len(shape))
		for k := range elements(out) {
			from := 0
			for d := range shape {
				from += int(index[d]%in.Shape[d]) * strides[d]
			}
			copyElements(out, k, in, from, 1)
			for d := len(shape) - 1; d >= 0; d-- {
				if index[d]++; index[d] < shape[d] {
					break
				}
				index[d] = 0
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}

// rangeOf counts from a start to a limit.
func rangeOf(n *node) (kernel, error) {
	if err := n.takes(3, 3); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Int64:
		return counting[int64], n.sameTypes()
	case tensor.Int32:
		return counting[int32], n.sameTypes()
	case tensor.Float32:
		return counting[float32], n.sameTypes()
	case tensor.Float64:
		return counting[float64], n.sameTypes()
	}
	return nil, n.oneOf(0, numeric...)
}

func counting[T float32 | float64 | int32 | int64](c *call) error {
	var v [3]T
	for i := range v {
		x := tensor.Values[T](c.in(i))
		if len(x) != 1 {
			return fmt.Errorf("input %d has %d elements", i, len(x))
		}
		v[i] = x[0]
	}
	if v[2] == 0 {
		return errors.New("steps of zero")
	}
	count := math.Ceil((float64(v[1]) - float64(v[0])) / float64(v[2]))
	if !(count < maxRunBytes) {
		return fmt.Errorf("from %v to %v by %v is too long", v[0], v[1], v[2])
	}
	out, err := c.out(0, int64(max(0, count)))
	if err != nil {
		return err
	}
	to := tensor.Values[T](out)
	for i := range to {
		to[i] = v[0] + T(i)*v[2]
	}
	return nil
}

// oneHot has an axis more than its indices, along which one on value stands among off
// values; an index outside has none.
func oneHot(n *node) (kernel, error) {
	if err := n.takes(3, 3); err != nil {
		return nil, err
	}
	axis := n.integer("axis", -1)
	n.gives(n.typ(2))
	for i := range 2 {
		if err := n.oneOf(i, numeric...); err != nil {
			return nil, err
		}
	}
	return func(c *call) error {
		list, depth, values := truncated(c.in(0)), truncated(c.in(1)), c.in(2)
		if len(depth) != 1 || depth[0] <= 0 || elements(values) != 2 {
			return fmt.Errorf("depth %v with %d values", depth, elements(values))
		}
		from := c.in(0).Shape
		at, err := axisOf(axis, len(from)+1)
		if err != nil {
			return err
		}
		out, err := c.out(0, slices.Insert(slices.Clone(from), at, depth[0])...)
		if err != nil {
			return err
		}
		inner, size := int(product(from[at:])), int(depth[0])
		for r, index := range list {
			if index < 0 {
				index += depth[0]
			}
			for i := range size {
				copyElements(out, (r/inner*size+i)*inner+r%inner, values, int(bit(int64(i) == index)), 1)
			}
		}
		return nil
	}, n.oneOf(2, anything...)
}

// truncated are the whole parts of the elements of a numeric tensor.
func truncated(t *tensor.Tensor) []int64 {
	switch t.Type {
	case tensor.Float32:
		return wholeParts(tensor.Values[float32](t))
	case tensor.Float64:
		return wholeParts(tensor.Values[float64](t))
	}
	return indices(t)
}

func wholeParts[T float](from []T) []int64 {
	to := make([]int64, len(from))
	for i, x := range from {
		to[i] = whole(x)
	}
	return to
}
