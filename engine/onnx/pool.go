package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// pool makes MaxPool, AveragePool and LpPool, and those over all of a channel.
func pool(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	p := pooling{op: n.op}
	switch n.op {
	case "GlobalMaxPool":
		p.op, p.global = "MaxPool", true
	case "GlobalAveragePool":
		p.op, p.global = "AveragePool", true
	case "GlobalLpPool":
		p.op, p.global = "LpPool", true
	}
	if !p.global {
		var err error
		if p.windows, err = windowsOf(&n.attributeReader); err != nil {
			return nil, err
		}
		if p.sizes == nil {
			return nil, errors.New("there is no kernel_shape")
		}
		p.ceil = n.integer("ceil_mode", 0) != 0
	}
	switch p.op {
	case "LpPool":
		p.power = n.integer("p", 2)
		if p.power < 1 {
			return nil, fmt.Errorf("p is %d", p.power)
		}
	case "AveragePool":
		p.border = !p.global && n.integer("count_include_pad", 0) != 0
	case "MaxPool":
		p.columns = !p.global && n.integer("storage_order", 0) != 0
	}
	n.gives(n.typ(0), tensor.Int64)
	if p.op != "MaxPool" || p.global {
		n.gives(n.typ(0), tensor.Invalid)
		return poolOf[float32](p), n.oneOf(0, tensor.Float32)
	}
	switch n.typ(0) {
	case tensor.Float64:
		return poolOf[float64](p), nil
	case tensor.Int8:
		return poolOf[int8](p), nil
	case tensor.Uint8:
		return poolOf[uint8](p), nil
	}
	return poolOf[float32](p), n.oneOf(0, tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8)
}

// pooling is what a node says of its pool.
type pooling struct {
	windows
	op      string
	global  bool
	border  bool  // an average counts the border's elements as zeros
	columns bool  // indices count along the first of the dimensions
	power   int64 // of LpPool
}

func poolOf[T float32 | float64 | int8 | uint8](p pooling) kernel {
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 2 || !p.global && len(in.Shape) < 3 {
			return fmt.Errorf("shape %v has no channels with dimensions", in.Shape)
		}
		dims, shape, err := p.laid(in.Shape)
		if err != nil {
			return err
		}
		var to []T
		var places []int64
		if c.wants(0) {
			out, err := c.out(0, shape...)
			if err != nil {
				return err
			}
			to = tensor.Values[T](out)
		}
		if c.wants(1) {
			out, err := c.out(1, shape...)
			if err != nil {
				return err
			}
			places = tensor.Values[int64](out)
		}
		return overWindows(c, &p, dims, to, places, tensor.Values[T](in), int(in.Shape[0]*in.Shape[1]))
	}
}

// laid are the windows over an input of that shape, and the output's shape.
func (p *pooling) laid(in []int64) (dims []dimension, shape []int64, err error) {
	if p.global {
		shape = append(shape, in[:2]...)
		for _, size := range in[2:] {
			if size < 1 || size > maxRunBytes {
				return nil, nil, fmt.Errorf("a pool over shape %v", in)
			}
			dims = append(dims, dimension{in: int(size), window: int(size), out: 1, step: 1, dilation: 1})
			shape = append(shape, 1)
		}
		return dims, shape, nil
	}
	if dims, err = p.place(in[2:], p.sizes); err != nil {
		return nil, nil, err
	}
	shape = append(append(shape, in[:2]...), counts(dims)...)
	_, err = tensor.Elements(shape, maxRunBytes)
	return dims, shape, err
}

// overWindows folds every window of every channel. The elements of a window are found
// once for all channels.
func overWindows[T float32 | float64 | int8 | uint8](c *call, p *pooling, dims []dimension, to []T, places []int64, x []T, channels int) error {
	size, positions, most := 1, 1, 1
	for _, d := range dims {
		size, positions, most = size*d.in, positions*d.out, most*min(d.window, d.in)
	}
	if err := c.f.charge(int64(channels) * int64(positions) * int64(most)); err != nil || channels == 0 || positions == 0 {
		return err
	}
	memory, err := scratch[int64](c, most)
	if err != nil {
		return err
	}
	position, element, ends := make([]int, len(dims)), make([]int, len(dims)), make([]int, len(dims))
	for at := range positions {
		window := covered(memory, dims, position, element, ends)
		count := len(window)
		if p.border {
			count = bordered(dims, position)
		}
		for ch := range channels {
			value, place := fold(p, x[ch*size:(ch+1)*size], window, count)
			if to != nil {
				to[ch*positions+at] = value
			}
			if places != nil {
				places[ch*positions+at] = int64(ch*size) + p.numbered(dims, place)
			}
		}
		forward(position, func(d int) int { return dims[d].out })
	}
	return nil
}

// covered are the elements of a channel that lie in the window at a position.
func covered(to []int64, dims []dimension, position, element, ends []int) []int64 {
	to = to[:0]
	n := 1
	for i := range dims {
		first, end := dims[i].covers(position[i])
		element[i], ends[i] = first, end
		n *= max(0, end-first)
	}
	for range n {
		at := 0
		for i := range dims {
			at = at*dims[i].in + dims[i].at(position[i], element[i])
		}
		to = append(to, int64(at))
		for i := len(dims) - 1; i >= 0; i-- {
			if element[i]++; element[i] < ends[i] {
				break
			}
			element[i], _ = dims[i].covers(position[i])
		}
	}
	return to
}

// covers says which elements of a window lie in the input: those from first to end.
func (d *dimension) covers(out int) (first, end int) {
	border := d.before - out*d.step // how far the window begins before the input
	if border > 0 {
		first = (border + d.dilation - 1) / d.dilation
	}
	if last := d.in - 1 + border; last >= 0 {
		end = min(d.window, last/d.dilation+1)
	}
	return first, end
}

// bordered counts the elements of a window that lie in the input or its border.
func bordered(dims []dimension, position []int) int {
	n := 1
	for i := range dims {
		d := dims[i]
		last := d.in + d.after - 1 + d.before - position[i]*d.step
		n *= max(0, min(d.window, last/d.dilation+1))
	}
	return n
}

// numbered is the number of an element of a channel, as MaxPool's indices count.
func (p *pooling) numbered(dims []dimension, place int64) int64 {
	if !p.columns {
		return place
	}
	index := make([]int, len(dims))
	locate(index, int(place), func(d int) int { return dims[d].in })
	at := 0
	for d, dim := range slices.Backward(dims) {
		at = at*dim.in + index[d]
	}
	return int64(at)
}

// fold is the value of a window, and of a maximum where it stands.
func fold[T float32 | float64 | int8 | uint8](p *pooling, plane []T, window []int64, count int) (value T, place int64) {
	switch p.op {
	case "MaxPool":
		if len(window) == 0 {
			return value, 0
		}
		place = window[0]
		for _, i := range window[1:] {
			if plane[i] > plane[place] {
				place = i
			}
		}
		return plane[place], place
	case "AveragePool":
		sum := 0.0
		for _, i := range window {
			sum += float64(plane[i])
		}
		return T(sum / float64(max(1, count))), 0
	}
	sum := 0.0
	for _, i := range window {
		switch x := math.Abs(float64(plane[i])); p.power {
		case 1:
			sum += x
		case 2:
			sum += x * x
		default:
			sum += math.Pow(x, float64(p.power))
		}
	}
	return T(math.Pow(sum, 1/float64(p.power))), 0
}
