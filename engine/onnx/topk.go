package onnx

import (
	"fmt"
	"slices"
	"sort"

	"weir/internal/tensor"
)

// argExtreme makes ArgMax and ArgMin.
func argExtreme(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis, keep, last := n.integer("axis", 0), n.integer("keepdims", 1) != 0, n.integer("select_last_index", 0) != 0
	n.gives(tensor.Int64)
	greatest := n.op == "ArgMax"
	switch n.typ(0) {
	case tensor.Float32:
		return argOf[float32](axis, keep, last, greatest), nil
	case tensor.Float64:
		return argOf[float64](axis, keep, last, greatest), nil
	case tensor.Int32:
		return argOf[int32](axis, keep, last, greatest), nil
	case tensor.Int64:
		return argOf[int64](axis, keep, last, greatest), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func argOf[T float32 | float64 | int32 | int64](axis int64, keep, last, greatest bool) kernel {
	return func(c *call) error {
		in := c.in(0)
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		if in.Shape[at] == 0 {
			return fmt.Errorf("axis %d has no elements", axis)
		}
		shape := slices.Clone(in.Shape)
		shape[at] = 1
		if !keep {
			shape = slices.Delete(shape, at, at+1)
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[int64](out), tensor.Values[T](in)
		lines(in.Shape, at, func(line, first, stride, size int) {
			best := 0
			for i := 1; i < size; i++ {
				x, top := from[first+i*stride], from[first+best*stride]
				if greatest && x > top || !greatest && x < top || last && x == top {
					best = i
				}
			}
			to[line] = int64(best)
		})
		return nil
	}
}

// topK finds the k largest or smallest elements along an axis, in order; of equals the first.
func topK(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	axis, largest := n.integer("axis", -1), n.integer("largest", 1) != 0
	n.ignore("sorted") // they always are
	fixed := n.integer("k", -1)
	if n.has(1) {
		if err := n.oneOf(1, tensor.Int64); err != nil {
			return nil, err
		}
	}
	n.gives(n.typ(0), tensor.Int64)
	switch n.typ(0) {
	case tensor.Float32:
		return topOf[float32](axis, fixed, largest), nil
	case tensor.Float64:
		return topOf[float64](axis, fixed, largest), nil
	case tensor.Int32:
		return topOf[int32](axis, fixed, largest), nil
	case tensor.Int64:
		return topOf[int64](axis, fixed, largest), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func topOf[T float32 | float64 | int32 | int64](axis, k int64, largest bool) kernel {
	return func(c *call) error {
		in, k := c.in(0), k
		if t := c.in(1); t != nil {
			if v := tensor.Values[int64](t); len(v) == 1 {
				k = v[0]
			}
		}
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		if k < 0 || k > in.Shape[at] {
			return fmt.Errorf("the first %d of an axis of %d", k, in.Shape[at])
		}
		shape := slices.Clone(in.Shape)
		shape[at] = k
		var values []T
		var places []int64
		if c.wants(0) {
			out, err := c.out(0, shape...)
			if err != nil {
				return err
			}
			values = tensor.Values[T](out)
		}
		if c.wants(1) {
			out, err := c.out(1, shape...)
			if err != nil {
				return err
			}
			places = tensor.Values[int64](out)
		}
		from := tensor.Values[T](in)
		order := make([]int, in.Shape[at])
		lines(in.Shape, at, func(line, first, stride, size int) {
			for i := range order {
				order[i] = i
			}
			sort.SliceStable(order, func(i, j int) bool {
				x, y := from[first+order[i]*stride], from[first+order[j]*stride]
				if largest {
					return x > y
				}
				return x < y
			})
			to := line/stride*int(k)*stride + line%stride
			for i := range int(k) {
				if values != nil {
					values[to+i*stride] = from[first+order[i]*stride]
				}
				if places != nil {
					places[to+i*stride] = int64(order[i])
				}
			}
		})
		return nil
	}
}

// cumSum adds up along an axis.
func cumSum(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	exclusive, reverse := n.integer("exclusive", 0) != 0, n.integer("reverse", 0) != 0
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
		return nil, err
	}
	switch n.typ(0) {
	case tensor.Float32:
		return addedUp[float32](exclusive, reverse), nil
	case tensor.Float64:
		return addedUp[float64](exclusive, reverse), nil
	case tensor.Int32:
		return addedUp[int32](exclusive, reverse), nil
	case tensor.Int64:
		return addedUp[int64](exclusive, reverse), nil
	}
	return nil, n.oneOf(0, numeric...)
}

// addedUp adds the elements up to each one, without itself where exclusive is set; from
// the end where reverse is.
func addedUp[T float32 | float64 | int32 | int64](exclusive, reverse bool) kernel {
	return func(c *call) error {
		in, axis := c.in(0), indices(c.in(1))
		if len(axis) != 1 {
			return fmt.Errorf("%d axes", len(axis))
		}
		at, err := axisOf(axis[0], len(in.Shape))
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](in)
		lines(in.Shape, at, func(_, first, stride, size int) {
			if reverse {
				first, stride = first+(size-1)*stride, -stride
			}
			var sum T
			for i := range size {
				x := from[first+i*stride]
				if exclusive {
					to[first+i*stride] = sum
				}
				sum += x
				if !exclusive {
					to[first+i*stride] = sum
				}
			}
		})
		return nil
	}
}
