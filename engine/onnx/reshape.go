package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// renamed is another name for its input.
func renamed(n *node) (kernel, error) {
	n.lists, n.same = []int{0}, n.in
	return nil, n.takes(1, 1)
}

// identity passes input 0 on; at inference Dropout does no more, and its mask keeps
// everything.
func identity(n *node) (kernel, error) {
	if err := n.takes(1, 3); err != nil {
		return nil, err
	}
	n.ignore("ratio", "seed")
	n.gives(n.typ(0))
	if n.op == "Dropout" {
		n.gives(n.typ(0), tensor.Bool)
		if training := n.constant(2); n.has(2) && (training == nil || len(training.Data) != 1 || training.Data[0] != 0) {
			return nil, fmt.Errorf("in training mode is not supported; %s", wayOut)
		}
	}
	n.alias = true
	n.labelsOf(0)
	return func(c *call) error {
		if c.wants(1) {
			mask, err := c.out(1, c.in(0).Shape...)
			if err != nil {
				return err
			}
			for i := range mask.Data {
				mask.Data[i] = 1
			}
		}
		return c.share(c.in(0).Shape)
	}, nil
}

// within is an index from 0 to n, where negative ones count from the end.
func within(i int64, n int) int {
	if i < 0 {
		i += int64(n)
	}
	return int(max(0, min(i, int64(n))))
}

// elements is how many a tensor has.
func elements(t *tensor.Tensor) int {
	if t.Type == tensor.Bytes {
		return len(t.Strings)
	}
	return len(t.Data) / t.Type.Size()
}

// reshape gives the elements another shape: -1 is what is left, 0 the input's own size.
func reshape(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	zeros := n.integer("allowzero", 0) != 0
	n.gives(n.typ(0))
	n.alias = true
	return func(c *call) error {
		shape, err := reshaped(c.in(0), tensor.Values[int64](c.in(1)), zeros)
		if err != nil {
			return err
		}
		return c.share(shape)
	}, n.oneOf(1, tensor.Int64)
}

func reshaped(t *tensor.Tensor, sizes []int64, zeros bool) ([]int64, error) {
	wrong := fmt.Errorf("shape %v cannot become %v", t.Shape, sizes)
	shape := slices.Clone(sizes)
	if len(shape) > maxRank {
		return nil, wrong
	}
	rest, known := -1, int64(1)
	n := int64(elements(t))
	for i, size := range shape {
		switch {
		case size == -1 && rest < 0:
			rest = i
			continue
		case size == 0 && !zeros:
			if i >= len(t.Shape) {
				return nil, wrong
			}
			shape[i] = t.Shape[i]
		case size < 0:
			return nil, wrong
		}
		if shape[i] != 0 && known > math.MaxInt64/shape[i] {
			return nil, wrong
		}
		known *= shape[i]
	}
	if rest >= 0 {
		switch {
		case known == 0 && n == 0:
			shape[rest] = 0
		case known == 0 || n%known != 0:
			return nil, wrong
		default:
			shape[rest] = n / known
		}
		known *= shape[rest]
	}
	if known != n {
		return nil, wrong
	}
	return shape, nil
}

// flatten makes a matrix: the sizes before axis, and those from it on.
func flatten(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis := n.integer("axis", 1)
	n.gives(n.typ(0))
	n.alias = true
	return func(c *call) error {
		shape := c.in(0).Shape
		at := axis
		if at < 0 {
			at += int64(len(shape))
		}
		if at < 0 || at > int64(len(shape)) {
			return fmt.Errorf("axis %d of shape %v", axis, shape)
		}
		return c.share([]int64{product(shape[:at]), product(shape[at:])})
	}, nil
}

func product(sizes []int64) int64 {
	n := int64(1)
	for _, size := range sizes {
		n *= size
	}
	return n
}

// axisOf is an axis of a tensor of that rank; negative ones count from the end.
func axisOf(axis int64, rank int) (int, error) {
	at := axis
	if at < 0 {
		at += int64(rank)
	}
	if at < 0 || at >= int64(rank) {
		return 0, fmt.Errorf("axis %d of a tensor of %d dimensions", axis, rank)
	}
	return int(at), nil
}

// axesOf is the list of axes of a node, an attribute before set 13 and input i since;
// nil where there is none.
func axesOf(n *node, i int) (func(c *call) []int64, error) {
	if a, ok := n.attribute("axes"); ok {
		return func(*call) []int64 { return a.ints }, nil
	}
	if !n.has(i) {
		return func(*call) []int64 { return nil }, nil
	}
	return func(c *call) []int64 { return tensor.Values[int64](c.in(i)) }, n.oneOf(i, tensor.Int64)
}

