package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// normalization makes the operators that normalize the dimensions from an axis on:
// LayerNormalization, RMSNormalization and those of ONNX Runtime that add their inputs
// first. Means are added in float64 in the order of the elements, so that a row depends
// on itself alone.
func normalization(n *node) (kernel, error) {
	v := normForm{axis: -1, epsilon: n.float("epsilon", 1e-5), centred: true, scale: 1, shift: 2, sum: absent, mean: 1, deviation: 2}
	least, most := 2, 3
	switch n.op {
	case "LayerNormalization":
		v.axis = n.integer("axis", -1)
		n.ignore("stash_type") // sums are float64
	case "RMSNormalization", "SimplifiedLayerNormalization":
		v.axis, v.centred, v.shift, v.mean, v.deviation, most = n.integer("axis", -1), false, absent, absent, 1, 2
		n.ignore("stash_type")
	case "SkipLayerNormalization":
		v.added, v.scale, v.shift, v.sum, least, most = []int{1, 4}, 2, 3, 3, 3, 5
	case "SkipSimplifiedLayerNormalization":
		v.centred, v.added, v.scale, v.shift, v.sum, least, most = false, []int{1, 3}, 2, absent, 3, 3, 4
	}
	if err := n.takes(least, most); err != nil {
		return nil, err
	}
	for i := range n.in {
		if n.has(i) && n.typ(i) != n.typ(0) {
			return nil, fmt.Errorf("input %d is %v, input 0 is %v", i, n.typ(i), n.typ(0))
		}
	}
	for i := range n.types {
		n.types[i] = n.typ(0)
	}
	if n.typ(0) == tensor.Float64 {
		return normalizeBy[float64](v), nil
	}
	return normalizeBy[float32](v), n.oneOf(0, tensor.Float32, tensor.Float64)
}

// normForm is what an operator normalizes by.
type normForm struct {
	axis         int64
	epsilon      float32
	centred      bool  // the mean is taken away
	added        []int // inputs that are added to input 0 first
	scale, shift int   // inputs; absent: none

	sum, mean, deviation int // outputs beside the first; absent: none
}

func normalizeBy[T float](v normForm) kernel {
	return func(c *call) error {
		in := c.in(0)
		at, err := axisOf(v.axis, len(in.Shape))
		if err != nil {
			return err
		}
		scale, err := stretchedRow[T](c, v.scale, in.Shape[at:])
		if err != nil {
			return err
		}
		shift, err := stretchedRow[T](c, v.shift, in.Shape[at:])
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](in)
		if from, err = summed(c, &v, to, from); err != nil {
			return err
		}
		few := slices.Clone(in.Shape)
		for d := at; d < len(few); d++ {
			few[d] = 1
		}
		var stats [2][]T // mean and the deviation's inverse, by row
		for i, o := range []int{v.mean, v.deviation} {
			if o != absent && c.wants(o) {
				t, err := c.out(o, few...)
				if err != nil {
					return err
				}
				stats[i] = tensor.Values[T](t)
			}
		}
		width := int(product(in.Shape[at:]))
		if width == 0 {
			return nil
		}
		for r := range len(to) / width {
			mean, inverse := normalizeRow(to[r*width:(r+1)*width], from[r*width:], scale, shift, float64(v.epsilon), v.centred)
			for i, x := range []float64{mean, inverse} {
				if stats[i] != nil {
					stats[i][r] = T(x)
				}
			}
		}
		return nil
	}
}

// normalizeRow writes a row less its mean, over its deviation, times scale, plus shift;
// scale and shift may be nil.
func normalizeRow[T float](to, from, scale, shift []T, epsilon float64, centred bool) (mean, inverse float64) {
	from = from[:len(to)]
	if centred {
		for _, x := range from {
			mean += float64(x)
		}
		mean /= float64(len(to))
	}
	squares := 0.0
	for _, x := range from {
		d := float64(x) - mean
		squares += d * d
	}
	inverse = 1 / math.Sqrt(squares/float64(len(to))+epsilon)
	for i, x := range from {
		y := (float64(x) - mean) * inverse
		if scale != nil {
			y *= float64(scale[i])
		}
		if shift != nil {
			y += float64(shift[i])
		}
		to[i] = T(y)
	}
	return mean, inverse
}

// stretchedRow is input i as broadcasting stretches it to a shape; nil where it is absent.
func stretchedRow[T float](c *call, i int, shape []int64) ([]T, error) {
	if i == absent || c.in(i) == nil {
		return nil, nil
	}
	t := c.in(i)
	values := tensor.Values[T](t)
	if to, err := broadcast(shape, t.Shape); err != nil || !slices.Equal(to, shape) {
		return nil, fmt.Errorf("input %d has shape %v; what is normalized has %v", i, t.Shape, shape)
	}
	n := int(product(shape))
	if len(values) == n {
		return values, nil
	}
	row := make([]T, n)
	over(shape, t.Shape, n, func(at, i int) { row[at] = values[i] })
	return row, nil
}

// summed is input 0 with the inputs that are added to it, in the memory of the output
// for the sum, or in to.
func summed[T float](c *call, v *normForm, to, from []T) ([]T, error) {
	if v.sum == absent {
		return from, nil
	}
	sum := to
	if c.wants(v.sum) {
		t, err := c.out(v.sum, c.in(0).Shape...)
		if err != nil {
			return nil, err
		}
		sum = tensor.Values[T](t)
	}
	copy(sum, from)
	for _, i := range v.added {
		t := c.in(i)
		if t == nil {
			continue
		}
		if shape, err := broadcast(c.in(0).Shape, t.Shape); err != nil || !slices.Equal(shape, c.in(0).Shape) {
			return nil, fmt.Errorf("input %d of shape %v is added to shape %v", i, t.Shape, c.in(0).Shape)
		}
		values := tensor.Values[T](t)
		over(c.in(0).Shape, t.Shape, len(sum), func(at, i int) { sum[at] += values[i] })
	}
	return sum, nil
}

