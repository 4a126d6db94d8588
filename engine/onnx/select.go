package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

func transpose(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	order := n.integers("perm")
	n.gives(n.typ(0))
	return func(c *call) error {
		in := c.in(0)
		rank := len(in.Shape)
		perm, err := permutation(order, rank)
		if err != nil {
			return err
		}
		shape, steps := make([]int64, rank), make([]int, rank)
		strides := stretched(in.Shape, rank)
		for i, from := range perm {
			shape[i], steps[i] = in.Shape[from], strides[from]
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		gatherFrom(out, in, steps, 0)
		return nil
	}, n.oneOf(0, anything...)
}

func permutation(order []int64, rank int) ([]int, error) {
	perm := make([]int, rank)
	seen := make([]bool, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
		if order != nil {
			if len(order) != rank || order[i] < 0 || order[i] >= int64(rank) || seen[order[i]] {
				return nil, fmt.Errorf("%v is no order of %d dimensions", order, rank)
			}
			perm[i] = int(order[i])
			seen[order[i]] = true
		}
	}
	return perm, nil
}

// slice cuts out ranges with steps: attributes before set 10, inputs since.
func slice(n *node) (kernel, error) {
	if err := n.takes(1, 5); err != nil {
		return nil, err
	}
	starts, ends, axes := n.integers("starts"), n.integers("ends"), n.integers("axes")
	n.gives(n.typ(0))
	for i := 1; i < len(n.in); i++ {
		if n.has(i) {
			if err := n.oneOf(i, tensor.Int64, tensor.Int32); err != nil {
				return nil, err
			}
		}
	}
	return func(c *call) error {
		var steps []int64
		starts, ends, axes := starts, ends, axes
		for i, list := range []*[]int64{&starts, &ends, &axes, &steps} {
			if t := c.in(i + 1); t != nil {
				*list = indices(t)
			}
		}
		return cutRanges(c, starts, ends, axes, steps)
	}, n.oneOf(0, anything...)
}

// indices are the elements of a tensor of Int32 or Int64.
func indices(t *tensor.Tensor) []int64 {
	if t.Type == tensor.Int64 {
		return tensor.Values[int64](t)
	}
	var to []int64
	for _, v := range tensor.Values[int32](t) {
		to = append(to, int64(v))
	}
	return to
}

func cutRanges(c *call, starts, ends, axes, steps []int64) error {
	in := c.in(0)
	rank := len(in.Shape)
	if len(starts) != len(ends) || axes != nil && len(axes) != len(starts) || steps != nil && len(steps) != len(starts) || len(starts) > rank {
		return fmt.Errorf("%d starts, %d ends, %d axes, %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	shape, strides := slices.Clone(in.Shape), stretched(in.Shape, rank)
	at := 0
	seen := make([]bool, rank)
	for i := range starts {
		axis, step := int64(i), int64(1)
		if axes != nil {
			axis = axes[i]
		}
		if steps != nil {
			step = steps[i]
		}
		d, err := axisOf(axis, rank)
		if err != nil {
			return err
		}
		if step == 0 || step == math.MinInt64 || seen[d] {
			return fmt.Errorf("axis %d is sliced by step %d, or twice", axis, step)
		}
		seen[d] = true
		start, count := stretch(starts[i], ends[i], step, in.Shape[d])
		shape[d] = count
		if count > 0 {
			at += int(start) * strides[d]
		}
		// A range of one element has no next one; its step may be huge.
		if count > 1 {
			strides[d] *= int(step)
		}
	}
	out, err := c.out(0, shape...)
	if err != nil || elements(out) == 0 {
		return err
	}
	gatherFrom(out, in, strides, at)
	return nil
}

// gatherFrom fills out with the elements of from that steps, one per dimension of
// out, lead to from element start on.
func gatherFrom(out, from *tensor.Tensor, steps []int, start int) {
	n := elements(out)
	shape, run := out.Shape, 1
	for last := len(shape) - 1; last >= 0 && (steps[last] == run || shape[last] == 1); last-- {
		run *= int(shape[last]) // elements that follow one another in both
		shape = shape[:last]
	}
	index := make([]int64, len(shape))
	at := start
	for i := 0; i < n; i += run {
		copyElements(out, i, from, at, run)
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			at += steps[d]
			if index[d] < shape[d] {
				break
			}
			at -= steps[d] * int(shape[d])
			index[d] = 0
		}
	}
}

// stretch is the first index of a range and how many it has, of size elements.
func stretch(start, end, step, size int64) (first, count int64) {
	if start < 0 {
		start = max(start, math.MinInt64+size) + size
	}
	if end < 0 {
		end = max(end, math.MinInt64+size) + size
	}
	if step > 0 {
		start, end = max(0, min(start, size)), max(0, min(end, size))
		if end <= start {
			return 0, 0
		}
		return start, (end-start-1)/step + 1
	}
	start, end = max(-1, min(start, size-1)), max(-1, min(end, size-1))
	if start <= end {
		return 0, 0
	}
	return start, (start-end-1)/-step + 1
}

// gather takes the slices of an axis that indices name.
func gather(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	axis := n.integer("axis", 0)
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list := c.in(0), indices(c.in(1))
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		out, err := c.out(0, slices.Concat(in.Shape[:at], c.in(1).Shape, in.Shape[at+1:])...)
		if err != nil {
			return err
		}
		size, width := in.Shape[at], int(product(in.Shape[at+1:]))
		for r := range int(product(in.Shape[:at])) {
			for k, index := range list {
				i, err := indexOf(index, size)
				if err != nil {
					return err
				}
				copyElements(out, (r*len(list)+k)*width, in, (r*int(size)+i)*width, width)
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}

func indexOf(index, size int64) (int, error) {
	i := index
	if i < 0 {
		i += size
	}
	if i < 0 || i >= size {
		return 0, fmt.Errorf("index %d of an axis of %d", index, size)
	}
	return int(i), nil
}

// gatherElements takes, for each index, the element of its own row at that index of the axis.
func gatherElements(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	axis := n.integer("axis", 0)
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, shape := c.in(0), c.in(1).Shape
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		if len(shape) != len(in.Shape) {
			return fmt.Errorf("indices of shape %v into %v", shape, in.Shape)
		}
		for d := range shape {
			if d != at && shape[d] > in.Shape[d] {
				return fmt.Errorf("indices of shape %v into %v", shape, in.Shape)
			}
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		strides, index := stretched(in.Shape, len(in.Shape)), make([]int64, len(shape))
		for k, i := range indices(c.in(1)) {
			j, err := indexOf(i, in.Shape[at])
			if err != nil {
				return err
			}
			from := j * strides[at]
			for d := range shape {
				if d != at {
					from += int(index[d]) * strides[d]
				}
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
