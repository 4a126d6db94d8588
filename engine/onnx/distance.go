package onnx

import (
	"fmt"
	"math"

	"weir/internal/tensor"
)

// cdist is ONNX Runtime's CDist: the distance of each row of one table to each of another.
func cdist(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	metric := n.str("metric", "sqeuclidean")
	if metric != "sqeuclidean" && metric != "euclidean" {
		return nil, fmt.Errorf("metric %q is not supported; %s", metric, wayOut)
	}
	n.gives(n.typ(0))
	if n.typ(0) == tensor.Float64 {
		return distances[float64](metric == "euclidean"), n.sameTypes()
	}
	if err := n.oneOf(0, tensor.Float32); err != nil {
		return nil, err
	}
	return distances[float32](metric == "euclidean"), n.sameTypes()
}

func distances[T float32 | float64](root bool) kernel {
	return func(c *call) error {
		a, b := c.in(0), c.in(1)
		if len(a.Shape) != 2 || len(b.Shape) != 2 || a.Shape[1] != b.Shape[1] {
			return fmt.Errorf("tables of shapes %v and %v", a.Shape, b.Shape)
		}
		rows, others, width := int(a.Shape[0]), int(b.Shape[0]), int(a.Shape[1])
		out, err := c.out(0, a.Shape[0], b.Shape[0])
		if err != nil {
			return err
		}
		if err := c.f.charge(int64(rows) * int64(others) * int64(width)); err != nil {
			return err
		}
		x, y, to := tensor.Values[T](a), tensor.Values[T](b), tensor.Values[T](out)
		for r := range rows {
			for k := range others {
				sum := 0.0
				for i, v := range x[r*width : (r+1)*width] {
					d := float64(v) - float64(y[k*width+i])
					sum += float64(d * d)
				}
				if root {
					sum = math.Sqrt(sum)
				}
				to[r*others+k] = T(sum)
			}
		}
		return nil
	}
}
