package onnx

import (
	"errors"
	"fmt"
	"slices"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// exactTerms is how many products of two bytes a sum may have that is exact in float32, which the machine multiplies
// fastest. Products of quantized matrices are such sums; longer ones are added up in int32.
const exactTerms = 256 // of at most 255*255 each: their sum stays below 2^24

// exact multiplies rows of bytes; sums is memory to work with.
type exact struct{ sums []float32 }

// row computes to[i], the sum of x[j]*w[j*len(to)+i].
func (e *exact) row(to []int32, x, w []float32) {
	n := len(to)
	e.sums = slices.Grow(e.sums[:0], n)[:n]
	clear(to)
	for j := 0; j < len(x); j += exactTerms {
		end := min(j+exactTerms, len(x))
		vector.Multiply(level, e.sums, x[j:end], w[j*n:end*n])
		for i, s := range e.sums {
			to[i] += int32(s)
		}
	}
}

var bytesOfNumbers = []tensor.Type{tensor.Int8, tensor.Uint8}

// less are the elements of a tensor of bytes less their zero points, as float32: one
// zero point for all, or for each row or column of a matrix.
func less(t, zero *tensor.Tensor, byColumn bool) ([]float32, error) {
	values := wholes(t)
	to := make([]float32, len(values))
	var zeros []int32
	if zero != nil {
		zeros = wholes(zero)
	}
	rank := len(t.Shape)
	switch {
	case len(zeros) == 0 || len(zeros) == 1:
		z := int32(0)
		if len(zeros) == 1 {
			z = zeros[0]
		}
		for i, v := range values {
			to[i] = float32(v - z)
		}
	case rank >= 2 && byColumn && len(zeros) == int(t.Shape[rank-1]):
		for i, v := range values {
			to[i] = float32(v - zeros[i%len(zeros)])
		}
	case rank >= 2 && !byColumn && len(zeros) == int(t.Shape[rank-2]):
		width := int(t.Shape[rank-1])
		for i, v := range values {
			to[i] = float32(v - zeros[i/width%len(zeros)])
		}
	default:
		return nil, fmt.Errorf("%d zero points for elements of shape %v", len(zeros), t.Shape)
	}
	return to, nil
}

// factors are where a product of quantized matrices has its parts among the inputs.
type factors struct{ a, aZero, b, bZero int }

// known is the second factor less its zero points where both are known at load.
func (f *factors) known(n *node) ([]float32, error) {
	b := n.constant(f.b)
	if b == nil || n.has(f.bZero) && n.constant(f.bZero) == nil {
		return nil, nil
	}
	return less(b, n.constant(f.bZero), true)
}

// byteTypes checks that inputs are bytes.
func byteTypes(o *operands, inputs ...int) error {
	for _, i := range inputs {
		if o.has(i) {
			if err := o.oneOf(i, bytesOfNumbers...); err != nil {
				return err
			}
		}
	}
	return nil
}

// integerProduct is the product of two stacks of matrices of bytes.
type integerProduct struct {
	shape   []int64
	m, k, n int
	sums    []int32
}

// product multiplies. known is the second factor where it is known, and sums the memory
// of the result, or nil.
func (f *factors) product(c *call, known []float32, sums func(shape []int64) ([]int32, error)) (*integerProduct, error) {
	x, err := less(c.in(f.a), c.in(f.aZero), false)
	if err != nil {
		return nil, err
	}
	return f.productOf(c, x, known, sums)
}

// productOf is product with a first factor of numbers less their zero points.
func (f *factors) productOf(c *call, x, known []float32, sums func(shape []int64) ([]int32, error)) (*integerProduct, error) {
	as, bs := c.in(f.a).Shape, c.in(f.b).Shape
	w := known
	if w == nil {
		var err error
		if w, err = less(c.in(f.b), c.in(f.bZero), true); err != nil {
			return nil, err
		}
	}
	if len(as) == 0 || len(bs) == 0 {
		return nil, fmt.Errorf("shapes %v and %v", as, bs)
	}
	wide, high := as, bs
	if len(as) == 1 {
		wide = []int64{1, as[0]}
	}
	if len(bs) == 1 {
		high = []int64{bs[0], 1}
	}
	m, k, n := wide[len(wide)-2], wide[len(wide)-1], high[len(high)-1]
	if high[len(high)-2] != k {
		return nil, fmt.Errorf("shapes %v and %v do not multiply", as, bs)
	}
	outer, err := broadcast(wide[:len(wide)-2], high[:len(high)-2])
	if err != nil {
		return nil, err
	}
	p := &integerProduct{shape: slices.Clone(outer), m: int(m), k: int(k), n: int(n)}
	if len(as) > 1 {
		p.shape = append(p.shape, m)
	}
	if len(bs) > 1 {
		p.shape = append(p.shape, n)
	}
	if p.sums, err = sums(p.shape); err != nil {
		return nil, err
	}
	if err := c.f.charge(int64(len(p.sums)) / 4 * k); err != nil || len(p.sums) == 0 {
		return p, err
	}
	var e exact
	walk := newStack(outer, wide[:len(wide)-2], high[:len(high)-2])
	for at := 0; at < len(p.sums); at += int(m * n) {
		i, j := walk.offset(0)*int(m*k), walk.offset(1)*int(k*n)
		for r := range p.m {
			e.row(p.sums[at+r*p.n:at+(r+1)*p.n], x[i+r*p.k:i+(r+1)*p.k], w[j:j+p.k*p.n])
		}
		walk.next()
	}
	return p, nil
}

// spare is memory for sums that are no output.
func (c *call) spare(shape []int64) ([]int32, error) {
	n, err := tensor.Elements(shape, c.f.budget/4)
	if err != nil {
		return nil, fmt.Errorf("the product is too large: %w", err)
	}
	return make([]int32, n), nil
}

// matMulInteger is the product as Int32.
func matMulInteger(n *node) (kernel, error) {
	if err := n.takes(2, 4); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 1, 2, 3); err != nil {
		return nil, err
	}
	f := factors{0, 2, 1, 3}
	known, err := f.known(n)
	n.gives(tensor.Int32)
	return func(c *call) error {
		_, err := f.product(c, known, func(shape []int64) ([]int32, error) {
			out, err := c.out(0, shape...)
			if err != nil {
				return nil, err
			}
			return tensor.Values[int32](out), nil
		})
		return err
	}, err
}

