package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// quantum is an element of a quantized tensor.
type quantum interface {
	int8 | uint8 | int16 | uint16 | int32
}

// quantized are the types that QuantizeLinear gives; DequantizeLinear takes Int32, too.
var quantized = []tensor.Type{tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16}

// quantizeLinear divides by a scale and rounds, ties to even: one scale for all, or for
// each index of an axis, or for each block along it.
func quantizeLinear(n *node) (kernel, error) {
	if err := n.takes(2, 3); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, tensor.Float32); err != nil {
		return nil, err
	}
	if err := n.oneOf(1, tensor.Float32); err != nil {
		return nil, err
	}
	n.ignore("saturate") // of eight-bit floats
	if precision := n.integer("precision", 0); precision != 0 && precision != 1 {
		return nil, fmt.Errorf("precision %d is not supported; %s", precision, wayOut)
	}
	to := tensor.Uint8
	if kind := n.integer("output_dtype", 0); kind != 0 {
		var err error
		if to, err = elementType(kind); err != nil {
			return nil, err
		}
	}
	if n.has(2) {
		to = n.typ(2)
	}
	n.gives(to)
	s := scaleAttributes(&n.attributeReader)
	switch to {
	case tensor.Uint8:
		return quantizing[uint8](s, 0, math.MaxUint8), nil
	case tensor.Int8:
		return quantizing[int8](s, math.MinInt8, math.MaxInt8), nil
	case tensor.Uint16:
		return quantizing[uint16](s, 0, math.MaxUint16), nil
	case tensor.Int16:
		return quantizing[int16](s, math.MinInt16, math.MaxInt16), nil
	}
	return nil, fmt.Errorf("to %v is not supported; %s", to, wayOut)
}

// dequantizeLinear is the way back.
func dequantizeLinear(n *node) (kernel, error) {
	if err := n.takes(2, 3); err != nil {
		return nil, err
	}
	if kind := n.integer("output_dtype", 1); kind != 0 && kind != 1 {
		return nil, fmt.Errorf("to element type %d is not supported; %s", kind, wayOut)
	}
	if err := n.oneOf(1, tensor.Float32); err != nil {
		return nil, err
	}
	if n.has(2) && n.typ(2) != n.typ(0) {
		return nil, fmt.Errorf("a zero point of %v for elements of %v", n.typ(2), n.typ(0))
	}
	n.gives(tensor.Float32)
	s := scaleAttributes(&n.attributeReader)
	switch n.typ(0) {
	case tensor.Uint8:
		return dequantizing[uint8](s), nil
	case tensor.Int8:
		return dequantizing[int8](s), nil
	case tensor.Uint16:
		return dequantizing[uint16](s), nil
	case tensor.Int16:
		return dequantizing[int16](s), nil
	case tensor.Int32:
		return dequantizing[int32](s), nil
	}
	return nil, n.oneOf(0, append(slices.Clone(quantized), tensor.Int32)...)
}

// scales is how the scales and zero points of a node belong to its elements.
type scales struct {
	axis, block int64
}

func scaleAttributes(r *attributeReader) scales {
	return scales{r.integer("axis", 1), r.integer("block_size", 0)}
}

// scaled are the scales and zero points of a tensor's elements.
type scaled struct {
	scale []float32
	zero  []int32 // nil: zeros

	width, size, blocks, block int // elements of an index of the axis; its size; blocks along it, and their length
	one                        bool
}

// of checks the shapes of a call's scales and zero points.
func (s scales) of(c *call) (*scaled, error) {
	in, scale, zero := c.in(0), c.in(1), c.in(2)
	r := &scaled{scale: tensor.Values[float32](scale)}
	if zero != nil {
		if elements(zero) != len(r.scale) {
			return nil, fmt.Errorf("%d zero points for %d scales", elements(zero), len(r.scale))
		}
		r.zero = wholes(zero)
	}
	if len(r.scale) == 1 && s.block == 0 {
		r.one = true
		return r, nil
	}
	at, err := axisOf(s.axis, len(in.Shape))
	if err != nil {
		return nil, err
	}
	r.size, r.width = int(in.Shape[at]), int(product(in.Shape[at+1:]))
	if s.block == 0 {
		if len(r.scale) != r.size {
			return nil, fmt.Errorf("%d scales for an axis of %d", len(r.scale), r.size)
		}
		return r, nil
	}
	blocks := (in.Shape[at] + s.block - 1) / max(1, s.block)
	if s.block < 0 || len(scale.Shape) != len(in.Shape) || scale.Shape[at] != blocks ||
		!slices.Equal(scale.Shape[:at], in.Shape[:at]) || !slices.Equal(scale.Shape[at+1:], in.Shape[at+1:]) {
		return nil, fmt.Errorf("scales of shape %v in blocks of %d along axis %d of shape %v", scale.Shape, s.block, at, in.Shape)
	}
	r.blocks, r.block = int(blocks), int(s.block)
	return r, nil
}

