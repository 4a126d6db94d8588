package onnx

import (
	"slices"

	"weir/internal/tensor"
)

// A model's output shapes follow from its input shapes by running the graph: twice,
// with another size for what may be any. Sizes that stay the same are the model's
// own. The inputs of these trials are zeros, which a model may refuse; the shapes
// that the file declares hold then.

// maxTrialBytes bounds a trial; a model that needs more has its shapes from the file.
const (
	maxTrialBytes = 64 << 20
	maxTrialWork  = 1 << 30

	maxTrialIterations = 1 << 16
)

// learnShapes fills the shapes of the outputs; nil where neither the trials nor the
// file tell it.
func (m *Model) learnShapes(declared []valueProto) {
	small, err := m.trial(2, shapeTrial())
	var large []tensor.Tensor
	if err == nil {
		large, err = m.trial(3, shapeTrial())
	}
	for i := range m.outputs {
		spec := &m.outputs[i]
		switch {
		case err == nil && len(small[i].Shape) == len(large[i].Shape):
			spec.Shape = common(small[i].Shape, large[i].Shape)
		case declared[i].ranked:
			spec.Shape = declared[i].shape
		}
	}
}

func common(a, b []int64) []int64 {
	shape := slices.Clone(a)
	for i := range shape {
		if a[i] != b[i] {
			shape[i] = tensor.Any
		}
	}
	return shape
}

// shapeTrial are the limits of a trial for shapes.
func shapeTrial() limits {
	return limits{budget: maxTrialBytes, work: maxTrialWork, iterations: maxTrialIterations}
}

// trial runs the model on zeros, with size for every size that may be any.
func (m *Model) trial(size int64, l limits) ([]tensor.Tensor, error) {
	in := make([]tensor.Tensor, len(m.inputs))
	for i, spec := range m.inputs {
		t := tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: slices.Clone(spec.Shape)}
		for j := range t.Shape {
			if t.Shape[j] == tensor.Any {
				t.Shape[j] = size
			}
		}
		n, err := tensor.Elements(t.Shape, maxTrialBytes/24)
		if err != nil {
			return nil, err
		}
		if t.Type == tensor.Bytes {
			t.Strings = make([][]byte, n)
		} else {
			t.Data = aligned(int(n) * t.Type.Size())
		}
		in[i] = t
	}
	f := m.newFrame()
	if err := m.bind(f, in); err != nil {
		return nil, err
	}
	*f.limits = l
	return m.run(f)
}
