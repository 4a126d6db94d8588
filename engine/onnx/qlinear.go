package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// quantizedBy is where an operator has the scale and the zero point of a tensor, as
// indices of inputs.
type quantizedBy struct{ scale, zero int }

// of is the one scale and the one zero point of a call.
func (q quantizedBy) of(c *call) (scale float32, zero int32, err error) {
	s, z := c.in(q.scale), c.in(q.zero)
	if s == nil || elements(s) != 1 || s.Type != tensor.Float32 || z != nil && elements(z) != 1 {
		return 0, 0, errors.New("several scales or zero points of one tensor, or none")
	}
	if z != nil {
		zero = wholes(z)[0]
	}
	return tensor.Values[float32](s)[0], zero, nil
}

// byteRange is the least and the greatest number of a type of bytes.
func byteRange(t tensor.Type) (low, high int32) {
	if t == tensor.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// requantize writes products of whole numbers as bytes: scale gives the number that a
// column is multiplied by.
func requantize(out *tensor.Tensor, sums []int32, zero int32, scale func(i int) float32) {
	low, high := byteRange(out.Type)
	for i, s := range sums {
		q := math.RoundToEven(float64(float32(s) * scale(i)))
		out.Data[i] = byte(int32(max(float64(low), min(float64(high), q+float64(zero)))))
	}
}

// scalesOf are the scales of a factor's columns or channels: one, or n of them.
func scalesOf(t *tensor.Tensor, n int) ([]float32, error) {
	if t == nil || t.Type != tensor.Float32 || elements(t) != 1 && elements(t) != n {
		return nil, fmt.Errorf("the scales are not one float32, nor %d", n)
	}
	return tensor.Values[float32](t), nil
}

// qLinearMatMul makes QLinearMatMul, and QGemm, which adds a bias to the sums.
func qLinearMatMul(n *node) (kernel, error) {
	if err := n.takes(8, 8); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 3, 5, 7); err != nil {
		return nil, err
	}
	f := factors{0, 2, 3, 5}
	known, err := f.known(n)
	n.gives(n.typ(7))
	return func(c *call) error {
		p, err := f.product(c, known, c.spare)
		if err != nil {
			return err
		}
		scaleA, _, err := quantizedBy{1, absent}.of(c)
		if err != nil {
			return err
		}
		scaleY, zero, err := quantizedBy{6, 7}.of(c)
		if err != nil {
			return err
		}
		scalesB, err := scalesOf(c.in(4), p.n)
		if err != nil {
			return err
		}
		out, err := c.out(0, p.shape...)
		if err != nil {
			return err
		}
		requantize(out, p.sums, zero, func(i int) float32 { return scaleA * scalesB[i%p.n%len(scalesB)] / scaleY })
		return nil
	}, err
}

// qGemm is Gemm of bytes; C is whole numbers in units of both scales. Without a scale of
// the output it gives float32.
func qGemm(n *node) (kernel, error) {
	if err := n.takes(6, 9); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 3, 5, 8); err != nil {
		return nil, err
	}
	g := scaling{n.float("alpha", 1), 1, n.integer("transA", 0) != 0, n.integer("transB", 0) != 0}
	n.gives(tensor.Float32)
	if n.has(8) {
		n.gives(n.typ(8))
	}
	return func(c *call) error {
		p, err := g.integers(c)
		if err != nil {
			return err
		}
		scaleA, _, err := quantizedBy{1, absent}.of(c)
		if err != nil {
			return err
		}
		scalesB, err := scalesOf(c.in(4), p.n)
		if err != nil {
			return err
		}
		out, err := c.out(0, p.shape...)
		if err != nil {
			return err
		}
		by := func(i int) float32 { return g.alpha * scaleA * scalesB[i%p.n%len(scalesB)] }
		if c.in(7) == nil {
			for i := range p.sums {
				tensor.Values[float32](out)[i] = float32(p.sums[i]) * by(i)
			}
			return nil
		}
		scaleY, zero, err := quantizedBy{7, 8}.of(c)
		if err == nil {
			requantize(out, p.sums, zero, func(i int) float32 { return by(i) / scaleY })
		}
		return err
	}, nil
}

