package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// variadic makes Min, Max, Sum and Mean of any number of inputs.
func variadic(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	for i := range n.in {
		if n.typ(i) != n.typ(0) {
			return nil, fmt.Errorf("input %d is %v, input 0 is %v", i, n.typ(i), n.typ(0))
		}
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Float32:
		return gathered[float32](n.op), nil
	case tensor.Float64:
		return gathered[float64](n.op), nil
	case tensor.Int32:
		return gathered[int32](n.op), nil
	case tensor.Int64:
		return gathered[int64](n.op), nil
	case tensor.Int8:
		return gathered[int8](n.op), nil
	case tensor.Int16:
		return gathered[int16](n.op), nil
	case tensor.Uint8:
		return gathered[uint8](n.op), nil
	case tensor.Uint16:
		return gathered[uint16](n.op), nil
	case tensor.Uint32:
		return gathered[uint32](n.op), nil
	case tensor.Uint64:
		return gathered[uint64](n.op), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func gathered[T number](op string) kernel {
	return func(c *call) error {
		shape := c.in(0).Shape
		var err error
		for i := 1; i < c.inputs(); i++ {
			if shape, err = broadcast(shape, c.in(i).Shape); err != nil {
				return err
			}
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[T](out)
		for k := range c.inputs() {
			from := tensor.Values[T](c.in(k))
			over(out.Shape, c.in(k).Shape, len(to), func(at, i int) { to[at] = merged(op, k == 0, to[at], from[i]) })
		}
		if op == "Mean" {
			for i := range to {
				to[i] /= T(c.inputs())
			}
		}
		return nil
	}
}

// merged takes one more operand into an element. What is not a number stays.
func merged[T number](op string, first bool, so, x T) T {
	switch {
	case first:
		return x
	case op == "Max":
		return max(so, x)
	case op == "Min":
		return min(so, x)
	}
	return so + x
}

// where chooses between two inputs by a third.
func where(n *node) (kernel, error) {
	if err := n.takes(3, 3); err != nil {
		return nil, err
	}
	if n.typ(1) != n.typ(2) {
		return nil, fmt.Errorf("the choices are %v and %v", n.typ(1), n.typ(2))
	}
	n.gives(n.typ(1))
	if err := n.oneOf(0, tensor.Bool); err != nil {
		return nil, err
	}
	return choose, n.oneOf(1, anything...)
}

func choose(c *call) error {
	condition, x, y := c.in(0), c.in(1), c.in(2)
	shape, err := broadcast(x.Shape, y.Shape)
	if err == nil {
		shape, err = broadcast(shape, condition.Shape)
	}
	if err != nil {
		return err
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	n := max(len(out.Strings), len(out.Data)/max(1, out.Type.Size()))
	if n == 0 {
		return nil
	}
	w := newWalk(out.Shape, condition.Shape, x.Shape, y.Shape)
	for at := 0; at < n; at += w.run {
		for i := range w.run {
			from, j := x, w.at[1]+i*min(1, w.length[1]-1)
			if condition.Data[w.at[0]+i*min(1, w.length[0]-1)] == 0 {
				from, j = y, w.at[2]+i*min(1, w.length[2]-1)
			}
			copyElements(out, at+i, from, j, 1)
		}
		w.next()
	}
	return nil
}
