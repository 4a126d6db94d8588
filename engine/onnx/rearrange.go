package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// trilu keeps the upper or the lower triangle of matrices, from diagonal k on.
func trilu(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	upper := n.integer("upper", 1) != 0
	if n.has(1) {
		if err := n.oneOf(1, tensor.Int64); err != nil {
			return nil, err
		}
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		in, k := c.in(0), int64(0)
		if t := c.in(1); t != nil {
			if elements(t) != 1 {
				return fmt.Errorf("%d diagonals", elements(t))
			}
			k = tensor.Values[int64](t)[0]
		}
		rank := len(in.Shape)
		if rank < 2 {
			return fmt.Errorf("shape %v has no matrices", in.Shape)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		rows, columns, size := in.Shape[rank-2], in.Shape[rank-1], in.Type.Size()
		k = max(-rows, min(k, columns))
		copy(out.Data, in.Data)
		for at := 0; at < len(out.Data); at += int(columns) * size {
			row := int64(at/size) / columns % rows
			edge := int(max(0, min(row+k, columns))) // where the upper triangle begins
			if upper {
				clear(out.Data[at : at+edge*size])
			} else {
				edge = int(max(0, min(row+k+1, columns)))
				clear(out.Data[at+edge*size : at+int(columns)*size])
			}
		}
		return nil
	}, n.oneOf(0, append([]tensor.Type{tensor.Bool}, numbers...)...)
}

// nonZero lists the indices of the elements that are not zero, a column each.
func nonZero(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Int64)
	return func(c *call) error {
		in := c.in(0)
		size := in.Type.Size()
		var found []int
		for i := range elements(in) {
			if slices.ContainsFunc(in.Data[i*size:(i+1)*size], func(b byte) bool { return b != 0 }) && !negativeZero(in, i) {
				found = append(found, i)
			}
		}
		shape := in.Shape
		if len(shape) == 0 {
			shape = []int64{1}
		}
		out, err := c.out(0, int64(len(shape)), int64(len(found)))
		if err != nil {
			return err
		}
		to := tensor.Values[int64](out)
		for k, i := range found {
			for d, size := range slices.Backward(shape) {
				to[d*len(found)+k] = int64(i) % size
				i /= int(size)
			}
		}
		return nil
	}, n.oneOf(0, append([]tensor.Type{tensor.Bool}, numbers...)...)
}

func negativeZero(t *tensor.Tensor, i int) bool {
	switch t.Type {
	case tensor.Float32:
		return tensor.Values[float32](t)[i] == 0
	case tensor.Float64:
		return tensor.Values[float64](t)[i] == 0
	}
	return false
}

// eyeLike has ones along a diagonal of a matrix of the input's shape.
func eyeLike(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	typ, k := n.typ(0), n.integer("k", 0)
	if kind := n.integer("dtype", 0); kind != 0 {
		var err error
		if typ, err = elementType(kind); err != nil {
			return nil, err
		}
	}
	n.gives(typ)
	one := tensor.Tensor{Type: typ}
	switch typ {
	case tensor.Float32:
		one = tensor.Of("", typ, nil, []float32{1})
	case tensor.Float64:
		one = tensor.Of("", typ, nil, []float64{1})
	default:
		if !slices.Contains(anything, typ) || typ == tensor.Bytes {
			return nil, fmt.Errorf("of %v is not supported; %s", typ, wayOut)
		}
		one.Data = aligned(typ.Size())
		one.Data[0] = 1
	}
	return func(c *call) error {
		shape := c.in(0).Shape
		if len(shape) != 2 {
			return fmt.Errorf("shape %v is no matrix", shape)
		}
		out, err := c.out(0, shape...)
		if err != nil || len(out.Data) == 0 {
			return err
		}
		clear(out.Data)
		for r := range shape[0] {
			if k < -shape[0] || k > shape[1] {
				break
			}
			if column := r + k; column >= 0 && column < shape[1] {
				copyElements(out, int(r*shape[1]+column), &one, 0, 1)
			}
		}
		return nil
	}, nil
}

// depthSpace makes DepthToSpace and SpaceToDepth: blocks of an image become channels,
// or the other way.
func depthSpace(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	b := n.integer("blocksize", 0)
	if b < 1 || b > maxWindow {
		return nil, fmt.Errorf("blocksize is %d; it is 1 to %d", b, maxWindow)
	}
	down := n.op == "SpaceToDepth"
	mode := "DCR"
	if !down {
		mode = n.str("mode", "DCR")
	}
	if mode != "DCR" && mode != "CRD" {
		return nil, fmt.Errorf("mode %q is unknown", mode)
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		in := c.in(0)
		s := in.Shape
		if len(s) != 4 || down && (s[2]%b != 0 || s[3]%b != 0) || !down && s[1]%(b*b) != 0 {
			return fmt.Errorf("shape %v in blocks of %d", s, b)
		}
		// The input's dimensions taken apart, the order in which they make the output, and its shape.
		apart, order, shape := []int64{s[0], b, b, s[1] / (b * b), s[2], s[3]}, []int{0, 3, 4, 1, 5, 2}, []int64{s[0], s[1] / (b * b), s[2] * b, s[3] * b}
		switch {
		case down:
			apart, order, shape = []int64{s[0], s[1], s[2] / b, b, s[3] / b, b}, []int{0, 3, 5, 1, 2, 4}, []int64{s[0], s[1] * b * b, s[2] / b, s[3] / b}
		case mode == "CRD":
			apart, order = []int64{s[0], s[1] / (b * b), b, b, s[2], s[3]}, []int{0, 1, 4, 2, 5, 3}
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		view := *out
		view.Shape = make([]int64, len(order))
		steps, strides := make([]int, len(order)), stretched(apart, len(apart))
		for i, d := range order {
			view.Shape[i], steps[i] = apart[d], strides[d]
		}
		gatherFrom(&view, in, steps, 0)
		return nil
	}, n.oneOf(0, anything...)
}

// reverseSequence turns the first elements of each row of a batch around.
func reverseSequence(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	batch, time := n.integer("batch_axis", 1), n.integer("time_axis", 0)
	if min(batch, time) != 0 || max(batch, time) != 1 {
		return nil, fmt.Errorf("batch_axis %d and time_axis %d are not 0 and 1", batch, time)
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, lengths := c.in(0), tensor.Values[int64](c.in(1))
		if len(in.Shape) < 2 || int64(len(lengths)) != in.Shape[batch] {
			return fmt.Errorf("%d lengths for shape %v", len(lengths), in.Shape)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil || elements(out) == 0 {
			return err
		}
		width := int(product(in.Shape[2:]))
		at := func(b, t int) int {
			if batch == 0 {
				return (b*int(in.Shape[1]) + t) * width
			}
			return (t*int(in.Shape[1]) + b) * width
		}
		for b, n := range lengths {
			if n < 0 || n > in.Shape[time] {
				return fmt.Errorf("a sequence of %d of %d", n, in.Shape[time])
			}
			for t := range int(in.Shape[time]) {
				from := t
				if t < int(n) {
					from = int(n) - 1 - t
				}
				copyElements(out, at(b, t), in, at(b, from), width)
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}