// integers is the product of a QGemm with C added.
func (g *scaling) integers(c *call) (*integerProduct, error) {
	a, b := c.in(0), c.in(3)
	if len(a.Shape) != 2 || len(b.Shape) != 2 {
		return nil, fmt.Errorf("shapes %v and %v are no matrices", a.Shape, b.Shape)
	}
	x, err := less(a, c.in(2), false)
	if err != nil {
		return nil, err
	}
	m, k := int(a.Shape[0]), int(a.Shape[1])
	if g.transA {
		x, m, k = transposed(x, m, k), k, m
	}
	rows, n := int(b.Shape[0]), int(b.Shape[1])
	w, err := less(b, c.in(5), !g.transB)
	if err != nil {
		return nil, err
	}
	if g.transB {
		w, rows, n = transposed(w, rows, n), n, rows
	}
	if rows != k {
		return nil, fmt.Errorf("shapes %v and %v do not multiply", a.Shape, b.Shape)
	}
	p := &integerProduct{shape: []int64{int64(m), int64(n)}, m: m, k: k, n: n}
	if p.sums, err = c.spare(p.shape); err != nil {
		return nil, err
	}
	if err := c.f.charge(int64(len(p.sums)) / 4 * int64(k)); err != nil || len(p.sums) == 0 {
		return p, err
	}
	var e exact
	for r := range m {
		e.row(p.sums[r*n:(r+1)*n], x[r*k:(r+1)*k], w)
	}
	bias := c.in(6)
	if bias == nil {
		return p, nil
	}
	if shape, err := broadcast(p.shape, bias.Shape); err != nil || !slices.Equal(shape, p.shape) || bias.Type != tensor.Int32 {
		return nil, fmt.Errorf("a bias of %v and shape %v for a product of shape %v", bias.Type, bias.Shape, p.shape)
	}
	from := tensor.Values[int32](bias)
	over(p.shape, bias.Shape, len(p.sums), func(at, i int) { p.sums[at] += from[i] })
	return p, nil
}

// integerConv makes ConvInteger, which gives the sums, and QLinearConv, which gives
// them in bytes again.
func integerConv(n *node) (kernel, error) {
	zeroX, w, zeroW := 2, 1, 3
	linear := n.op == "QLinearConv"
	if linear {
		zeroX, w, zeroW = 2, 3, 5
		if err := n.takes(8, 9); err != nil {
			return nil, err
		}
		n.gives(n.typ(7))
	} else {
		if err := n.takes(2, 4); err != nil {
			return nil, err
		}
		n.gives(tensor.Int32)
	}
	if err := byteTypes(&n.operands, 0, zeroX, w, zeroW); err != nil {
		return nil, err
	}
	if linear {
		if err := byteTypes(&n.operands, 7); err != nil {
			return nil, err
		}
		if n.has(8) {
			if err := n.oneOf(8, tensor.Int32); err != nil {
				return nil, err
			}
		}
	}
	v, err := convolutionOf(&n.attributeReader)
	return func(c *call) error {
		var bias *tensor.Tensor
		if linear {
			bias = c.in(8)
		}
		p, err := v.plan(c.in(0), c.in(w), bias)
		if err != nil {
			return err
		}
		x, err := less(c.in(0), c.in(zeroX), false)
		if err != nil {
			return err
		}
		weights, err := lessByChannel(c.in(w), c.in(zeroW))
		if err != nil {
			return err
		}
		out, err := c.out(0, p.shape...)
		if err != nil {
			return err
		}
		var sums []int32
		if !linear {
			sums = tensor.Values[int32](out)
		} else if sums, err = c.spare(p.shape); err != nil {
			return err
		}
		var e exact
		if err := convolve(c, p, sums, x, weights, e.row); err != nil || !linear {
			return err
		}
		if bias != nil {
			addChannels(sums, tensor.Values[int32](bias), p.positions)
		}
		return p.requantized(c, out, sums)
	}, err
}

