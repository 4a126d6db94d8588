//go:build ort

package onnx

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"

	"weir/internal/tensor"
)

// loading guards ONNX Runtime's environment, of which a process has one.
var loading sync.Mutex

// SetRuntime names ONNX Runtime's shared library, which from then on runs the models
// that this package's evaluator does not support. The library is loaded once; it is
// never fetched.
func SetRuntime(path string) error {
	loading.Lock()
	defer loading.Unlock()
	if ort.IsInitialized() {
		return errors.New("onnx: ONNX Runtime is loaded already")
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return fmt.Errorf("onnx: ONNX Runtime's library %s: %w", path, err)
	}
	if err := ort.DisableTelemetry(); err != nil {
		return fmt.Errorf("onnx: ONNX Runtime's telemetry: %w", err)
	}
	return nil
}

func runtimeIsSet() bool {
	loading.Lock()
	defer loading.Unlock()
	return ort.IsInitialized()
}

// session is a model in ONNX Runtime. Calls may run at the same time, each on its
// caller's thread.
type session struct {
	s       *ort.DynamicAdvancedSession
	cleanup runtime.Cleanup // closes what was not closed
	closed  atomic.Bool
}

// openSession loads a model into ONNX Runtime.
func openSession(data []byte, p *modelProto) (*Model, error) {
	m := &Model{labels: make(map[string][]string)}
	if err := m.declare(p); err != nil {
		return nil, err
	}
	options, err := sessionOptions()
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime's options: %w", err)
	}
	defer func() { _ = options.Destroy() }()
	s, err := ort.NewDynamicAdvancedSessionWithONNXData(data, names(m.inputs), names(m.outputs), options)
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime refuses the model: %w", err)
	}
	m.session = &session{s: s}
	m.session.cleanup = runtime.AddCleanup(m, func(s *ort.DynamicAdvancedSession) { _ = s.Destroy() }, s)
	return m, nil
}

func (s *session) close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cleanup.Stop()
	if err := s.s.Destroy(); err != nil {
		return fmt.Errorf("onnx: close the model in ONNX Runtime: %w", err)
	}
	return nil
}

// sessionOptions are those of a lane among others: no thread of its own, no spinning.
func sessionOptions() (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	return o, errors.Join(o.SetIntraOpNumThreads(1), o.SetInterOpNumThreads(1),
		o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"), o.SetLogSeverityLevel(ort.LoggingLevelError))
}

func names(specs []tensor.Spec) []string {
	var list []string
	for _, s := range specs {
		list = append(list, s.Name)
	}
	return list
}

// declare takes inputs and outputs as the file declares them. A list of maps from
// classes to probabilities is a table, as of this package's own evaluator.
func (m *Model) declare(p *modelProto) error {
	for _, v := range p.graph.inputs {
		isDefault := slices.ContainsFunc(p.graph.initializers, func(t namedTensor) bool { return t.name == v.name })
		if isDefault {
			continue
		}
		if v.typ == tensor.Invalid || !v.ranked {
			return fmt.Errorf("input %q is no tensor of a declared shape", v.name)
		}
		m.inputs = append(m.inputs, tensor.Spec{Name: v.name, Type: v.typ, Shape: v.shape})
	}
	for _, v := range p.graph.outputs {
		spec := tensor.Spec{Name: v.name, Type: v.typ, Shape: v.shape}
		if v.typ == tensor.Invalid {
			k, ok := zipMapOf(&p.graph, v.name)
			if !ok {
				return fmt.Errorf("output %q is a %s; only tensors and maps of class probabilities are supported", v.name, v.kind())
			}
			spec.Type, spec.Shape = tensor.Float32, []int64{tensor.Any, int64(k.count())}
			m.labels[v.name] = k.names()
		}
		m.outputs = append(m.outputs, spec)
	}
	if len(m.inputs) == 0 || len(m.outputs) == 0 {
		return errors.New("the graph has no input or no output")
	}
	return nil
}

// zipMapOf finds the classes of the ZipMap that computes an output.
func zipMapOf(g *graphProto, output string) (classes, bool) {
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.op == "ZipMap" && slices.Contains(n.outputs, output) {
			k := classesOf(&attributeReader{given: n.attributes}, "classlabels_int64s", "classlabels_strings")
			return k, k.count() > 0
		}
	}
	return classes{}, false
}

// elementTypeNumber is ONNX's number of a type.
func elementTypeNumber(t tensor.Type) ort.TensorElementDataType {
	for number, have := range elementTypes {
		if have == t {
			return ort.TensorElementDataType(number)
		}
	}
	return ort.TensorElementDataTypeUndefined
}

