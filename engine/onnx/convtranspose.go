package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// convTranspose is the gradient of a convolution: every input element adds a window
// to the output.
func convTranspose(n *node) (kernel, error) {
	if err := n.takes(2, 3); err != nil {
		return nil, err
	}
	for i := range n.in {
		if err := n.oneOf(i, tensor.Float32); err != nil {
			return nil, err
		}
	}
	v, err := convolutionOf(&n.attributeReader)
	t := transposition{v, n.integers("output_shape"), n.integers("output_padding")}
	if slices.ContainsFunc(slices.Concat(t.out, t.padding), func(v int64) bool { return v < 0 || v > maxWindow }) {
		return nil, fmt.Errorf("output_shape %v and output_padding %v; sizes are 0 to %d", t.out, t.padding, maxWindow)
	}
	var turned []float32
	if w := n.constant(1); w != nil && len(w.Shape) > 2 {
		turned = t.turn(w)
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		p, err := t.plan(c.in(0), c.in(1), c.in(2))
		if err != nil {
			return err
		}
		w := turned
		if w == nil {
			w = t.turn(c.in(1))
		}
		out, err := c.out(0, p.shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[float32](out)
		clear(to)
		if err := p.spread(c, to, tensor.Values[float32](c.in(0)), w); err != nil {
			return err
		}
		if bias := c.in(2); bias != nil {
			addChannels(to, tensor.Values[float32](bias), p.size)
		}
		return nil
	}, err
}

// transposition is what the attributes of a ConvTranspose say.
type transposition struct {
	convolution
	out, padding []int64 // sizes of the output; what is added to them
}

// turn orders the weights, [inputs, outputs of a group, window], as [groups, outputs of
// a group and window, inputs of a group].
func (t *transposition) turn(w *tensor.Tensor) []float32 {
	from := tensor.Values[float32](w)
	inputs, width := int(w.Shape[0]), int(product(w.Shape[1:]))
	each := inputs / int(t.groups)
	if len(from) == 0 {
		return from
	}
	to := make([]float32, 0, len(from))
	for g := range int(t.groups) {
		to = append(to, transposed(from[g*each*width:(g+1)*each*width], each, width)...)
	}
	return to
}

// plan is that of the convolution whose gradient it is: its positions are the input's.
func (t *transposition) plan(x, w, bias *tensor.Tensor) (*convPlan, error) {
	xs, ws := x.Shape, w.Shape
	if len(xs) < 3 || len(xs) != len(ws) || xs[1] != ws[0] || ws[0]%t.groups != 0 {
		return nil, fmt.Errorf("weights of shape %v in %d groups for an input of shape %v", ws, t.groups, xs)
	}
	dims, sizes := len(xs)-2, ws[2:]
	if t.sizes != nil && !slices.Equal(t.sizes, sizes) {
		return nil, fmt.Errorf("weights of shape %v with a kernel_shape %v", ws, t.sizes)
	}
	for _, list := range [][]int64{t.strides, t.dilations, t.padding, t.out} {
		if list != nil && len(list) != dims {
			return nil, fmt.Errorf("%v for %d dimensions", list, dims)
		}
	}
	if t.pads != nil && len(t.pads) != 2*dims {
		return nil, fmt.Errorf("pads %v for %d dimensions", t.pads, dims)
	}
	channels := ws[1] * t.groups
	if bias != nil && (len(bias.Shape) != 1 || bias.Shape[0] != channels) {
		return nil, fmt.Errorf("a bias of shape %v for %d channels", bias.Shape, channels)
	}
	p := &convPlan{
		shape: []int64{xs[0], channels}, images: int(xs[0]), groups: int(t.groups), inputs: int(xs[1] / t.groups), outputs: int(ws[1]),
		positions: int(product(xs[2:])), elements: int(product(sizes)),
	}
	p.factor = p.inputs
	for i := range dims {
		if xs[2+i] > maxRunBytes || sizes[i] > maxWindow {
			return nil, fmt.Errorf("a window of %d over a dimension of %d", sizes[i], xs[2+i])
		}
		d := t.widened(i, dims, int(xs[2+i]), int(sizes[i]))
		if d.in < 0 {
			return nil, fmt.Errorf("pads %v are more than the output has", t.pads)
		}
		p.dims, p.shape = append(p.dims, d), append(p.shape, int64(d.in))
	}
	if _, err := tensor.Elements(xs[2:], maxRunBytes); err != nil {
		return nil, fmt.Errorf("the input is too large: %w", err)
	}
	if _, err := tensor.Elements(p.shape, maxRunBytes); err != nil {
		return nil, fmt.Errorf("the output is too large: %w", err)
	}
	p.size = int(product(p.shape[2:]))
	return p, nil
}

// widened is dimension i: its windows are as many as the input's size.
func (t *transposition) widened(i, dims, size, window int) dimension {
	at := func(list []int64, i, otherwise int) int {
		if list == nil {
			return otherwise
		}
		return int(list[i])
	}
	d := dimension{
		out: size, window: window, step: at(t.strides, i, 1), dilation: at(t.dilations, i, 1),
		before: at(t.pads, i, 0), after: at(t.pads, dims+i, 0),
	}
	whole := d.step*(size-1) + at(t.padding, i, 0) + d.span()
	same := t.auto == "SAME_UPPER" || t.auto == "SAME_LOWER"
	switch {
	case t.out != nil:
		d.in = int(t.out[i])
	case same:
		d.in = size * d.step
	default:
		d.in = whole - d.before - d.after
		return d
	}
	border := max(0, whole-d.in)
	d.before = border - border/2
	if t.auto == "SAME_UPPER" {
		d.before = border / 2
	}
	return d
}

// spread adds the products of all input elements to the output. w is as turn orders it.
func (p *convPlan) spread(c *call, to, x, w []float32) error {
	if err := c.f.charge(int64(len(x)) / 4 * int64(p.outputs*p.elements)); err != nil || len(to) == 0 {
		return err
	}
	row, err := scratch[float32](c, p.positions)
	if err != nil {
		return err
	}
	element, position := make([]int, len(p.dims)), make([]int, len(p.dims))
	for g := range p.images * p.groups {
		input := x[g*p.inputs*p.positions : (g+1)*p.inputs*p.positions]
		weights := w[g%p.groups*p.outputs*p.elements*p.inputs:]
		for o := range p.outputs {
			plane := to[(g*p.outputs+o)*p.size:][:p.size]
			clear(element)
			for k := range p.elements {
				at := (o*p.elements + k) * p.inputs
				vectorProducts(row, weights[at:at+p.inputs], input)
				clear(position)
				p.addRow(plane, row, element, position)
				forward(element, func(d int) int { return p.dims[d].window })
			}
		}
	}
	return nil
}

// addRow adds what one element of the windows gives.
func (p *convPlan) addRow(to, row []float32, element, position []int) {
	for _, v := range row {
		at, inside := 0, true
		for d := range p.dims {
			i := p.dims[d].at(position[d], element[d])
			inside = inside && i >= 0 && i < p.dims[d].in
			at = at*p.dims[d].in + i
		}
		if inside {
			to[at] += v
		}
		forward(position, func(d int) int { return p.dims[d].out })
	}
}
