package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// wayOut ends the errors about what this evaluator does not know.
const wayOut = "a weir built with -tags ort runs such models by ONNX Runtime"

// Model is a loaded ONNX model. It is safe for concurrent use.
type Model struct {
	inputs, outputs []tensor.Spec
	labels          map[string][]string
	session         *session // of ONNX Runtime; nil: the graph is run
	graph
	bodies, open, mixes bool // it has nodes that run graphs, and what CostIsOpen and RowsMayMix say
}

// Load reads a serialized ModelProto and prepares it to run. The model keeps no
// part of data. A model that this evaluator does not support goes to ONNX Runtime,
// where SetRuntime has named its library.
func Load(data []byte) (*Model, error) {
	p, err := parseModel(data)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	m, err := build(p)
	if err != nil && runtimeIsSet() {
		m, err = openSession(data, p)
	}
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	return m, nil
}

// Native reports whether the model lies in ONNX Runtime, whose memory the garbage collector
// knows nothing of: who loaded it closes it.
func (m *Model) Native() bool { return m.session != nil }

// Close frees what a native model takes; for others it does nothing. No Run may be under
// way. One that comes later fails.
func (m *Model) Close() error {
	if m.session == nil {
		return nil
	}
	return m.session.close()
}

// Inputs says what Run takes. The answer is shared and not to be changed.
func (m *Model) Inputs() []tensor.Spec { return m.inputs }

// Outputs says what Run gives, in this order. The answer is shared and not to be changed.
func (m *Model) Outputs() []tensor.Spec { return m.outputs }

// Labels are the names of the classes along the last axis of outputs, by the
// output's name. A map of probabilities by class (ZipMap) is an output of shape
// [rows, classes] with labels.
func (m *Model) Labels() map[string][]string { return m.labels }

// CostIsOpen reports whether what a run costs does not follow from the inputs' sizes: a node Loop may run as often as
// a value says, or a value says how large a tensor becomes.
func (m *Model) CostIsOpen() bool { return m.open }

// RowsMayMix reports whether a node's course, that of a loop or a branch, may follow from several rows
// together, or a node quantizes all rows by one scale that it finds in them, as DynamicQuantizeLinear
// does. What a row is answered may then depend on the others, whatever trials say.
func (m *Model) RowsMayMix() bool { return m.mixes }

// Run evaluates the model. Inputs are found by their names and are not changed;
// the outputs share no memory with the model nor with the inputs.
func (m *Model) Run(in []tensor.Tensor) ([]tensor.Tensor, error) {
	return m.runWithin(in, limits{budget: maxRunBytes, work: math.MaxInt64, held: held{memory: &Runs}})
}

// RunUntil is Run with a function that is asked before every node, and whose error ends the run.
func (m *Model) RunUntil(in []tensor.Tensor, stop func() error) ([]tensor.Tensor, error) {
	return m.runWithin(in, limits{budget: maxRunBytes, work: maxOpenWork, stop: stop, held: held{memory: &Runs}})
}

// Try is Run within a small part of what a run may take: seconds, and a gigabyte. Beyond it the error is ErrTooMuch.
func (m *Model) Try(in []tensor.Tensor) ([]tensor.Tensor, error) {
	return m.runWithin(in, limits{budget: maxTryBytes, work: maxTryWork, held: held{memory: &Runs}})
}

// TryLeast reports whether the smallest inputs that the model takes, all zero, are computed within the limits of Try.
// Other reasons why they are not say nothing.
func (m *Model) TryLeast() error {
	if m.session != nil {
		return nil
	}
	_, err := m.trial(1, limits{budget: maxTryBytes, work: maxTryWork, iterations: maxIterations})
	if errors.Is(err, ErrTooMuch) {
		return err
	}
	return nil
}

// ErrTooMuch says that a run takes more work or memory than it may.
var ErrTooMuch = errors.New("the model takes too much")

const (
	maxOpenWork = 1 << 36 // of a run that has a RunUntil, in the unit of limits
	maxTryWork  = 1 << 32
	maxTryBytes = 1 << 30
)

// runWithin evaluates the model within limits.
func (m *Model) runWithin(in []tensor.Tensor, l limits) ([]tensor.Tensor, error) {
	if m.session != nil {
		return m.session.run(m, in)
	}
	f, _ := m.frames.Get().(*frame)
	if f == nil {
		f = m.newFrame()
	}
	defer func() {
		f.held.end()
		f.release()
		if f.kept <= keptBytes {
			m.frames.Put(f)
		}
	}()
	if err := m.bind(f, in); err != nil {
		return nil, err
	}
	if m.bodies {
		l.work = min(l.work, maxLoopWork)
	}
	l.iterations = maxIterations
	l.held.buffers = f.kept
	*f.limits = l
	if err := f.held.check(); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	return m.run(f)
}

func (m *Model) run(f *frame) ([]tensor.Tensor, error) {
	if err := f.performAll(); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	out := make([]tensor.Tensor, len(m.wanted))
	for i, id := range m.wanted {
		out[i] = f.result(id)
		out[i].Name = m.outputs[i].Name
	}
	return out, nil
}

// bind puts the inputs into the frame.
func (m *Model) bind(f *frame, in []tensor.Tensor) error {
	for i, id := range m.given {
		t, err := m.input(i, in)
		if err != nil {
			return err
		}
		f.tensors[id] = *t
	}
	return nil
}

// input finds the model's input i among those of a call, and checks it.
func (m *Model) input(i int, in []tensor.Tensor) (*tensor.Tensor, error) {
	spec := &m.inputs[i]
	at := slices.IndexFunc(in, func(t tensor.Tensor) bool { return t.Name == spec.Name })
	if at < 0 {
		return nil, fmt.Errorf("onnx: input %q is missing", spec.Name)
	}
	t := &in[at]
	if err := spec.Fits(t); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	n, err := tensor.Elements(t.Shape, maxRunBytes)
	if err != nil {
		return nil, fmt.Errorf("onnx: input %q: %w", t.Name, err)
	}
	have := int64(len(t.Strings))
	if t.Type != tensor.Bytes {
		have = int64(len(t.Data))
		n *= int64(t.Type.Size())
	}
	if have != n {
		return nil, fmt.Errorf("onnx: input %q of shape %v has %d bytes or strings; %d are needed", t.Name, t.Shape, have, n)
	}
	return t, nil
}
