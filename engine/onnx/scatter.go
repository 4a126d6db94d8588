package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// gatherND takes the slices that tuples of indices name.
func gatherND(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	batch := n.integer("batch_dims", 0)
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list := c.in(0), c.in(1)
		t, err := tuplesOf(in.Shape, list, batch)
		if err != nil {
			return err
		}
		out, err := c.out(0, slices.Concat(list.Shape[:len(list.Shape)-1], in.Shape[int(batch)+t.width:])...)
		if err != nil || elements(out) == 0 {
			return err
		}
		for i := range t.count {
			at, err := t.at(i)
			if err != nil {
				return err
			}
			copyElements(out, i*t.slice, in, at, t.slice)
		}
		return nil
	}, n.oneOf(0, anything...)
}

// tuples are indices of several dimensions each, into a tensor.
type tuples struct {
	values       []int64
	count, width int   // tuples, and their length
	slice        int   // elements of what a tuple names
	each, stride int   // tuples and elements of a batch
	sizes        []int // of the dimensions that a tuple indexes
}

func tuplesOf(shape []int64, list *tensor.Tensor, batch int64) (*tuples, error) {
	rank := len(list.Shape)
	if rank == 0 || batch < 0 || int(batch) >= rank || int(batch) > len(shape) || !slices.Equal(list.Shape[:batch], shape[:batch]) {
		return nil, fmt.Errorf("indices of shape %v into shape %v, of which %d dimensions are the batch", list.Shape, shape, batch)
	}
	width := list.Shape[rank-1]
	if width > int64(len(shape))-batch {
		return nil, fmt.Errorf("indices of %d dimensions into shape %v", width, shape)
	}
	t := &tuples{
		values: tensor.Values[int64](list), count: int(product(list.Shape[:rank-1])), width: int(width),
		slice: int(product(shape[batch+width:])), each: int(product(list.Shape[batch : rank-1])), stride: int(product(shape[batch:])),
	}
	for _, size := range shape[batch : batch+width] {
		t.sizes = append(t.sizes, int(size))
	}
	return t, nil
}

// at is where the slice of a tuple begins.
func (t *tuples) at(i int) (int, error) {
	at := 0
	for d, size := range t.sizes {
		index, err := indexOf(t.values[i*t.width+d], int64(size))
		if err != nil {
			return 0, err
		}
		at = at*size + index
	}
	return i/t.each*t.stride + at*t.slice, nil
}

// scatterND writes slices to the places that tuples of indices name, in a copy of the
// input.
func scatterND(n *node) (kernel, error) {
	merge, err := scattersOf(n)
	if err != nil {
		return nil, err
	}
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list, updates := c.in(0), c.in(1), c.in(2)
		t, err := tuplesOf(in.Shape, list, 0)
		if err != nil {
			return err
		}
		if want := slices.Concat(list.Shape[:len(list.Shape)-1], in.Shape[t.width:]); !slices.Equal(updates.Shape, want) {
			return fmt.Errorf("updates of shape %v; %v is expected", updates.Shape, want)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil || elements(out) == 0 {
			return err
		}
		copyElements(out, 0, in, 0, elements(in))
		for i := range t.count {
			at, err := t.at(i)
			if err != nil {
				return err
			}
			for k := range t.slice {
				merge(out, at+k, updates, i*t.slice+k)
			}
		}
		return nil
	}, nil
}

// scatterElements writes elements to the indices of an axis, each in its own row.
func scatterElements(n *node) (kernel, error) {
	axis := n.integer("axis", 0)
	merge, err := scattersOf(n)
	if err != nil {
		return nil, err
	}
	if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list, updates := c.in(0), c.in(1), c.in(2)
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		fits := len(list.Shape) == len(in.Shape) && slices.Equal(list.Shape, updates.Shape)
		for d := range in.Shape {
			fits = fits && (d == at || list.Shape[d] <= in.Shape[d])
		}
		if !fits {
			return fmt.Errorf("updates of shape %v at indices of shape %v in shape %v", updates.Shape, list.Shape, in.Shape)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		copyElements(out, 0, in, 0, elements(in))
		strides, index := make([]int, len(in.Shape)), make([]int, len(in.Shape))
		for d := range strides {
			strides[d] = int(product(in.Shape[d+1:]))
		}
		for k, i := range indices(list) {
			j, err := indexOf(i, in.Shape[at])
			if err != nil {
				return err
			}
			to := j * strides[at]
			for d := range index {
				if d != at {
					to += index[d] * strides[d]
				}
			}
			merge(out, to, updates, k)
			forward(index, func(d int) int { return int(list.Shape[d]) })
		}
		return nil
	}, nil
}

// merging puts element i of updates into element at of a tensor.
type merging func(to *tensor.Tensor, at int, updates *tensor.Tensor, i int)

// scattersOf checks the inputs of a scatter and says how its updates come in.
func scattersOf(n *node) (merging, error) {
	if err := n.takes(3, 3); err != nil {
		return nil, err
	}
	if n.typ(2) != n.typ(0) {
		return nil, fmt.Errorf("updates are %v of elements %v", n.typ(2), n.typ(0))
	}
	n.gives(n.typ(0))
	op := n.str("reduction", "none")
	switch op {
	case "none":
		return func(to *tensor.Tensor, at int, updates *tensor.Tensor, i int) { copyElements(to, at, updates, i, 1) }, n.oneOf(0, anything...)
	case "add", "mul", "min", "max":
	default:
		return nil, fmt.Errorf("reduction %q is unknown", op)
	}
	switch n.typ(0) {
	case tensor.Float32:
		return merges[float32](op), nil
	case tensor.Float64:
		return merges[float64](op), nil
	case tensor.Int32:
		return merges[int32](op), nil
	case tensor.Int64:
		return merges[int64](op), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func merges[T float32 | float64 | int32 | int64](op string) merging {
	return func(to *tensor.Tensor, at int, updates *tensor.Tensor, i int) {
		x, v := &tensor.Values[T](to)[at], tensor.Values[T](updates)[i]
		switch op {
		case "add":
			*x += v
		case "mul":
			*x *= v
		case "min":
			*x = min(*x, v)
		case "max":
			*x = max(*x, v)
		}
	}
}
