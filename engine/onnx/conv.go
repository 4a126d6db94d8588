package onnx

import (
	"fmt"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// conv is a convolution over any number of dimensions, in groups of channels. For each
// stretch of output positions the inputs of their windows are laid out as a matrix, of
// which the weights are a factor. Every sum takes its products in the order of the
// weights, so that it does not depend on the batch.
func conv(n *node) (kernel, error) {
	if err := n.takes(2, 4); err != nil {
		return nil, err
	}
	for i := range n.in {
		if n.has(i) {
			if err := n.oneOf(i, tensor.Float32); err != nil {
				return nil, err
			}
		}
	}
	var f func(x float64) float64
	if n.op == "FusedConv" {
		var err error
		if f, err = fusedActivation(&n.attributeReader); err != nil {
			return nil, err
		}
	} else if len(n.in) > 3 {
		return nil, fmt.Errorf("%d inputs; 2 to 3 are expected", len(n.in))
	}
	v, err := convolutionOf(&n.attributeReader)
	n.gives(tensor.Float32)
	return func(c *call) error {
		p, err := v.plan(c.in(0), c.in(1), c.in(2))
		if err != nil {
			return err
		}
		out, err := c.out(0, p.shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[float32](out)
		if err := convolve(c, p, to, tensor.Values[float32](c.in(0)), tensor.Values[float32](c.in(1)), vectorProducts); err != nil {
			return err
		}
		if bias := c.in(2); bias != nil {
			addChannels(to, tensor.Values[float32](bias), p.positions)
		}
		return finishConv(c.in(3), to, f)
	}, err
}

// fusedActivation is what a FusedConv does to its sums.
func fusedActivation(r *attributeReader) (func(x float64) float64, error) {
	name, by := r.str("activation", ""), r.floats("activation_params")
	a, ok := activations[name]
	if !ok {
		return nil, fmt.Errorf("activation %q is not supported; %s", name, wayOut)
	}
	params := [2]float64{float64(a.by[0]), float64(a.by[1])}
	for i := range min(2, len(by)) {
		params[i] = float64(by[i])
	}
	return func(x float64) float64 { return a.of(x, params[0], params[1]) }, nil
}

// finishConv adds what a FusedConv adds, and applies its activation.
func finishConv(sum *tensor.Tensor, to []float32, f func(x float64) float64) error {
	if sum != nil {
		from := tensor.Values[float32](sum)
		if len(from) != len(to) {
			return fmt.Errorf("%d elements are added to %d", len(from), len(to))
		}
		for i := range to {
			to[i] += from[i]
		}
	}
	if f != nil {
		for i, x := range to {
			to[i] = float32(f(float64(x)))
		}
	}
	return nil
}

// convolution is what the attributes of a node say of it.
type convolution struct {
	windows
	groups int64
}

func convolutionOf(r *attributeReader) (convolution, error) {
	w, err := windowsOf(r)
	v := convolution{w, r.integer("group", 1)}
	if err == nil && (v.groups < 1 || v.groups > maxWindow) {
		err = fmt.Errorf("%d groups", v.groups)
	}
	return v, err
}

// convPlan is a convolution of tensors of known shapes.
type convPlan struct {
	shape            []int64 // of the output
	images, groups   int
	inputs, outputs  int // channels of a group
	size, positions  int // of a channel: elements in, elements out
	elements, factor int // of a window; of a sum: inputs*elements
	dims             []dimension
}

// plan checks the shapes of the input, of the weights and of the bias, which may be nil.
func (v *convolution) plan(x, w, bias *tensor.Tensor) (*convPlan, error) {
	xs, ws := x.Shape, w.Shape
	if len(xs) < 3 || len(xs) != len(ws) || xs[1] != ws[1]*v.groups || ws[0]%v.groups != 0 {
		return nil, fmt.Errorf("weights of shape %v in %d groups for an input of shape %v", ws, v.groups, xs)
	}
	sizes := ws[2:]
	for i, size := range v.sizes {
		if i >= len(sizes) || size != sizes[i] {
			return nil, fmt.Errorf("weights of shape %v with a kernel_shape %v", ws, v.sizes)
		}
	}
	if bias != nil && (len(bias.Shape) != 1 || bias.Shape[0] != ws[0]) {
		return nil, fmt.Errorf("a bias of shape %v for %d channels", bias.Shape, ws[0])
	}
	dims, err := v.place(xs[2:], sizes)
	if err != nil {
		return nil, err
	}
	p := &convPlan{
		shape: append([]int64{xs[0], ws[0]}, counts(dims)...), images: int(xs[0]), groups: int(v.groups),
		inputs: int(ws[1]), outputs: int(ws[0] / v.groups), size: int(product(xs[2:])), elements: int(product(sizes)), dims: dims,
	}
	p.factor = p.inputs * p.elements
	if _, err := tensor.Elements(p.shape, maxRunBytes); err != nil {
		return nil, fmt.Errorf("the output is too large: %w", err)
	}
	p.positions = int(product(p.shape[2:]))
	return p, nil
}

// stretchBytes is how much a stretch of windows may take: it stays in a core's cache
// while the weights of all channels go over it.
const stretchBytes = 192 << 10

// stretch is how many output positions are taken at once.
func (p *convPlan) stretch() int {
	n := stretchBytes / 4 / max(1, p.factor)
	return min(p.positions, max(64, n/64*64))
}

// plain says that a window is one element and the next window the next element: the
// input is the matrix.
func (p *convPlan) plain() bool {
	for _, d := range p.dims {
		if d.window != 1 || d.step != 1 || d.in != d.out || d.before != 0 {
			return false
		}
	}
	return true
}

// products computes a row of sums: to[i] is the sum of x[j]*w[j*len(to)+i].
type products[T number] func(to []T, x, w []float32)

func vectorProducts(to, x, w []float32) { vector.Multiply(level, to, x, w) }

// convolve computes the sums of a convolution, without the bias. Borders count as 0.
func convolve[T number](c *call, p *convPlan, to []T, x, w []float32, multiply products[T]) error {
	if err := c.f.charge(int64(len(to)) / 4 * int64(p.factor)); err != nil || len(to) == 0 {
		return err
	}
	n, plain := p.stretch(), p.plain()
	var matrix []float32
	if plain {
		n = p.positions
	} else {
		var err error
		if matrix, err = scratch[float32](c, p.factor*n); err != nil {
			return err
		}
	}
	index := make([]int, 2*len(p.dims))
	for g := range p.images * p.groups {
		input := x[g*p.inputs*p.size : (g+1)*p.inputs*p.size]
		weights := w[g%p.groups*p.outputs*p.factor:]
		for from := 0; from < p.positions; from += n {
			n, factor := min(n, p.positions-from), input
			if !plain {
				factor = matrix[:p.factor*n]
				p.layOut(factor, input, from, n, index)
			}
			for o := range p.outputs {
				at := (g*p.outputs+o)*p.positions + from
				multiply(to[at:at+n], weights[o*p.factor:(o+1)*p.factor], factor)
			}
		}
	}
	return nil
}

// layOut writes the inputs of n windows, those from position from on, as a matrix: a
// row for each channel and element of a window.
func (p *convPlan) layOut(to, x []float32, from, n int, index []int) {
	element, position := index[:len(p.dims)], index[len(p.dims):]
	for ch := range p.inputs {
		clear(element)
		for k := range p.elements {
			locate(position, from, func(d int) int { return p.dims[d].out })
			row := to[(ch*p.elements+k)*n:][:n]
			p.layOutRow(row, x[ch*p.size:(ch+1)*p.size], element, position)
			forward(element, func(d int) int { return p.dims[d].window })
		}
	}
}

// layOutRow writes what one element of the windows from position on meets.
func (p *convPlan) layOutRow(row, x []float32, element, position []int) {
	last := len(p.dims) - 1
	inner := &p.dims[last]
	for len(row) > 0 {
		run := min(len(row), inner.out-position[last])
		base, inside := 0, true
		for d := range last {
			at := p.dims[d].at(position[d], element[d])
			inside = inside && at >= 0 && at < p.dims[d].in
			base = base*p.dims[d].in + at
		}
		if inside {
			line := x[base*inner.in : (base+1)*inner.in]
			at := inner.at(position[last], element[last])
			for i := range row[:run] {
				row[i] = 0
				if uint(at) < uint(len(line)) {
					row[i] = line[at]
				}
				at += inner.step
			}
		} else {
			clear(row[:run])
		}
		row = row[run:]
		position[last] += run - 1
		forward(position, func(d int) int { return p.dims[d].out })
	}
}

// addChannels adds a number to each channel of width elements.
func addChannels[T number](to, bias []T, width int) {
	for at := 0; at < len(to); at += width {
		b := bias[at/width%len(bias)]
		for i := range to[at : at+width] {
			to[at+i] += b
		}
	}
}
