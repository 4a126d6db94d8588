package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// resize makes Resize and Upsample: every axis on its own, each of its new elements from
// the nearest old one, or from two or four as linear or cubic interpolation weighs them.
func resize(n *node) (kernel, error) {
	r := resizing{mode: n.str("mode", "nearest"), scaleInput: 1, sizesInput: absent}
	switch {
	case n.op == "Upsample" || n.version < 11:
		r.place, r.nearest = "asymmetric", "floor"
		if r.fixed = n.floats("scales"); r.fixed != nil {
			r.scaleInput = absent
		}
	default:
		r.scaleInput, r.sizesInput = 2, 3
		r.place, r.nearest = n.str("coordinate_transformation_mode", "half_pixel"), n.str("nearest_mode", "round_prefer_floor")
		r.cubic, r.inside = float64(n.float("cubic_coeff_a", -0.75)), n.integer("exclude_outside", 0) != 0
		r.axes, r.policy = n.integers("axes"), n.str("keep_aspect_ratio_policy", "stretch")
		n.ignore("extrapolation_value") // of tf_crop_and_resize
		if n.integer("antialias", 0) != 0 {
			return nil, fmt.Errorf("antialias is not supported; %s", wayOut)
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := n.takes(1, 4); err != nil {
		return nil, err
	}
	if n.has(r.scaleInput) {
		if err := n.oneOf(r.scaleInput, tensor.Float32); err != nil {
			return nil, err
		}
	}
	if n.has(r.sizesInput) {
		if err := n.oneOf(r.sizesInput, tensor.Int64); err != nil {
			return nil, err
		}
	}
	n.gives(n.typ(0))
	if r.mode == "nearest" {
		return r.run, n.oneOf(0, anything...)
	}
	return r.run, n.oneOf(0, tensor.Float32)
}

// resizing is what a node says.
type resizing struct {
	mode, place, nearest, policy string
	cubic                        float64
	inside                       bool // what lies outside has no weight
	axes                         []int64
	fixed                        []float32 // scales of an attribute
	scaleInput, sizesInput       int
}

func (r *resizing) check() error {
	for _, list := range []struct {
		name, value string
		known       []string
	}{
		{"mode", r.mode, []string{"nearest", "linear", "bilinear", "trilinear", "cubic"}},
		{"coordinate_transformation_mode", r.place, []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}},
		{"nearest_mode", r.nearest, []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
		{"keep_aspect_ratio_policy", r.policy, []string{"", "stretch", "not_larger", "not_smaller"}},
	} {
		if !slices.Contains(list.known, list.value) {
			return fmt.Errorf("%s %q is not supported; %s", list.name, list.value, wayOut)
		}
	}
	return nil
}

// scaled are the sizes of the output, and by how much each axis grows.
func (r *resizing) scaled(c *call) (shape []int64, scales []float64, err error) {
	in := c.in(0).Shape
	shape, scales = slices.Clone(in), make([]float64, len(in))
	for d := range scales {
		scales[d] = 1
	}
	axes := r.axes
	if axes == nil {
		for d := range in {
			axes = append(axes, int64(d))
		}
	}
	given := r.fixed
	if t := c.in(r.scaleInput); t != nil && elements(t) > 0 {
		given = tensor.Values[float32](t)
	}
	var sizes []int64
	if t := c.in(r.sizesInput); t != nil {
		sizes = tensor.Values[int64](t)
	}
	if (given == nil) == (sizes == nil) || max(len(given), len(sizes)) != len(axes) {
		return nil, nil, fmt.Errorf("%d scales and %d sizes for %d axes", len(given), len(sizes), len(axes))
	}
	var places []int
	for i, axis := range axes {
		d, err := axisOf(axis, len(in))
		if err != nil {
			return nil, nil, err
		}
		places = append(places, d)
		if sizes != nil {
			scales[d] = float64(sizes[i]) / float64(in[d])
		} else {
			scales[d] = float64(given[i])
		}
		if !(scales[d] > 0 && scales[d] <= maxWindow) || in[d] == 0 {
			return nil, nil, fmt.Errorf("axis %d of shape %v grows by %g", d, in, scales[d])
		}
	}
	for i, d := range places {
		switch {
		case sizes == nil:
			shape[d] = int64(math.Floor(float64(in[d]) * scales[d]))
		case r.policy == "not_larger" || r.policy == "not_smaller":
			scales[d] = r.common(sizes, in, places)
			shape[d] = int64(math.Floor(float64(in[d])*scales[d] + 0.5))
		default:
			shape[d] = sizes[i]
		}
	}
	return shape, scales, nil
}

// common is one scale for all axes, which keeps their ratio.
func (r *resizing) common(sizes, in []int64, places []int) float64 {
	scale := 0.0
	for i, d := range places {
		s := float64(sizes[i]) / float64(in[d])
		switch {
		case i == 0:
			scale = s
		case r.policy == "not_larger":
			scale = min(scale, s)
		default:
			scale = max(scale, s)
		}
	}
	return scale
}

func (r *resizing) run(c *call) error {
	shape, scales, err := r.scaled(c)
	if err != nil {
		return err
	}
	in := c.in(0)
	out, err := c.out(0, shape...)
	if err != nil || elements(out) == 0 {
		return err
	}
	if r.mode == "nearest" {
		sources := make([][]int, len(shape))
		for d := range sources {
			sources[d] = make([]int, shape[d])
			for i := range sources[d] {
				at := r.rounded(r.at(i, int(shape[d]), int(in.Shape[d]), scales[d]))
				sources[d][i] = max(0, min(at, int(in.Shape[d])-1))
			}
		}
		fillFrom(out, in, nil, sources)
		return nil
	}
	x, sizes := tensor.Values[float32](in), slices.Clone(in.Shape)
	for d := range shape {
		if shape[d] == in.Shape[d] && scales[d] == 1 {
			continue
		}
		if x, err = r.along(c, x, sizes, d, int(shape[d]), scales[d]); err != nil {
			return err
		}
		sizes[d] = shape[d]
	}
	copy(tensor.Values[float32](out), x)
	return nil
}

// at is where element i of a new axis lies on the old one.
func (r *resizing) at(i, size, old int, scale float64) float64 {
	x := float64(i)
	switch r.place {
	case "align_corners":
		if size == 1 {
			return 0
		}
		return x * float64(old-1) / float64(size-1)
	case "asymmetric":
		return x / scale
	case "pytorch_half_pixel":
		if size == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		shrunk := float64(size) / (scale * float64(old))
		return float64(old)/2*(1-shrunk) + (x+0.5)/scale - 0.5
	}
	return (x+0.5)/scale - 0.5
}

func (r *resizing) rounded(x float64) int {
	switch r.nearest {
	case "floor":
		return int(math.Floor(x))
	case "ceil":
		return int(math.Ceil(x))
	case "round_prefer_ceil":
		return int(math.Floor(x + 0.5))
	}
	return int(math.Ceil(x - 0.5))
}

// along interpolates one axis.
func (r *resizing) along(c *call, x []float32, shape []int64, d, size int, scale float64) ([]float32, error) {
	old, inner := int(shape[d]), int(product(shape[d+1:]))
	outer := int(product(shape[:d]))
	n, err := tensor.Elements([]int64{int64(outer), int64(size), int64(inner)}, c.f.budget/4)
	if err != nil {
		return nil, fmt.Errorf("a part of the output is too large: %w", err)
	}
	if len(x) == 0 {
		return nil, errors.New("no elements to interpolate")
	}
	if err := c.f.spend(4 * n); err != nil {
		return nil, err
	}
	to := make([]float32, n)
	for i := range size {
		first, weights := r.weights(r.at(i, size, old, scale), old)
		for o := range outer {
			for k := range inner {
				sum := 0.0
				for t, w := range weights {
					if w != 0 {
						at := max(0, min(first+t, old-1))
						sum += w * float64(x[(o*old+at)*inner+k])
					}
				}
				to[(o*size+i)*inner+k] = float32(sum)
			}
		}
	}
	return to, nil
}

// weights are those of the elements from first on that a place between them is made of.
func (r *resizing) weights(at float64, size int) (first int, weights []float64) {
	floor := math.Floor(at)
	part := at - floor
	first, weights = int(floor), []float64{1 - part, part}
	if r.mode != "cubic" {
		return first, weights
	}
	a := r.cubic
	first--
	weights = make([]float64, 4)
	for i := range weights {
		switch t := math.Abs(part + 1 - float64(i)); {
		case t <= 1:
			weights[i] = ((a+2)*t-(a+3))*t*t + 1
		case t < 2:
			weights[i] = ((a*t-5*a)*t+8*a)*t - 4*a
		}
	}
	if r.inside {
		sum := 0.0
		for i := range weights {
			if first+i < 0 || first+i >= size {
				weights[i] = 0
			}
			sum += weights[i]
		}
		for i := range weights {
			weights[i] /= sum
		}
	}
	return first, weights
}
