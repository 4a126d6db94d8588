package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// pairs walks over two inputs as broadcasting stretches them to one shape: f gets
// runs of the output and the elements of both for it, which are as many, or one for
// all.
func pairs[T, U number](c *call, f func(to []U, a, b []T)) error {
	x, y := c.in(0), c.in(1)
	if row := withoutOnes(y.Shape); len(y.Shape) <= len(x.Shape) && slices.Equal(row, x.Shape[len(x.Shape)-len(row):]) {
		return repeated(c, f)
	}
	shape, err := broadcast(x.Shape, y.Shape)
	if err != nil {
		return err
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	to, a, b := tensor.Values[U](out), tensor.Values[T](x), tensor.Values[T](y)
	if len(to) == 0 {
		return nil
	}
	w := newWalk(out.Shape, x.Shape, y.Shape)
	for at := 0; at < len(to); at += w.run {
		i, j := w.at[0], w.at[1]
		f(to[at:at+w.run], a[i:i+w.length[0]], b[j:j+w.length[1]])
		w.next()
	}
	return nil
}

// withoutOnes is a shape without the ones that it begins with.
func withoutOnes(shape []int64) []int64 {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

// repeated is pairs where input 1 has the shape of input 0, or of its rows.
func repeated[T, U number](c *call, f func(to []U, a, b []T)) error {
	out, err := c.out(0, c.in(0).Shape...)
	if err != nil {
		return err
	}
	to, a, b := tensor.Values[U](out), tensor.Values[T](c.in(0)), tensor.Values[T](c.in(1))
	for at := 0; at < len(to); at += len(b) {
		f(to[at:at+len(b)], a[at:at+len(b)], b)
	}
	return nil
}

// broadcast is the shape that two shapes are stretched to.
func broadcast(a, b []int64) ([]int64, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	shape := slices.Clone(a)
	for i := range b {
		at := len(a) - len(b) + i
		switch {
		case b[i] == shape[at] || b[i] == 1:
		case shape[at] == 1:
			shape[at] = b[i]
		default:
			return nil, fmt.Errorf("shapes %v and %v cannot be broadcast together", a, b)
		}
	}
	if len(shape) > maxRank {
		return nil, fmt.Errorf("%d dimensions; the limit is %d", len(shape), maxRank)
	}
	return shape, nil
}

// walk goes over a shape in runs: stretches of the output along which each operand's
// elements follow one another, or stay the same.
type walk struct {
	run    int    // elements of the output per run
	length [3]int // elements of the operands per run: run, or 1
	at     [3]int // where the operands' next run begins

	sizes   []int // of the dimensions outside the run
	strides [3][]int
	index   []int
}

func newWalk(shape []int64, operands ...[]int64) *walk {
	w := &walk{run: 1, length: [3]int{1, 1, 1}}
	rank := len(shape)
	var steps [3][]int // the operands' strides by the output's dimension
	for k, s := range operands {
		steps[k] = stretched(s, rank)
	}
	// The innermost dimensions join the run as long as every operand walks along with
	// all of them, or with none.
	inner := rank
	for inner > 0 && w.joins(steps, operands, inner-1, int(shape[inner-1])) {
		inner--
	}
	for d := range inner {
		w.sizes = append(w.sizes, int(shape[d]))
		for k := range operands {
			w.strides[k] = append(w.strides[k], steps[k][d])
		}
	}
	w.index = make([]int, inner)
	return w
}

// joins takes dimension d of size into the run, where it can.
func (w *walk) joins(steps [3][]int, operands [][]int64, d, size int) bool {
	if size == 1 {
		return true
	}
	for k := range operands {
		moves := steps[k][d] != 0
		if w.run > 1 && moves != (w.length[k] > 1) {
			return false
		}
	}
	for k := range operands {
		if steps[k][d] != 0 {
			w.length[k] *= size
		}
	}
	w.run *= size
	return true
}

// stretched are the strides of a tensor of shape s, in elements, along the last
// dimensions of a shape of that rank; 0 where broadcasting repeats it.
func stretched(s []int64, rank int) []int {
	steps := make([]int, rank)
	stride := 1
	for i, size := range slices.Backward(s) {
		if size != 1 {
			steps[rank-len(s)+i] = stride
		}
		stride *= int(size)
	}
	return steps
}

func (w *walk) next() {
	for d := len(w.sizes) - 1; d >= 0; d-- {
		w.index[d]++
		for k := range w.strides {
			if w.strides[k] != nil {
				w.at[k] += w.strides[k][d]
			}
		}
		if w.index[d] < w.sizes[d] {
			return
		}
		for k := range w.strides {
			if w.strides[k] != nil {
				w.at[k] -= w.strides[k][d] * w.sizes[d]
			}
		}
		w.index[d] = 0
	}
}

// over calls f for every element of an output of that shape with the element of the
// operand that broadcasting gives it.
func over(shape, operand []int64, n int, f func(at, i int)) {
	if n == 0 {
		return
	}
	w := newWalk(shape, operand)
	for at := 0; at < n; at += w.run {
		step := min(1, w.length[0]-1)
		for i := range w.run {
			f(at+i, w.at[0]+i*step)
		}
		w.next()
	}
}

// copyElements copies n elements of any type.
func copyElements(to *tensor.Tensor, at int, from *tensor.Tensor, i, n int) {
	if to.Type == tensor.Bytes {
		copy(to.Strings[at:at+n], from.Strings[i:i+n])
		return
	}
	size := to.Type.Size()
	copy(to.Data[at*size:(at+n)*size], from.Data[i*size:(i+n)*size])
}
