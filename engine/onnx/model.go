package onnx

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"weir/internal/tensor"
)

// wayOut ends the errors about what this evaluator does not know.
const wayOut = "a weir built with -tags ort runs such models by ONNX Runtime"

// Model is a loaded ONNX model. It is safe for concurrent use.
type Model struct {
	inputs, outputs []tensor.Spec
	labels          map[string][]string
	session         *session // of ONNX Runtime; nil: the steps below are run

	values  []value // every tensor of the graph; a step names them by index
	steps   []step  // in the order of the file, which is that of the data
	given   []int   // values of the inputs
	wanted  []int   // values of the outputs
	buffers int     // how many memories a frame has
	frames  sync.Pool
}

// value is a tensor of the graph as it is known at load.
type value struct {
	name     string
	typ      tensor.Type
	constant *tensor.Tensor
	labels   []string // of the classes along the last axis; nil: none
	buffer   int      // the frame's memory that holds it, or one of:
}

const (
	fresh   = -1 // every run allocates the memory, which goes to the caller
	foreign = -2 // the memory is the caller's or the model's, and is only read
)

// step is a node of the graph, ready to run.
type step struct {
	what    string // the node for errors
	run     kernel
	in, out []int // values; absent is -1
	alias   bool  // output 0 may share the memory of input 0
}

// absent marks an optional input or output that the node leaves out.
const absent = -1

// kernel computes a node's outputs from its inputs.
type kernel func(c *call) error

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

// Run evaluates the model. Inputs are found by their names and are not changed;
// the outputs share no memory with the model nor with the inputs.
func (m *Model) Run(in []tensor.Tensor) ([]tensor.Tensor, error) {
	if m.session != nil {
		return m.session.run(m, in)
	}
	f, _ := m.frames.Get().(*frame)
	if f == nil {
		f = m.newFrame()
	}
	defer func() {
		f.release()
		m.frames.Put(f)
	}()
	if err := m.bind(f, in); err != nil {
		return nil, err
	}
	f.budget, f.work = maxRunBytes, math.MaxInt64
	return m.run(f)
}

func (m *Model) run(f *frame) ([]tensor.Tensor, error) {
	for i := range m.steps {
		if err := f.perform(&m.steps[i]); err != nil {
			return nil, fmt.Errorf("onnx: %w", err)
		}
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
