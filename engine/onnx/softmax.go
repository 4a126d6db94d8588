package onnx

import (
	"math"

	"weir/internal/tensor"
)

// softmax makes Softmax and LogSoftmax. Before set 13 the axis and those after it are one.
func softmax(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis, flat := softmaxAxis(n)
	logarithm := n.op == "LogSoftmax"
	n.gives(n.typ(0))
	n.labelsOf(0)
	switch n.typ(0) {
	case tensor.Float32:
		return softmaxOf[float32](axis, flat, logarithm), nil
	case tensor.Float64:
		return softmaxOf[float64](axis, flat, logarithm), nil
	}
	return nil, n.oneOf(0, floating...)
}

// softmaxAxis is the axis of a softmax, and whether those after it belong to it.
func softmaxAxis(n *node) (axis int64, flat bool) {
	flat = n.version < 13
	return n.integer("axis", map[bool]int64{true: 1, false: -1}[flat]), flat
}

// softmaxLines is the shape whose lines along an axis a softmax goes over.
func softmaxLines(shape []int64, axis int64, flat bool) (of []int64, at int, err error) {
	if at, err = axisOf(axis, len(shape)); err != nil || !flat {
		return shape, at, err
	}
	return []int64{product(shape[:at]), product(shape[at:])}, 1, nil
}

func softmaxOf[T float](axis int64, flat, logarithm bool) kernel {
	return func(c *call) error {
		in := c.in(0)
		shape, at, err := softmaxLines(in.Shape, axis, flat)
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](in)
		lines(shape, at, func(_, first, stride, size int) {
			top := math.Inf(-1)
			for i := range size {
				top = max(top, float64(from[first+i*stride]))
			}
			sum := 0.0
			for i := range size {
				sum += math.Exp(float64(from[first+i*stride]) - top)
			}
			for i := range size {
				x := float64(from[first+i*stride]) - top
				if logarithm {
					to[first+i*stride] = T(x - math.Log(sum))
				} else {
					to[first+i*stride] = T(math.Exp(x) / sum)
				}
			}
		})
		return nil
	}
}