// groupNorm makes GroupNormalization, in groups of channels, and
// InstanceNormalization, in groups of one.
func groupNorm(n *node) (kernel, error) {
	if err := n.takes(3, 3); err != nil {
		return nil, err
	}
	epsilon, groups := n.float("epsilon", 1e-5), int64(0)
	if n.op == "GroupNormalization" {
		n.ignore("stash_type")
		if groups = n.integer("num_groups", 0); groups < 1 {
			return nil, fmt.Errorf("num_groups is %d", groups)
		}
	}
	n.gives(n.typ(0))
	for i := range n.in {
		if err := n.oneOf(i, tensor.Float32); err != nil {
			return nil, err
		}
	}
	byGroup := groups > 0 && n.version < 21 // scale and shift are the groups'
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 2 {
			return fmt.Errorf("shape %v has no channels", in.Shape)
		}
		channels, each := in.Shape[1], int64(1)
		if groups > 0 {
			each = channels / groups
			if channels%groups != 0 {
				return fmt.Errorf("%d channels in %d groups", channels, groups)
			}
		}
		scale, shift := tensor.Values[float32](c.in(1)), tensor.Values[float32](c.in(2))
		per := int64(1) // channels of one scale
		if byGroup {
			per = each
		}
		if int64(len(scale))*per != channels || int64(len(shift))*per != channels {
			return fmt.Errorf("%d scales and %d shifts for %d channels", len(scale), len(shift), channels)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[float32](in)
		if len(to) == 0 {
			return nil
		}
		size := int(product(in.Shape[2:]))
		width := size * int(each)
		for at := 0; at < len(to); at += width {
			normalizeRow(to[at:at+width], from[at:], nil, nil, float64(epsilon), true)
			for i := at; i < at+width; i += size {
				ch := i / size % int(channels) / int(per)
				for j := range to[i : i+size] {
					to[i+j] = to[i+j]*scale[ch] + shift[ch]
				}
			}
		}
		return nil
	}, nil
}

// lpNorm divides the lines along an axis by their norm; a line of zeros stays one.
func lpNorm(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis, p := n.integer("axis", -1), n.integer("p", 2)
	if p != 1 && p != 2 {
		return nil, fmt.Errorf("p is %d; 1 and 2 are known", p)
	}
	n.gives(n.typ(0))
	if n.typ(0) == tensor.Float64 {
		return lpNormOf[float64](axis, p), nil
	}
	return lpNormOf[float32](axis, p), n.oneOf(0, floating...)
}

func lpNormOf[T float](axis, p int64) kernel {
	return func(c *call) error {
		in := c.in(0)
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[T](out), tensor.Values[T](in)
		lines(in.Shape, at, func(_, first, stride, size int) {
			norm := 0.0
			for i := range size {
				x := math.Abs(float64(from[first+i*stride]))
				if p == 2 {
					x *= x
				}
				norm += x
			}
			if p == 2 {
				norm = math.Sqrt(norm)
			}
			if norm == 0 {
				norm = 1
			}
			for i := range size {
				to[first+i*stride] = T(float64(from[first+i*stride]) / norm)
			}
		})
		return nil
	}
}

// meanVariance takes the mean of the elements along some axes away, and divides by
// their deviation.
func meanVariance(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axes := n.integers("axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		r, err := planReduction(c, axes, true, false)
		if err != nil {
			return err
		}
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[float32](in)
		if len(to) == 0 {
			return nil
		}
		means, deviations := make([]float64, product(r.shape)), make([]float64, product(r.shape))
		sum, k := 0.0, 0
		r.visit(len(means), func() { sum = 0 }, func(i int) { sum += float64(from[i]) }, func(out int) { means[out] = sum / float64(r.count) })
		r.visit(len(means), func() { sum = 0 }, func(i int) { d := float64(from[i]) - means[k]; sum += d * d },
			func(out int) { deviations[out], k = math.Sqrt(sum/float64(r.count)), out+1 })
		over(in.Shape, r.shape, len(to), func(at, i int) {
			to[at] = float32((float64(from[at]) - means[i]) / (deviations[i] + 1e-9))
		})
		return nil
	}, n.oneOf(0, tensor.Float32)
}

// localResponse divides each element by what its neighbours in other channels have.
func localResponse(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	alpha, beta := float64(n.float("alpha", 0.0001)), float64(n.float("beta", 0.75))
	bias, size := float64(n.float("bias", 1)), n.integer("size", 0)
	if size < 1 || size > maxWindow {
		return nil, fmt.Errorf("size is %d; it is 1 to %d", size, maxWindow)
	}
	n.gives(n.typ(0))
	return func(c *call) error {
		in := c.in(0)
		if len(in.Shape) < 2 {
			return fmt.Errorf("shape %v has no channels", in.Shape)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		if err := c.f.charge(int64(len(in.Data)) * min(size, in.Shape[1])); err != nil {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[float32](in)
		before, after := int(size-1)/2, int(size)/2
		lines(in.Shape, 1, func(_, first, stride, channels int) {
			for ch := range channels {
				squares := 0.0
				for i := max(0, ch-before); i <= min(channels-1, ch+after); i++ {
					x := float64(from[first+i*stride])
					squares += x * x
				}
				at := first + ch*stride
				to[at] = float32(float64(from[at]) / math.Pow(bias+alpha/float64(size)*squares, beta))
			}
		})
		return nil
	}, n.oneOf(0, tensor.Float32)
}
