package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// pad adds a border around a tensor, or takes one away where its size is negative:
// attributes before set 11, inputs since.
func pad(n *node) (kernel, error) {
	if err := n.takes(1, 4); err != nil {
		return nil, err
	}
	p := padding{mode: n.str("mode", "constant")}
	switch p.mode {
	case "constant", "reflect", "edge", "wrap":
	default:
		return nil, fmt.Errorf("mode %q is unknown", p.mode)
	}
	n.gives(n.typ(0))
	if n.version < 11 {
		p.sizes = n.integers("pads")
		zero := tensor.Of("", tensor.Float32, nil, []float32{n.float("value", 0)})
		p.value = &zero
		return p.run, n.oneOf(0, tensor.Float32)
	}
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	if n.has(2) && n.typ(2) != n.typ(0) {
		return nil, fmt.Errorf("the border is %v of elements %v", n.typ(2), n.typ(0))
	}
	if n.has(3) {
		if err := n.oneOf(3, tensor.Int32, tensor.Int64); err != nil {
			return nil, err
		}
	}
	return p.run, n.oneOf(0, anything...)
}

// padding is what a Pad says. Sizes are those before each dimension, then those after.
type padding struct {
	mode  string
	sizes []int64        // nil: input 1
	value *tensor.Tensor // nil: input 2
}

func (p *padding) run(c *call) error {
	in := c.in(0)
	sizes, value := p.sizes, p.value
	if sizes == nil && c.in(1) != nil {
		sizes = tensor.Values[int64](c.in(1))
	}
	if value == nil {
		value = c.in(2)
	}
	if value != nil && elements(value) != 1 {
		return fmt.Errorf("a border of %d values", elements(value))
	}
	sizes, err := allAxes(c, sizes, len(in.Shape))
	if err != nil {
		return err
	}
	rank := len(in.Shape)
	shape := make([]int64, rank)
	for d, size := range in.Shape {
		before, after := sizes[d], sizes[rank+d]
		if before > maxRunBytes || after > maxRunBytes || before < -size || after < -size || size+before+after < 0 {
			return fmt.Errorf("dimension %d of shape %v with a border of %d and %d", d, in.Shape, before, after)
		}
		shape[d] = size + before + after
	}
	out, err := c.out(0, shape...)
	if err != nil || elements(out) == 0 {
		return err
	}
	sources := make([][]int, rank) // of each index of each dimension, -1: the border
	for d := range sources {
		if sources[d], err = p.sources(int(in.Shape[d]), int(sizes[d]), int(shape[d])); err != nil {
			return fmt.Errorf("dimension %d of shape %v: %w", d, in.Shape, err)
		}
	}
	fillFrom(out, in, value, sources)
	return nil
}

// allAxes are the sizes of a border of every dimension: input 3 may name those that the
// sizes are of.
func allAxes(c *call, sizes []int64, rank int) ([]int64, error) {
	named := c.in(3)
	if named == nil {
		if len(sizes) != 2*rank {
			return nil, fmt.Errorf("%d sizes of a border around %d dimensions", len(sizes), rank)
		}
		return sizes, nil
	}
	axes := indices(named)
	if len(sizes) != 2*len(axes) {
		return nil, fmt.Errorf("%d sizes of a border of %d dimensions", len(sizes), len(axes))
	}
	all := make([]int64, 2*rank)
	for i, axis := range axes {
		d, err := axisOf(axis, rank)
		if err != nil {
			return nil, err
		}
		all[d], all[rank+d] = sizes[i], sizes[len(axes)+i]
	}
	return all, nil
}

// sources says for each index of a dimension which element it takes; -1: the border's value.
func (p *padding) sources(size, before, length int) ([]int, error) {
	if size == 0 && p.mode != "constant" {
		return nil, fmt.Errorf("mode %s of no elements", p.mode)
	}
	from := make([]int, length)
	for i := range from {
		at := i - before
		switch {
		case at >= 0 && at < size:
		case p.mode == "constant":
			at = -1
		case p.mode == "edge":
			at = max(0, min(at, size-1))
		case p.mode == "wrap":
			at = ((at % size) + size) % size
		default: // back and forth, without the ends twice
			period := max(1, 2*(size-1))
			if at = ((at % period) + period) % period; at >= size {
				at = period - at
			}
		}
		from[i] = at
	}
	return from, nil
}

// fillFrom fills a tensor with the elements that the sources of its dimensions name.
func fillFrom(out, in, value *tensor.Tensor, sources [][]int) {
	rank := len(sources)
	strides := stretched(in.Shape, rank)
	index := make([]int, rank)
	for i := range elements(out) {
		at, inside := 0, true
		for d, k := range index {
			source := sources[d][k]
			inside = inside && source >= 0
			at += source * strides[d]
		}
		switch {
		case inside:
			copyElements(out, i, in, at, 1)
		case value != nil:
			copyElements(out, i, value, 0, 1)
		case out.Type == tensor.Bytes:
			out.Strings[i] = nil
		default:
			size := out.Type.Size()
			clear(out.Data[i*size : (i+1)*size])
		}
		forward(index, func(d int) int { return len(sources[d]) })
	}
}
