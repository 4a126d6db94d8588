package classic

import (
	"errors"
	"fmt"
	"slices"

	"weir/engine/onnx"
	"weir/internal/inference"
	"weir/internal/tensor"
)

// graph is an ONNX model. Inputs go by the model's names; numbers are converted where
// the model takes FP32 or FP64.
type graph struct {
	m      *onnx.Model
	memory int64
}

func (m *graph) about() inference.Description {
	return inference.Description{Platform: "weir_onnx", Inputs: m.m.Inputs(), Outputs: m.m.Outputs(), Labels: m.m.Labels()}
}

// batches reports whether every input and output has a first size that is open, and no row can change another's answer.
func (m *graph) batches() bool {
	open := func(s tensor.Spec) bool { return len(s.Shape) > 0 && s.Shape[0] == tensor.Any }
	closed := func(s tensor.Spec) bool { return !open(s) }
	return len(m.m.Inputs()) > 0 && !m.m.RowsMayMix() && !slices.ContainsFunc(m.m.Inputs(), closed) && !slices.ContainsFunc(m.m.Outputs(), closed)
}

func (m *graph) bytes() int64   { return m.memory }
func (m *graph) kernel() string { return "onnx" }

func (m *graph) details() []Detail {
	return []Detail{{"format", "onnx"}, {"inputs", len(m.m.Inputs())}, {"outputs", len(m.m.Outputs())}, {"rows_batch", m.batches()}}
}

func (m *graph) accept(in []tensor.Tensor) (taken []tensor.Tensor, own bool, err error) {
	specs := m.m.Inputs()
	if len(in) != len(specs) {
		return nil, false, fmt.Errorf("%d inputs are given; the model takes %d: %s", len(in), len(specs), names(specs))
	}
	taken, own = make([]tensor.Tensor, len(specs)), true
	for i := range specs {
		at := slices.IndexFunc(in, func(t tensor.Tensor) bool { return t.Name == specs[i].Name })
		if at < 0 {
			return nil, false, fmt.Errorf("the input %q is missing; the model takes %s", specs[i].Name, names(specs))
		}
		var changed bool
		if taken[i], changed, err = fitted(&in[at], &specs[i]); err != nil {
			return nil, false, err
		}
		own = own && changed
		if m.batches() && taken[i].Rows() != taken[0].Rows() {
			return nil, false, fmt.Errorf("the input %q has %d rows, %q has %d", taken[i].Name, taken[i].Rows(), taken[0].Name, taken[0].Rows())
		}
	}
	return taken, own, nil
}

// fitted is a tensor in the type that a specification asks for; changed says that it is new.
func fitted(t *tensor.Tensor, s *tensor.Spec) (taken tensor.Tensor, changed bool, err error) {
	if err := whole(t); err != nil {
		return taken, false, err
	}
	taken = *t
	if t.Type != s.Type && t.Type != tensor.Bytes {
		switch s.Type {
		case tensor.Float32:
			values := make([]float32, len(t.Data)/t.Type.Size())
			err, changed = convert(values, 1, t), true
			taken = tensor.Of(t.Name, s.Type, t.Shape, values)
		case tensor.Float64:
			values := make([]float64, len(t.Data)/t.Type.Size())
			err, changed = convert(values, 1, t), true
			taken = tensor.Of(t.Name, s.Type, t.Shape, values)
		default: // Fits says what is wrong
		}
	}
	if err == nil {
		err = s.Fits(&taken)
	}
	return taken, changed, err
}

func (m *graph) native() bool { return m.m.Native() }

// close implements native. What ONNX Runtime says of it does not help: the memory is gone, or
// the process has lost it.
func (m *graph) close() { _ = m.m.Close() }

func (m *graph) compute(in []tensor.Tensor) ([]tensor.Tensor, error) {
	out, err := m.m.Run(in)
	return out, overloaded(err)
}

// overloaded says of a run that lacked memory which others have that it may succeed later.
func overloaded(err error) error {
	if errors.Is(err, onnx.ErrMemory) {
		return fmt.Errorf("%w: %w", inference.ErrQueueFull, err)
	}
	return err
}

func (m *graph) open() bool { return m.m.CostIsOpen() }

func (m *graph) tryLeast() (tooMuch bool) { return m.m.TryLeast() != nil }

func (m *graph) try(in []tensor.Tensor) (out []tensor.Tensor, tooMuch bool, err error) {
	out, err = m.m.Try(in)
	return out, errors.Is(err, onnx.ErrTooMuch), err
}

func (m *graph) computeUntil(in []tensor.Tensor, stop func() error) ([]tensor.Tensor, error) {
	out, err := m.m.RunUntil(in, stop)
	return out, overloaded(err)
}
