package onnx

import (
	"fmt"
	"slices"
)

// windows is how a node lays windows over the dimensions after the second: what a
// convolution multiplies, or a pool folds.
type windows struct {
	sizes, strides, dilations []int64 // nil: as the weights have it; ones
	pads                      []int64 // before each dimension, then after each; nil: none
	auto                      string
	ceil                      bool
}

// maxWindow bounds sizes, steps and borders of windows: their products fit an int64.
const maxWindow = 1 << 20

func windowsOf(r *attributeReader) (windows, error) {
	w := windows{
		sizes: r.integers("kernel_shape"), strides: r.integers("strides"), dilations: r.integers("dilations"),
		pads: r.integers("pads"), auto: r.str("auto_pad", "NOTSET"),
	}
	for _, list := range []struct {
		name   string
		values []int64
		least  int64
	}{{"kernel_shape", w.sizes, 1}, {"strides", w.strides, 1}, {"dilations", w.dilations, 1}, {"pads", w.pads, 0}} {
		if slices.ContainsFunc(list.values, func(v int64) bool { return v < list.least || v > maxWindow }) {
			return w, fmt.Errorf("%s are %v; each is %d to %d", list.name, list.values, list.least, maxWindow)
		}
	}
	switch w.auto {
	case "NOTSET":
	case "SAME_UPPER", "SAME_LOWER", "VALID":
		w.pads = nil
	default:
		return w, fmt.Errorf("auto_pad %q is unknown", w.auto)
	}
	return w, nil
}

// dimension is how windows lie along one dimension.
type dimension struct {
	in, out                int // sizes
	window, step, dilation int
	before, after          int // border
}

// span is how far a window reaches.
func (d *dimension) span() int { return (d.window-1)*d.dilation + 1 }

// at is where an element of a window lies in the input: outside of it where that is
// not from 0 to d.in.
func (d *dimension) at(out, element int) int { return out*d.step + element*d.dilation - d.before }

// place lays windows of sizes over an input's dimensions.
func (w *windows) place(in, sizes []int64) ([]dimension, error) {
	if len(in) == 0 || len(in) != len(sizes) ||
		w.strides != nil && len(w.strides) != len(in) || w.dilations != nil && len(w.dilations) != len(in) || w.pads != nil && len(w.pads) != 2*len(in) {
		return nil, fmt.Errorf("windows of shape %v, strides %v, dilations %v and pads %v over dimensions %v", sizes, w.strides, w.dilations, w.pads, in)
	}
	placed := make([]dimension, len(in))
	for i := range placed {
		if in[i] > maxRunBytes || sizes[i] > maxWindow {
			return nil, fmt.Errorf("a window of %d over a dimension of %d", sizes[i], in[i])
		}
		d := dimension{in: int(in[i]), window: int(sizes[i]), step: 1, dilation: 1}
		if w.strides != nil {
			d.step = int(w.strides[i])
		}
		if w.dilations != nil {
			d.dilation = int(w.dilations[i])
		}
		if w.pads != nil {
			d.before, d.after = int(w.pads[i]), int(w.pads[len(in)+i])
		}
		if err := w.count(&d); err != nil {
			return nil, err
		}
		placed[i] = d
	}
	return placed, nil
}

// count finds how many windows there are, and the border where the node leaves it open.
func (w *windows) count(d *dimension) error {
	if w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" {
		d.out = (d.in + d.step - 1) / d.step
		border := max(0, (d.out-1)*d.step+d.span()-d.in)
		d.before, d.after = border/2, border-border/2
		if w.auto == "SAME_LOWER" {
			d.before, d.after = d.after, d.before
		}
		return nil
	}
	room := d.in + d.before + d.after - d.span()
	if room < 0 {
		return fmt.Errorf("a window of %d elements, %d apart, over a dimension of %d with a border of %d", d.window, d.dilation, d.in, d.before+d.after)
	}
	d.out = room/d.step + 1
	if w.ceil && room%d.step != 0 && d.out*d.step < d.in+d.before { // the last window begins in the input, or before it
		d.out++
	}
	return nil
}

// counts are the numbers of windows by dimension.
func counts(placed []dimension) []int64 {
	shape := make([]int64, len(placed))
	for i, d := range placed {
		shape[i] = int64(d.out)
	}
	return shape
}

// forward moves an index over sizes to the next one.
func forward(index []int, size func(d int) int) {
	for d := len(index) - 1; d >= 0; d-- {
		if index[d]++; index[d] < size(d) {
			return
		}
		index[d] = 0
	}
}

// locate is the index of element i of an array of those sizes.
func locate(index []int, i int, size func(d int) int) {
	for d := len(index) - 1; d >= 0; d-- {
		index[d], i = i%size(d), i/size(d)
	}
}
