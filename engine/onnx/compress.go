package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// compress keeps the slices of an axis, or the elements of all, for which a condition holds.
func compress(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	if err := n.oneOf(1, tensor.Bool); err != nil {
		return nil, err
	}
	axis, flat := n.integer("axis", 0), true
	if _, ok := n.attribute("axis"); ok {
		flat = false
	}
	n.b.m.mixes = true // how much is kept may follow from all rows
	n.gives(n.typ(0))
	return func(c *call) error {
		in, condition := c.in(0), c.in(1).Data
		shape := slices.Clone(in.Shape)
		if flat {
			shape = []int64{int64(elements(in))}
		}
		at, err := axisOf(axis, len(shape))
		if err != nil {
			return err
		}
		size := int(shape[at])
		if len(condition) > size {
			return fmt.Errorf("%d conditions for an axis of %d", len(condition), size)
		}
		var kept []int
		for i, on := range condition {
			if on != 0 {
				kept = append(kept, i)
			}
		}
		width, outer := int(product(shape[at+1:])), int(product(shape[:at]))
		shape[at] = int64(len(kept))
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		for r := range outer {
			for k, i := range kept {
				copyElements(out, (r*len(kept)+k)*width, in, (r*size+i)*width, width)
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}