// matMulToFloat makes MatMulIntegerToFloat, and DynamicQuantizeMatMul, which quantizes
// its first factor itself: the product times both scales, plus a bias.
func matMulToFloat(n *node) (kernel, error) {
	f := factors{0, 4, 1, 5}
	scaleA, scaleB, bias, most := 2, 3, 6, 7
	dynamic := n.op == "DynamicQuantizeMatMul"
	if dynamic {
		f = factors{0, absent, 1, 3}
		scaleA, scaleB, bias, most = absent, 2, 4, 5
		n.b.m.mixes = true
		if err := n.oneOf(0, tensor.Float32); err != nil {
			return nil, err
		}
	} else if err := byteTypes(&n.operands, 0, 4); err != nil {
		return nil, err
	}
	if err := n.takes(3, most); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, f.b, f.bZero); err != nil {
		return nil, err
	}
	for _, i := range []int{scaleA, scaleB, bias} {
		if n.has(i) {
			if err := n.oneOf(i, tensor.Float32); err != nil {
				return nil, err
			}
		}
	}
	known, err := f.known(n)
	n.gives(tensor.Float32)
	return func(c *call) error {
		var p *integerProduct
		var err error
		var scale float32
		if dynamic {
			var x []float32
			x, scale = dynamicLess(tensor.Values[float32](c.in(0)))
			p, err = f.productOf(c, x, known, c.spare)
		} else {
			if t := c.in(scaleA); t == nil || elements(t) != 1 {
				return errors.New("the first factor has no single scale")
			}
			scale = tensor.Values[float32](c.in(scaleA))[0]
			p, err = f.product(c, known, c.spare)
		}
		if err != nil {
			return err
		}
		return p.rescaled(c, scale, c.in(scaleB), c.in(bias))
	}, err
}

// dynamicLess quantizes elements together, and gives them less their zero point.
func dynamicLess(x []float32) (q []float32, scale float32) {
	scale, zero := dynamicScale(x)
	q = make([]float32, len(x))
	for i, v := range x {
		q[i] = float32(quantize(v, scale, zero, 0, 255) - zero)
	}
	return q, scale
}

// rescaled writes a product as float32: each column has a scale, or all have one.
func (p *integerProduct) rescaled(c *call, scale float32, by, bias *tensor.Tensor) error {
	if by == nil {
		return errors.New("the second factor has no scale")
	}
	scales := tensor.Values[float32](by)
	if len(scales) != 1 && len(scales) != p.n {
		return fmt.Errorf("%d scales for %d columns", len(scales), p.n)
	}
	var add []float32
	if bias != nil {
		if add = tensor.Values[float32](bias); len(add) != p.n {
			return fmt.Errorf("a bias of %d for %d columns", len(add), p.n)
		}
	}
	out, err := c.out(0, p.shape...)
	if err != nil {
		return err
	}
	for i := range tensor.Values[float32](out) {
		column := i % max(1, p.n)
		v := float32(p.sums[i]) * (scale * scales[column%len(scales)])
		if add != nil {
			v += add[column]
		}
		tensor.Values[float32](out)[i] = v
	}
	return nil
}