// lessByChannel are weights less their zero points, one for all or for each channel.
func lessByChannel(w, zero *tensor.Tensor) ([]float32, error) {
	if zero == nil || elements(zero) == 1 {
		return less(w, zero, false)
	}
	matrix := *w
	matrix.Shape = []int64{w.Shape[0], product(w.Shape[1:])}
	return less(&matrix, zero, false)
}

// requantized writes the sums of a QLinearConv.
func (p *convPlan) requantized(c *call, out *tensor.Tensor, sums []int32) error {
	scaleX, _, err := quantizedBy{1, absent}.of(c)
	if err != nil {
		return err
	}
	scaleY, zero, err := quantizedBy{6, 7}.of(c)
	if err != nil {
		return err
	}
	channels := p.groups * p.outputs
	scalesW, err := scalesOf(c.in(4), channels)
	if err != nil {
		return err
	}
	requantize(out, sums, zero, func(i int) float32 {
		return scaleX * scalesW[i/p.positions%channels%len(scalesW)] / scaleY
	})
	return nil
}

// qLinearMap makes QLinearSigmoid and QLinearLeakyRelu: of each byte's number.
func qLinearMap(n *node) (kernel, error) {
	if err := n.takes(4, 5); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 4); err != nil {
		return nil, err
	}
	f := sigmoid
	if n.op == "QLinearLeakyRelu" {
		alpha := float64(n.float("alpha", 0.01))
		f = func(x float64) float64 { return activations["LeakyRelu"].of(x, alpha, 0) }
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		scaleX, zeroX, err := quantizedBy{1, 2}.of(c)
		if err != nil {
			return err
		}
		scaleY, zeroY, err := quantizedBy{3, 4}.of(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, c.in(0).Shape...)
		if err != nil {
			return err
		}
		low, high := byteRange(out.Type)
		for i, q := range wholes(c.in(0)) {
			y := float32(f(float64(float32(q-zeroX) * scaleX)))
			out.Data[i] = byte(quantize(y, scaleY, zeroY, low, high))
		}
		return nil
	}, nil
}

// qLinearPair makes QLinearAdd and QLinearMul, which broadcast.
func qLinearPair(n *node) (kernel, error) {
	if err := n.takes(7, 8); err != nil {
		return nil, err
	}
	if err := byteTypes(&n.operands, 0, 2, 3, 5, 7); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	times := n.op == "QLinearMul"
	return func(c *call) error {
		var scale [3]float32
		var zero [3]int32
		for i, at := range []quantizedBy{{1, 2}, {4, 5}, {6, 7}} {
			var err error
			if scale[i], zero[i], err = at.of(c); err != nil {
				return err
			}
		}
		shape, err := broadcast(c.in(0).Shape, c.in(3).Shape)
		if err != nil {
			return err
		}
		out, err := c.out(0, shape...)
		if err != nil || len(out.Data) == 0 {
			return err
		}
		a, b := wholes(c.in(0)), wholes(c.in(3))
		low, high := byteRange(out.Type)
		walk := newWalk(shape, c.in(0).Shape, c.in(3).Shape)
		for at := 0; at < len(out.Data); at += walk.run {
			for i := range walk.run {
				x := float32(a[walk.at[0]+i*min(1, walk.length[0]-1)]-zero[0]) * scale[0]
				y := float32(b[walk.at[1]+i*min(1, walk.length[1]-1)]-zero[1]) * scale[1]
				if times {
					x *= y
				} else {
					x += y
				}
				out.Data[at+i] = byte(quantize(x, scale[2], zero[2], low, high))
			}
			walk.next()
		}
		return nil
	}, nil
}
