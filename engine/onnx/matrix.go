package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// level is the machine's best set of instructions.
var level = isa.Best()

// multiply32 computes a product of row-major matrices: dst[m,n] = x[m,k] * w[k,n].
// Every sum takes its products in the order of k, each fused (one rounding), so that
// it depends on its row and column alone.
func multiply32(dst, x, w []float32, m, k, n int) {
	vector.MultiplyRows(level, dst[:m*n], x[:m*k], w[:k*n], m, k, n)
}

// multiply64 is multiply32 of float64.
func multiply64(dst, x, w []float64, m, k, n int) {
	for i := range m {
		row := dst[i*n : (i+1)*n]
		clear(row)
		for j, a := range x[i*k : (i+1)*k] {
			for at, b := range w[j*n : (j+1)*n] {
				row[at] = math.FMA(a, b, row[at])
			}
		}
	}
}

// fused is a*b+c, rounded once.
func fused[T float](a, b, c T) T {
	if _, double := any(a).(float64); double {
		return T(math.FMA(float64(a), float64(b), float64(c)))
	}
	return T(vector.FusedMultiplyAdd(float32(a), float32(b), float32(c)))
}

// matMul multiplies matrices, and stacks of them.
func matMul(n *node) (kernel, error) {
	if err := n.alike(); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return matMulBy(multiply32), nil
	case tensor.Float64:
		return matMulBy(multiply64), nil
	}
	return nil, n.oneOf(0, floating...)
}

func matMulBy[T float](multiply func(dst, x, w []T, m, k, n int)) kernel {
	return func(c *call) error { return stacks(c, c.in(0), c.in(1), multiply) }
}