// at is which scale element i has.
func (r *scaled) at(i int) int {
	switch {
	case r.one:
		return 0
	case r.block == 0:
		return i / r.width % r.size
	}
	column, row := i%r.width, i/r.width
	return (row/r.size*r.blocks+row%r.size/r.block)*r.width + column
}

// zeroAt is the zero point of a scale.
func (r *scaled) zeroAt(i int) int32 {
	if r.zero == nil {
		return 0
	}
	return r.zero[i]
}

// wholes are the elements of a quantized tensor as int32.
func wholes(t *tensor.Tensor) []int32 {
	switch t.Type {
	case tensor.Int8:
		return wideInts(tensor.Values[int8](t))
	case tensor.Uint8:
		return wideInts(tensor.Values[uint8](t))
	case tensor.Int16:
		return wideInts(tensor.Values[int16](t))
	case tensor.Uint16:
		return wideInts(tensor.Values[uint16](t))
	}
	return tensor.Values[int32](t)
}

func wideInts[T quantum](from []T) []int32 {
	to := make([]int32, len(from))
	for i, x := range from {
		to[i] = int32(x)
	}
	return to
}

func quantizing[T quantum](s scales, low, high int32) kernel {
	return func(c *call) error {
		r, err := s.of(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, c.in(0).Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[T](out)
		for i, x := range tensor.Values[float32](c.in(0)) {
			k := r.at(i)
			to[i] = T(quantize(x, r.scale[k], r.zeroAt(k), low, high))
		}
		return nil
	}
}

// quantize is x in units of scale from a zero point, rounded to even, from low to high.
func quantize(x, scale float32, zero, low, high int32) int32 {
	q := math.RoundToEven(float64(x / scale))
	if q != q { // as ONNX Runtime has what is not a number
		return low
	}
	return int32(max(float64(low), min(float64(high), q+float64(zero))))
}

func dequantizing[T quantum](s scales) kernel {
	return func(c *call) error {
		r, err := s.of(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, c.in(0).Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[float32](out)
		for i, q := range tensor.Values[T](c.in(0)) {
			k := r.at(i)
			to[i] = float32(int64(q)-int64(r.zeroAt(k))) * r.scale[k]
		}
		return nil
	}
}

// dynamicQuantizeLinear finds a scale and a zero point for all elements, and quantizes
// them to Uint8. What a row becomes so depends on the whole tensor.
func dynamicQuantizeLinear(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Uint8, tensor.Float32, tensor.Uint8)
	n.b.m.mixes = true
	return func(c *call) error {
		x := tensor.Values[float32](c.in(0))
		scale, zero := dynamicScale(x)
		if c.wants(0) {
			out, err := c.out(0, c.in(0).Shape...)
			if err != nil {
				return err
			}
			for i, v := range x {
				out.Data[i] = uint8(quantize(v, scale, zero, 0, math.MaxUint8))
			}
		}
		if c.wants(1) {
			out, err := c.out(1)
			if err != nil {
				return err
			}
			tensor.Values[float32](out)[0] = scale
		}
		if !c.wants(2) {
			return nil
		}
		out, err := c.out(2)
		if err == nil {
			out.Data[0] = uint8(zero)
		}
		return err
	}, n.oneOf(0, tensor.Float32)
}

// dynamicScale is the scale and the zero point of elements in eight bits.
func dynamicScale(x []float32) (scale float32, zero int32) {
	var low, high float32
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	scale = 1
	if low != high {
		scale = (high - low) / math.MaxUint8
	}
	z := math.RoundToEven(float64(max(0, min(math.MaxUint8, -low/scale))))
	if z != z {
		return scale, 0
	}
	return scale, int32(z)
}
