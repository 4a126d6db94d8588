package onnx

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// oneHotEncoder is a row with a 1 for each element, at the place of its category.
func oneHotEncoder(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	ints, strings := n.integers("cats_int64s"), n.strings("cats_strings")
	zeros := n.integer("zeros", 1) != 0
	n.gives(tensor.Float32)
	count := max(len(ints), len(strings))
	if count == 0 || len(ints) > 0 && len(strings) > 0 {
		return nil, fmt.Errorf("%d integers and %d strings as categories", len(ints), len(strings))
	}
	places := make(map[int64]int, len(ints))
	for i, v := range ints {
		places[v] = i
	}
	words := make(map[string]int, len(strings))
	for i, v := range strings {
		words[string(v)] = i
	}
	if (n.typ(0) == tensor.Bytes) != (len(strings) > 0) {
		return nil, fmt.Errorf("input 0 is %v, which the categories are not", n.typ(0))
	}
	switch n.typ(0) {
	case tensor.Bytes:
		return func(c *call) error {
			return placed(c, count, zeros, func(i int) (int, bool) { at, ok := words[string(c.in(0).Strings[i])]; return at, ok })
		}, nil
	case tensor.Float32:
		return hot[float32](places, count, zeros), nil
	case tensor.Float64:
		return hot[float64](places, count, zeros), nil
	case tensor.Int32:
		return hot[int32](places, count, zeros), nil
	case tensor.Int64:
		return hot[int64](places, count, zeros), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func hot[T number](places map[int64]int, count int, zeros bool) kernel {
	return func(c *call) error {
		from := tensor.Values[T](c.in(0))
		return placed(c, count, zeros, func(i int) (int, bool) { at, ok := places[whole(from[i])]; return at, ok })
	}
}

func placed(c *call, count int, zeros bool, place func(i int) (int, bool)) error {
	in := c.in(0)
	out, err := c.out(0, append(slices.Clone(in.Shape), int64(count))...)
	if err != nil {
		return err
	}
	to := tensor.Values[float32](out)
	clear(to)
	for i := range elements(in) {
		at, ok := place(i)
		if ok {
			to[i*count+at] = 1
		} else if !zeros {
			return fmt.Errorf("element %d is none of the %d categories, and the model takes no others (zeros=0)", i, count)
		}
	}
	return nil
}

// featureVectorizer joins columns, as float32.
func featureVectorizer(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	widths := n.integers("inputdimensions")
	if widths != nil && len(widths) != len(n.in) {
		return nil, fmt.Errorf("%d inputdimensions of %d inputs", len(widths), len(n.in))
	}
	for i := range n.in {
		if err := n.oneOf(i, numeric...); err != nil {
			return nil, err
		}
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		var rows, total int64
		for i := range c.inputs() {
			r, width, err := table(c.in(i))
			if err != nil {
				return err
			}
			if i > 0 && r != rows || widths != nil && widths[i] != width {
				return fmt.Errorf("input %d has %d rows of %d columns, which the others or inputdimensions %v do not fit", i, r, width, widths)
			}
			rows = r
			total += width
		}
		out, err := c.out(0, rows, total)
		if err != nil {
			return err
		}
		to, done := tensor.Values[float32](out), 0
		for i := range c.inputs() {
			_, width, _ := table(c.in(i))
			x, err := c.floats(i)
			if err != nil {
				return err
			}
			for r := range int(rows) {
				copy(to[r*int(total)+done:], x[r*int(width):(r+1)*int(width)])
			}
			done += int(width)
		}
		return nil
	}, nil
}

// arrayFeatureExtractor picks elements of the last axis.
func arrayFeatureExtractor(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list := c.in(0), tensor.Values[int64](c.in(1))
		if len(in.Shape) == 0 {
			return errors.New("the input is a single value")
		}
		lead := in.Shape[:len(in.Shape)-1]
		width := in.Shape[len(in.Shape)-1]
		shape := append(slices.Clone(lead), int64(len(list)))
		if len(lead) == 0 {
			shape = []int64{1, int64(len(list))}
		}
		for _, i := range list {
			if i < 0 || i >= width {
				return fmt.Errorf("index %d of an axis of %d", i, width)
			}
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		for r := range int(product(lead)) {
			for k, i := range list {
				copyElements(out, r*len(list)+k, in, r*int(width)+int(i), 1)
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}

// zipMap names the columns of a table of probabilities. Its output, a list of maps in
// ONNX, is the table itself here, and the names are the model's labels.
func zipMap(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	k := classesOf(&n.attributeReader, "classlabels_int64s", "classlabels_strings")
	if k.count() == 0 {
		return nil, errors.New("no class labels")
	}
	n.gives(tensor.Float32)
	n.labels, n.labelled = k.names(), 0
	n.alias = true
	return func(c *call) error {
		in := c.in(0)
		rows, width, err := table(in)
		if err == nil && width != int64(k.count()) {
			err = fmt.Errorf("%d columns for %d classes", width, k.count())
		}
		if err != nil {
			return err
		}
		return c.share([]int64{rows, width})
	}, n.oneOf(0, tensor.Float32)
}
