package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// rotary is RotaryEmbedding: pairs of a head's elements, neighbours or halves, are
// rotated by the angles of their place.
func rotary(n *node) (kernel, error) {
	if err := n.takes(3, 4); err != nil {
		return nil, err
	}
	interleaved, dims, count := n.integer("interleaved", 0) != 0, n.integer("rotary_embedding_dim", 0), n.integer("num_heads", 0)
	if dims < 0 || dims%2 != 0 {
		return nil, fmt.Errorf("rotary_embedding_dim is %d", dims)
	}
	for i := range 3 {
		if err := n.oneOf(i, tensor.Float32); err != nil {
			return nil, err
		}
	}
	if n.has(3) {
		if err := n.oneOf(3, tensor.Int64); err != nil {
			return nil, err
		}
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		h, err := headsOf(c.in(0), count)
		if err != nil {
			return err
		}
		out, err := c.out(0, c.in(0).Shape...)
		if err != nil || len(out.Data) == 0 {
			return err
		}
		half := int(dims / 2)
		if dims == 0 {
			half = h.size / 2
		}
		angles, err := anglesOf(c, &h, half)
		if err != nil {
			return err
		}
		to := h
		to.data = tensor.Values[float32](out)
		copy(to.data, h.data)
		for b := range h.batch {
			for s := range h.steps {
				cos, sin, err := angles(b, s)
				if err != nil {
					return err
				}
				for head := range h.count {
					rotate(to.row(b, head, s), cos, sin, interleaved)
				}
			}
		}
		return nil
	}, nil
}

// anglesOf finds the cosines and sines of a step: at its place where places are given.
func anglesOf(c *call, h *heads, half int) (func(b, s int) (cos, sin []float32, err error), error) {
	tables, places := [2]*tensor.Tensor{c.in(1), c.in(2)}, c.in(3)
	for _, t := range tables {
		rank := len(t.Shape)
		fits := half > 0 && 2*half <= h.size && rank > 0 && t.Shape[rank-1] == int64(half)
		if places == nil {
			fits = fits && rank == 3 && t.Shape[0] == int64(h.batch) && t.Shape[1] == int64(h.steps)
		} else {
			fits = fits && rank == 2 && t.Shape[0] == tables[0].Shape[0]
		}
		if !fits {
			return nil, fmt.Errorf("angles of shape %v for %d pairs of heads of %d", t.Shape, half, h.size)
		}
	}
	if places != nil && (len(places.Shape) != 2 || places.Shape[0] != int64(h.batch) || places.Shape[1] != int64(h.steps)) {
		return nil, fmt.Errorf("places of shape %v for %d batches of %d steps", places.Shape, h.batch, h.steps)
	}
	cos, sin := tensor.Values[float32](tables[0]), tensor.Values[float32](tables[1])
	return func(b, s int) (_, _ []float32, err error) {
		at := b*h.steps + s
		if places != nil {
			if at, err = indexOf(tensor.Values[int64](places)[at], tables[0].Shape[0]); err != nil {
				return nil, nil, err
			}
		}
		return cos[at*half : (at+1)*half], sin[at*half : (at+1)*half], nil
	}, nil
}

// rotate turns the pairs of a head in place.
func rotate(x, cos, sin []float32, interleaved bool) {
	half := len(cos)
	for i := range half {
		a, b := i, half+i
		if interleaved {
			a, b = 2*i, 2*i+1
		}
		x[a], x[b] = cos[i]*x[a]-sin[i]*x[b], sin[i]*x[a]+cos[i]*x[b]
	}
}
