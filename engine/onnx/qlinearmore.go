package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// qLinearConcat joins tensors of bytes, each with its own scale, in those of the output.
func qLinearConcat(n *node) (kernel, error) {
	if len(n.in) < 5 || len(n.in)%3 != 2 || len(n.in) > maxNames {
		return nil, fmt.Errorf("%d inputs; two, and three for each tensor are expected", len(n.in))
	}
	for i := range n.in {
		if i == 1 || i > 1 && i%3 != 0 {
			if err := byteTypes(&n.operands, i); err != nil {
				return nil, err
			}
		}
		if !n.has(i) {
			return nil, fmt.Errorf("input %d is left out", i)
		}
	}
	axis := n.integer("axis", 0)
	n.gives(n.typ(1))
	return func(c *call) error {
		first := c.in(2).Shape
		at, err := axisOf(axis, len(first))
		if err != nil {
			return err
		}
		shape := slices.Clone(first)
		for i := 5; i < c.inputs(); i += 3 {
			s := c.in(i).Shape
			if len(s) != len(first) || !slices.Equal(s[:at], first[:at]) || !slices.Equal(s[at+1:], first[at+1:]) {
				return fmt.Errorf("shapes %v and %v do not join along axis %d", first, s, axis)
			}
			shape[at] += s[at]
		}
		scaleY, zeroY, err := quantizedBy{0, 1}.of(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, shape...)
		if err != nil || len(out.Data) == 0 {
			return err
		}
		low, high := byteRange(out.Type)
		row, done := int(product(shape[at:])), 0
		for i := 2; i < c.inputs(); i += 3 {
			scale, zero, err := quantizedBy{i + 1, i + 2}.of(c)
			if err != nil {
				return err
			}
			width := int(product(c.in(i).Shape[at:]))
			for k, q := range wholes(c.in(i)) {
				if scale != scaleY || zero != zeroY {
					q = quantize(float32(q-zero)*scale, scaleY, zeroY, low, high)
				}
				out.Data[k/width*row+done+k%width] = byte(q)
			}
			done += width
		}
		return nil
	}, nil
}

// qLinearPool makes QLinearAveragePool and QLinearGlobalAveragePool.
func qLinearPool(n *node) (kernel, error) {
	if err := n.takes(4, 5); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 4); err != nil {
		return nil, err
	}
	if n.integer("channels_last", 0) != 0 {
		return nil, fmt.Errorf("channels_last is not supported; %s", wayOut)
	}
	p := pooling{op: "AveragePool", global: n.op == "QLinearGlobalAveragePool"}
	if !p.global {
		var err error
		if p.windows, err = windowsOf(&n.attributeReader); err != nil {
			return nil, err
		}
		if p.sizes == nil {
			return nil, errors.New("there is no kernel_shape")
		}
		p.ceil, p.border = n.integer("ceil_mode", 0) != 0, n.integer("count_include_pad", 0) != 0
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 3 {
			return fmt.Errorf("shape %v has no channels with dimensions", in.Shape)
		}
		dims, shape, err := p.laid(in.Shape)
		if err != nil {
			return err
		}
		return c.throughFloats(shape, func(x, y []float32) error {
			return overWindows(c, &p, dims, y, nil, x, int(in.Shape[0]*in.Shape[1]))
		})
	}, nil
}

// qLinearSoftmax is a softmax of bytes.
func qLinearSoftmax(n *node) (kernel, error) {
	if err := n.takes(4, 5); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 4); err != nil {
		return nil, err
	}
	axis, flat := n.integer("axis", -1), n.integer("opset", 13) < 13
	n.gives(n.typ(0))
	return func(c *call) error {
		shape, at, err := softmaxLines(c.in(0).Shape, axis, flat)
		if err != nil {
			return err
		}
		return c.throughFloats(c.in(0).Shape, func(x, y []float32) error {
			lines(shape, at, func(_, first, stride, size int) {
				top, sum := math.Inf(-1), 0.0
				for i := range size {
					top = max(top, float64(x[first+i*stride]))
				}
				for i := range size {
					sum += math.Exp(float64(x[first+i*stride]) - top)
				}
				for i := range size {
					y[first+i*stride] = float32(math.Exp(float64(x[first+i*stride])-top) / sum)
				}
			})
			return nil
		})
	}, nil
}

// throughFloats computes bytes from bytes by way of float32: inputs 1 to 4 are the
// scales and zero points of both.
func (c *call) throughFloats(shape []int64, f func(x, y []float32) error) error {
	scaleX, zeroX, err := quantizedBy{1, 2}.of(c)
	if err != nil {
		return err
	}
	scaleY, zeroY, err := quantizedBy{3, 4}.of(c)
	if err != nil {
		return err
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	whole := wholes(c.in(0))
	x, y := make([]float32, len(whole)), make([]float32, len(out.Data))
	for i, q := range whole {
		x[i] = float32(q-zeroX) * scaleX
	}
	if err := f(x, y); err != nil {
		return err
	}
	low, high := byteRange(out.Type)
	for i, v := range y {
		out.Data[i] = byte(quantize(v, scaleY, zeroY, low, high))
	}
	return nil
}