func squeeze(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	axes, err := axesOf(n, 1)
	n.gives(n.typ(0))
	n.alias = true
	return func(c *call) error {
		from, list := c.in(0).Shape, axes(c)
		drop := make([]bool, len(from))
		for i := range from {
			drop[i] = list == nil && from[i] == 1
		}
		for _, axis := range list {
			at, err := axisOf(axis, len(from))
			if err != nil {
				return err
			}
			if from[at] != 1 {
				return fmt.Errorf("axis %d of shape %v is not of size 1", axis, from)
			}
			drop[at] = true
		}
		var shape []int64
		for i, size := range from {
			if !drop[i] {
				shape = append(shape, size)
			}
		}
		return c.share(shape)
	}, err
}

func unsqueeze(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	axes, err := axesOf(n, 1)
	n.gives(n.typ(0))
	n.alias = true
	return func(c *call) error {
		from, list := c.in(0).Shape, axes(c)
		rank := len(from) + len(list)
		if rank > maxRank {
			return fmt.Errorf("%d dimensions; the limit is %d", rank, maxRank)
		}
		shape := make([]int64, rank)
		for _, axis := range list {
			at, err := axisOf(axis, rank)
			if err != nil {
				return err
			}
			if shape[at] == 1 {
				return fmt.Errorf("axis %d is listed twice", axis)
			}
			shape[at] = 1
		}
		next := 0
		for i := range shape {
			if shape[i] == 0 {
				shape[i] = from[next]
				next++
			}
		}
		return c.share(shape)
	}, err
}

// concat joins tensors along an axis.
func concat(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	axis := n.integer("axis", 1)
	for i := range n.in {
		if n.typ(i) != n.typ(0) {
			return nil, fmt.Errorf("input %d is %v, input 0 is %v", i, n.typ(i), n.typ(0))
		}
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		first := c.in(0).Shape
		at, err := axisOf(axis, len(first))
		if err != nil {
			return err
		}
		shape := slices.Clone(first)
		for i := 1; i < c.inputs(); i++ {
			s := c.in(i).Shape
			if len(s) != len(first) || !slices.Equal(s[:at], first[:at]) || !slices.Equal(s[at+1:], first[at+1:]) {
				return fmt.Errorf("shapes %v and %v do not join along axis %d", first, s, axis)
			}
			shape[at] += s[at]
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		row, done := int(product(shape[at:])), 0
		for i := range c.inputs() {
			width := int(product(c.in(i).Shape[at:]))
			for r := range int(product(shape[:at])) {
				copyElements(out, r*row+done, c.in(i), r*width, width)
			}
			done += width
		}
		return nil
	}, n.oneOf(0, anything...)
}

// split cuts a tensor along an axis, in equal parts where no sizes are given.
func split(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	axis, fixed := n.integer("axis", 0), n.integers("split")
	n.ignore("num_outputs") // as many as the node names
	for i := range n.types {
		n.types[i] = n.typ(0)
	}
	if n.has(1) {
		if err := n.oneOf(1, tensor.Int64); err != nil {
			return nil, err
		}
	}
	return func(c *call) error {
		in := c.in(0)
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		sizes := fixed
		if t := c.in(1); t != nil {
			sizes = tensor.Values[int64](t)
		}
		if sizes == nil {
			sizes = parts(in.Shape[at], int64(len(c.s.out)))
		}
		return cut(c, at, sizes)
	}, n.oneOf(0, anything...)
}

// parts are the sizes of n parts: equal ones, and the last what is left.
func parts(size, n int64) []int64 {
	each := (size + n - 1) / n
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = max(0, min(each, size))
		size -= sizes[i]
	}
	return sizes
}

func cut(c *call, at int, sizes []int64) error {
	in := c.in(0)
	left := in.Shape[at]
	for _, size := range sizes {
		if size < 0 || size > left {
			left = -1
			break
		}
		left -= size
	}
	if left != 0 || len(sizes) != len(c.s.out) {
		return fmt.Errorf("axis %d of shape %v is not split into %v", at, in.Shape, sizes)
	}
	shape := slices.Clone(in.Shape)
	row, done := int(product(in.Shape[at:])), 0
	for i, size := range sizes {
		shape[at] = size
		width := int(product(shape[at:]))
		if c.wants(i) {
			out, err := c.out(i, shape...)
			if err != nil {
				return err
			}
			for r := range int(product(shape[:at])) {
				copyElements(out, r*width, in, r*row+done, width)
			}
		}
		done += width
	}
	return nil
}