// stacks multiplies two matrices, or stacks of them, which may be vectors.
func stacks[T float](c *call, a, b *tensor.Tensor, multiply func(dst, x, w []T, m, k, n int)) error {
	as, bs := a.Shape, b.Shape
	if len(as) == 2 && len(bs) == 2 && as[1] == bs[0] {
		return matrices(c, a, b, multiply)
	}
	if len(as) == 0 || len(bs) == 0 {
		return fmt.Errorf("shapes %v and %v", as, bs)
	}
	if len(as) == 1 {
		as = []int64{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int64{bs[0], 1}
	}
	m, k, n := as[len(as)-2], as[len(as)-1], bs[len(bs)-1]
	if bs[len(bs)-2] != k {
		return fmt.Errorf("shapes %v and %v do not multiply", a.Shape, b.Shape)
	}
	stack, err := broadcast(as[:len(as)-2], bs[:len(bs)-2])
	if err != nil {
		return err
	}
	shape := slices.Clone(stack)
	if len(a.Shape) > 1 {
		shape = append(shape, m)
	}
	if len(b.Shape) > 1 {
		shape = append(shape, n)
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	to, x, w := tensor.Values[T](out), tensor.Values[T](a), tensor.Values[T](b)
	if err := c.f.charge(int64(len(to)) / 4 * k); err != nil {
		return err
	}
	if len(to) == 0 {
		return nil
	}
	walk := newStack(stack, as[:len(as)-2], bs[:len(bs)-2])
	for at := 0; at < len(to); at += int(m * n) {
		i, j := walk.offset(0)*int(m*k), walk.offset(1)*int(k*n)
		multiply(to[at:at+int(m*n)], x[i:i+int(m*k)], w[j:j+int(k*n)], int(m), int(k), int(n))
		walk.next()
	}
	return nil
}

// matrices multiplies two of them.
func matrices[T float](c *call, a, b *tensor.Tensor, multiply func(dst, x, w []T, m, k, n int)) error {
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	out, err := c.out(0, m, n)
	if err != nil {
		return err
	}
	to := tensor.Values[T](out)
	if err := c.f.charge(int64(len(to)) / 4 * k); err != nil || len(to) == 0 {
		return err
	}
	multiply(to, tensor.Values[T](a), tensor.Values[T](b), int(m), int(k), int(n))
	return nil
}

// stack walks over the leading dimensions of two stacks of matrices.
type stack struct {
	sizes, index []int
	steps        [2][]int
	at           [2]int
}

func newStack(shape []int64, operands ...[]int64) *stack {
	s := &stack{index: make([]int, len(shape))}
	for _, size := range shape {
		s.sizes = append(s.sizes, int(size))
	}
	for i, o := range operands {
		s.steps[i] = stretched(o, len(shape))
	}
	return s
}

func (s *stack) offset(operand int) int { return s.at[operand] }

func (s *stack) next() {
	for d := len(s.sizes) - 1; d >= 0; d-- {
		s.index[d]++
		for i := range s.at {
			s.at[i] += s.steps[i][d]
		}
		if s.index[d] < s.sizes[d] {
			return
		}
		for i := range s.at {
			s.at[i] -= s.steps[i][d] * s.sizes[d]
		}
		s.index[d] = 0
	}
}

// gemm is alpha*A*B + beta*C, with A and B transposed where the node says so.
func gemm(n *node) (kernel, error) {
	if err := n.takes(2, 3); err != nil {
		return nil, err
	}
	for i := range n.in {
		if n.has(i) && n.typ(i) != n.typ(0) {
			return nil, fmt.Errorf("input %d is %v, input 0 is %v", i, n.typ(i), n.typ(0))
		}
	}
	g := scaling{n.float("alpha", 1), n.float("beta", 1), n.integer("transA", 0) != 0, n.integer("transB", 0) != 0}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return gemmBy(g, multiply32, n.constant(1)), nil
	case tensor.Float64:
		return gemmBy(g, multiply64, n.constant(1)), nil
	}
	return nil, n.oneOf(0, floating...)
}

// scaling is what a Gemm node says of its product.
type scaling struct {
	alpha, beta    float32
	transA, transB bool
}

func gemmBy[T float](g scaling, multiply func(dst, x, w []T, m, k, n int), known *tensor.Tensor) kernel {
	var turned []T
	if known != nil && g.transB && len(known.Shape) == 2 {
		turned = transposed(tensor.Values[T](known), int(known.Shape[0]), int(known.Shape[1]))
	}
	return func(c *call) error {
		a, b := c.in(0), c.in(1)
		if len(a.Shape) != 2 || len(b.Shape) != 2 {
			return fmt.Errorf("shapes %v and %v are no matrices", a.Shape, b.Shape)
		}
		x, w := tensor.Values[T](a), tensor.Values[T](b)
		m, k := int(a.Shape[0]), int(a.Shape[1])
		if g.transA {
			x = transposed(x, m, k)
			m, k = k, m
		}
		rows, n := int(b.Shape[0]), int(b.Shape[1])
		if g.transB {
			if w = turned; w == nil {
				w = transposed(tensor.Values[T](b), rows, n)
			}
			rows, n = n, rows
		}
		if rows != k {
			return fmt.Errorf("shapes %v and %v do not multiply", a.Shape, b.Shape)
		}
		out, err := c.out(0, int64(m), int64(n))
		if err != nil {
			return err
		}
		to := tensor.Values[T](out)
		if err := c.f.charge(int64(len(to)) / 4 * int64(k)); err != nil {
			return err
		}
		if len(to) > 0 {
			multiply(to, x, w, m, k, n)
		}
		return finish(c, g, out, to)
	}
}

// finish scales a product and adds beta*C to it, after the sum of the products.
func finish[T float](c *call, g scaling, out *tensor.Tensor, to []T) error {
	bias := c.in(2)
	if bias == nil || g.beta == 0 {
		if g.alpha != 1 {
			for i := range to {
				to[i] *= T(g.alpha)
			}
		}
		return nil
	}
	if shape, err := broadcast(out.Shape, bias.Shape); err != nil || !slices.Equal(shape, out.Shape) {
		return fmt.Errorf("shape %v of C for a product of shape %v", bias.Shape, out.Shape)
	}
	from := tensor.Values[T](bias)
	alpha, beta := T(g.alpha), T(g.beta)
	over(out.Shape, bias.Shape, len(to), func(at, i int) { to[at] = fused(alpha, to[at], beta*from[i]) })
	return nil
}

// transposed is a copy of a matrix with rows and columns exchanged.
func transposed[T float](x []T, rows, columns int) []T {
	to := make([]T, len(x))
	if len(x) == 0 {
		return to // whatever the sizes are
	}
	for i := range rows {
		for j := range columns {
			to[j*rows+i] = x[i*columns+j]
		}
	}
	return to
}

// batchNorm scales and shifts each channel, the second dimension, by what training found.
func batchNorm(n *node) (kernel, error) {
	if err := n.takes(5, 5); err != nil {
		return nil, err
	}
	if n.integer("training_mode", 0) != 0 || len(n.outputs) > 1 {
		return nil, fmt.Errorf("in training mode is not supported; %s", wayOut)
	}
	epsilon := n.float("epsilon", 1e-5)
	n.ignore("momentum", "spatial")
	n.gives(n.typ(0))
	for i := range n.in {
		if err := n.oneOf(i, tensor.Float32); err != nil {
			return nil, err
		}
	}
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 2 {
			return fmt.Errorf("shape %v has no channels", in.Shape)
		}
		channels := int(in.Shape[1])
		var p [4][]float32 // scale, shift, mean, variance
		for i := range p {
			if p[i] = tensor.Values[float32](c.in(i + 1)); len(p[i]) != channels {
				return fmt.Errorf("input %d has %d elements for %d channels", i+1, len(p[i]), channels)
			}
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[float32](in)
		width := int(product(in.Shape[2:]))
		for r := range int(in.Shape[0]) * channels {
			ch := r % channels
			scale := p[0][ch] / float32(math.Sqrt(float64(p[3][ch]+epsilon)))
			shift := p[1][ch] - p[2][ch]*scale
			for i := r * width; i < (r+1)*width; i++ {
				to[i] = from[i]*scale + shift
			}
		}
		return nil
	}, nil
}
