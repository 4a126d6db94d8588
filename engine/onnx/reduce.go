package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// reduction makes ReduceSum and its like. Elements are taken in the order in which
// they stand; sums of float32 are added in float64 and rounded once.
func reduction(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	keep, noop := n.integer("keepdims", 1) != 0, n.integer("noop_with_empty_axes", 0) != 0
	axes, err := axesOf(n, 1)
	if err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	plan := func(c *call) (*reducing, error) { return planReduction(c, axes(c), keep, noop) }
	switch n.typ(0) {
	case tensor.Float32:
		return reduceFloats[float32](n.op, plan), nil
	case tensor.Float64:
		return reduceFloats[float64](n.op, plan), nil
	case tensor.Int32:
		return reduceIntegers[int32](n.op, plan)
	case tensor.Int64:
		return reduceIntegers[int64](n.op, plan)
	}
	return nil, n.oneOf(0, numeric...)
}

// reducing is how the input's elements fold into the output's.
type reducing struct {
	shape []int64 // of the output
	noop  bool    // no axis is reduced

	outer, inner           []int // sizes of the kept and the reduced dimensions
	outerSteps, innerSteps []int // and their strides in the input
	count                  int   // elements that fold into one
}

func planReduction(c *call, axes []int64, keep, noop bool) (*reducing, error) {
	from := c.in(0).Shape
	if len(axes) == 0 && noop {
		return &reducing{shape: from, noop: true}, nil
	}
	reduced := make([]bool, len(from))
	for _, axis := range axes {
		at, err := axisOf(axis, len(from))
		if err != nil {
			return nil, err
		}
		reduced[at] = true
	}
	r := &reducing{count: 1}
	strides := stretched(from, len(from))
	for i, size := range from {
		if len(axes) > 0 && !reduced[i] {
			r.shape = append(r.shape, size)
			r.outer, r.outerSteps = append(r.outer, int(size)), append(r.outerSteps, strides[i])
			continue
		}
		if keep {
			r.shape = append(r.shape, 1)
		}
		r.inner, r.innerSteps = append(r.inner, int(size)), append(r.innerSteps, strides[i])
		r.count *= int(size)
	}
	return r, nil
}

// visit calls begin before and end after the elements of each output.
func (r *reducing) visit(n int, begin func(), each func(i int), end func(out int)) {
	outer := make([]int, len(r.outer))
	inner := make([]int, len(r.inner))
	at := 0
	for k := range n {
		begin()
		i := at
		for range r.count {
			each(i)
			i = advance(inner, r.inner, r.innerSteps, i)
		}
		end(k)
		at = advance(outer, r.outer, r.outerSteps, at)
	}
}

// advance moves an index over sizes to the next one, and the offset with it.
func advance(index, sizes, steps []int, at int) int {
	for d := len(sizes) - 1; d >= 0; d-- {
		index[d]++
		at += steps[d]
		if index[d] < sizes[d] {
			return at
		}
		at -= steps[d] * sizes[d]
		index[d] = 0
	}
	return at
}

func reduceFloats[T float](op string, plan func(c *call) (*reducing, error)) kernel {
	return func(c *call) error {
		r, err := plan(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, r.shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](c.in(0))
		if r.noop {
			copy(to, from)
			return nil
		}
		var f folded
		r.visit(len(to),
			func() { f = folded{extreme: math.NaN(), product: 1} },
			func(i int) { f.take(op, float64(from[i])) },
			func(k int) { to[k] = T(f.result(op, r.count)) })
		if op == "ReduceLogSumExp" {
			return logSumExp(r, to, from)
		}
		return nil
	}
}

// folded is what is known of the elements so far.
type folded struct {
	sum, product, extreme float64
	any                   bool
}

func (f *folded) take(op string, x float64) {
	switch op {
	case "ReduceSum", "ReduceMean", "ReduceLogSum":
		f.sum += x
	case "ReduceL1":
		f.sum += math.Abs(x)
	case "ReduceL2", "ReduceSumSquare":
		f.sum += x * x
	case "ReduceProd":
		f.product *= x
	case "ReduceMax", "ReduceLogSumExp":
		if !f.any {
			f.extreme = x
		}
		f.extreme = max(f.extreme, x)
	case "ReduceMin":
		if !f.any {
			f.extreme = x
		}
		f.extreme = min(f.extreme, x)
	}
	f.any = true
}

func (f *folded) result(op string, count int) float64 {
	if !f.any { // of no elements, the least that there is, or the greatest
		switch op {
		case "ReduceMax", "ReduceLogSumExp":
			return math.Inf(-1)
		case "ReduceMin":
			return math.Inf(1)
		}
	}
	switch op {
	case "ReduceMean":
		return f.sum / float64(count)
	case "ReduceLogSum":
		return math.Log(f.sum)
	case "ReduceL2":
		return math.Sqrt(f.sum)
	case "ReduceProd":
		return f.product
	case "ReduceMax", "ReduceMin", "ReduceLogSumExp":
		return f.extreme
	}
	return f.sum
}

// logSumExp finishes ReduceLogSumExp: to holds the maxima.
func logSumExp[T float](r *reducing, to, from []T) error {
	at, sum := 0, 0.0
	r.visit(len(to),
		func() { sum = 0 },
		func(i int) {
			top := float64(to[at])
			if math.IsInf(top, 0) {
				top = 0
			}
			sum += math.Exp(float64(from[i]) - top)
		},
		func(k int) {
			top := float64(to[k])
			if math.IsInf(top, 0) {
				top = 0
			}
			to[k] = T(math.Log(sum) + top)
			at = k + 1
		})
	return nil
}

func reduceIntegers[T int32 | int64](op string, plan func(c *call) (*reducing, error)) (kernel, error) {
	switch op {
	case "ReduceLogSum", "ReduceLogSumExp", "ReduceL2":
		return nil, fmt.Errorf("of integers is not supported; %s", wayOut)
	}
	return func(c *call) error {
		r, err := plan(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, r.shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](c.in(0))
		if r.noop {
			copy(to, from)
			return nil
		}
		if r.count == 0 && (op == "ReduceMax" || op == "ReduceMin" || op == "ReduceMean") {
			return errors.New("of no elements")
		}
		var so T
		first := false
		r.visit(len(to),
			func() { so, first = 0, true },
			func(i int) { so, first = foldInteger(op, so, from[i], first), false },
			func(k int) {
				if op == "ReduceMean" {
					so /= T(r.count)
				}
				if op == "ReduceProd" && first {
					so = 1
				}
				to[k] = so
			})
		return nil
	}, nil
}

func foldInteger[T int32 | int64](op string, so, x T, first bool) T {
	switch op {
	case "ReduceL1":
		return so + max(x, -x)
	case "ReduceSumSquare":
		return so + x*x
	case "ReduceProd":
		if first {
			return x
		}
		return so * x
	case "ReduceMax":
		if first {
			return x
		}
		return max(so, x)
	case "ReduceMin":
		if first {
			return x
		}
		return min(so, x)
	}
	return so + x
}

// lines walks along an axis: for every line of the tensor, f gets the offset of its
// first element. Elements of a line are stride apart.
func lines(shape []int64, at int, f func(line, first, stride, size int)) {
	if slices.Contains(shape, 0) {
		return
	}
	outer, size, stride := int(product(shape[:at])), int(shape[at]), int(product(shape[at+1:]))
	for o := range outer {
		for i := range stride {
			f(o*stride+i, o*size*stride+i, stride, size)
		}
	}
}