func (s *session) run(m *Model, in []tensor.Tensor) ([]tensor.Tensor, error) {
	if s.closed.Load() {
		return nil, errors.New("onnx: the model is closed")
	}
	// ONNX Runtime holds on to the memory of inputs, which is Go's, until Destroy.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var given []ort.Value
	wanted := make([]ort.Value, len(m.outputs))
	defer func() {
		for _, v := range slices.Concat(given, wanted) {
			if v != nil {
				_ = v.Destroy()
			}
		}
	}()
	for i := range m.inputs {
		t, err := m.input(i, in)
		if err != nil {
			return nil, err
		}
		v, err := toRuntime(t, &pinner)
		if err != nil {
			return nil, fmt.Errorf("onnx: input %q: %w", t.Name, err)
		}
		given = append(given, v)
	}
	if err := s.s.Run(given, wanted); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	out := make([]tensor.Tensor, len(wanted))
	for i, v := range wanted {
		var err error
		if out[i], err = m.fromRuntime(i, v); err != nil {
			return nil, fmt.Errorf("onnx: output %q: %w", m.outputs[i].Name, err)
		}
	}
	// The session lives as long as the model: its cleanup must not run under a call.
	runtime.KeepAlive(m)
	return out, nil
}

// toRuntime wraps an input's memory, which is pinned as long as the pinner says.
func toRuntime(t *tensor.Tensor, pinner *runtime.Pinner) (ort.Value, error) {
	shape := ort.NewShape(t.Shape...)
	if elements(t) == 0 || len(shape) == 0 {
		return nil, fmt.Errorf("shape %v: ONNX Runtime's binding takes neither empty tensors nor single values", t.Shape)
	}
	if t.Type == tensor.Bytes {
		s, err := ort.NewStringTensor(shape)
		if err != nil {
			return nil, err
		}
		list := make([]string, len(t.Strings))
		for i, b := range t.Strings {
			list[i] = string(b)
		}
		return s, s.SetContents(list)
	}
	data := aligned(len(t.Data)) // a request's bytes may lie anywhere
	copy(data, t.Data)
	pinner.Pin(&data[0])
	return ort.NewCustomDataTensor(shape, data, elementTypeNumber(t.Type))
}

// fromRuntime copies an output.
func (m *Model) fromRuntime(i int, v ort.Value) (tensor.Tensor, error) {
	name := m.outputs[i].Name
	shape := []int64(v.GetShape())
	switch v := v.(type) {
	case *ort.Tensor[float32]:
		return tensor.Of(name, tensor.Float32, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[float64]:
		return tensor.Of(name, tensor.Float64, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[int8]:
		return tensor.Of(name, tensor.Int8, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[int16]:
		return tensor.Of(name, tensor.Int16, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[int32]:
		return tensor.Of(name, tensor.Int32, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[int64]:
		return tensor.Of(name, tensor.Int64, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[uint8]:
		return tensor.Of(name, tensor.Uint8, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[uint16]:
		return tensor.Of(name, tensor.Uint16, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[uint32]:
		return tensor.Of(name, tensor.Uint32, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[uint64]:
		return tensor.Of(name, tensor.Uint64, shape, slices.Clone(v.GetData())), nil
	case *ort.Tensor[bool]:
		bits := make([]uint8, len(v.GetData()))
		for i, b := range v.GetData() {
			bits[i] = bit(b)
		}
		return tensor.Of(name, tensor.Bool, shape, bits), nil
	case *ort.StringTensor:
		list, err := v.GetContents()
		t := tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: shape}
		for _, s := range list {
			t.Strings = append(t.Strings, []byte(s))
		}
		return t, err
	case *ort.Sequence:
		return m.tableOf(name, v)
	}
	return tensor.Tensor{}, fmt.Errorf("it is %T, which is not supported", v)
}

// tableOf makes a table of a list of maps from classes to probabilities.
func (m *Model) tableOf(name string, s *ort.Sequence) (tensor.Tensor, error) {
	rows, err := s.GetValues()
	if err != nil {
		return tensor.Tensor{}, err
	}
	labels := m.labels[name]
	table := make([]float32, 0, len(rows)*len(labels))
	for _, row := range rows {
		pairs, ok := row.(*ort.Map)
		if !ok {
			return tensor.Tensor{}, fmt.Errorf("it is a list of %T", row)
		}
		scores, err := byClass(pairs)
		if err != nil {
			return tensor.Tensor{}, err
		}
		for _, label := range labels {
			table = append(table, scores[label])
		}
	}
	return tensor.Of(name, tensor.Float32, []int64{int64(len(rows)), int64(len(labels))}, table), nil
}

// byClass is a map from classes to probabilities.
func byClass(pairs *ort.Map) (map[string]float32, error) {
	keys, values, err := pairs.GetKeysAndValues()
	if err != nil {
		return nil, err
	}
	probabilities, ok := values.(*ort.Tensor[float32])
	if !ok {
		return nil, fmt.Errorf("its maps are to %T", values)
	}
	var list []string
	switch keys := keys.(type) {
	case *ort.Tensor[int64]:
		list = (&classes{ints: keys.GetData()}).names()
	case *ort.StringTensor:
		if list, err = keys.GetContents(); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("its maps are from %T", keys)
	}
	scores := make(map[string]float32, len(list))
	for i, key := range list {
		scores[key] = probabilities.GetData()[i]
	}
	return scores, nil
}
