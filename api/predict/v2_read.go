package predict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/tensor"
)

// headerLength says how many bytes of a body are JSON; binary tensors follow.
const headerLength = "Inference-Header-Content-Length"

// readerV2 reads a V2 request over HTTP, and writes its answer.
type readerV2 struct {
	scanner
	*job
	terms  *requestTerms
	strict bool

	name    string // the request's id; "" is none
	binary  []byte // tensors behind the JSON, in the order of inputs
	allRaw  bool   // binary_data_output: outputs are binary unless they say otherwise
	outputs []requestedOutput
}

// requestedOutput is an output that the request asks for.
type requestedOutput struct {
	name    string
	raw     bool // binary
	said    bool // raw is what the output's own parameters say
	classes int  // > 0: the best so many, as Triton's classification extension writes them
}

const (
	maxInputs  = 1024 // of a request
	maxOutputs = 1024
)

// split reads a body: all JSON, JSON and binary tensors behind it, or the bytes of one
// tensor alone.
func (r *readerV2) split(body, length []byte) *api.Error {
	r.b = body
	if len(length) > 0 {
		n, err := strconv.Atoi(string(length))
		if err != nil || n < 0 || n > len(body) {
			return api.Refuse("invalid_value", fmt.Sprintf("%s is %s; it must be a number of bytes, at most the body's %d", headerLength, quote(length), len(body)))
		}
		if n == 0 {
			return r.raw(body)
		}
		r.b, r.binary = body[:n], body[n:]
	}
	if fault := r.fields(r.field); fault != nil {
		return fault
	}
	if fault := r.end(); fault != nil {
		return fault
	}
	if len(r.binary) > 0 {
		return api.Refuse("invalid_value", fmt.Sprintf("%d bytes follow the inputs' binary data; binary_data_size of the inputs must add up to all of them", len(r.binary)))
	}
	for i := range r.outputs {
		if o := &r.outputs[i]; !o.said {
			o.raw = r.allRaw
		}
		r.p.Wanted = append(r.p.Wanted, r.outputs[i].name)
	}
	return nil
}

func (r *readerV2) field(name []byte) (fault *api.Error) {
	switch string(name) {
	case "id":
		r.name, fault = r.str("id")
	case "parameters":
		fault = r.parameters()
	case "inputs":
		fault = r.elements(r.input)
	case "outputs":
		fault = r.elements(r.output)
	default:
		fault = r.unknown(string(name))
	}
	return fault
}

// unknown moves over a field that is not used.
func (r *readerV2) unknown(name string) *api.Error {
	if fault := r.ignore(); fault != nil {
		return fault
	}
	return r.warn(r.strict, quote(name))
}

// parameters reads those of the request. Names that the protocol's extensions have and
// this server does not serve are refused: they would change the answer.
func (r *readerV2) parameters() *api.Error {
	return r.fields(func(name []byte) (fault *api.Error) {
		switch key := string(name); key {
		case "binary_data_output":
			r.allRaw, fault = r.boolean(key)
		case "priority":
			r.terms.priority, fault = r.count(key)
		case "timeout":
			r.terms.timeoutUs, fault = r.count(key)
		case "schema":
			r.p.Schema, fault = r.str(key)
		case "user":
			var user string
			if user, fault = r.str(key); fault == nil {
				fault = r.isAbout(user)
			}
		default:
			if strings.HasPrefix(key, "sequence_") {
				return unsupportedParameter(key)
			}
			fault = r.unknown(key)
		}
		return fault
	})
}

func unsupportedParameter(name string) *api.Error {
	e := api.Refuse("unsupported_parameter", fmt.Sprintf("the parameter %s is not supported: models here keep nothing between requests; leave it out", quote(name)))
	e.Param = shorten(name)
	return e
}

// input reads one input tensor. Its data may stand before its type and shape.
func (r *readerV2) input() *api.Error {
	if len(r.p.Inputs) == maxInputs {
		return api.Refuse("invalid_value", fmt.Sprintf("the request has more than %d inputs", maxInputs))
	}
	var t tensor.Tensor
	data, size := -1, int64(-1)
	fault := r.fields(func(name []byte) (fault *api.Error) {
		switch string(name) {
		case "name":
			t.Name, fault = r.str("name")
		case "datatype":
			var word string
			if word, fault = r.str("datatype"); fault == nil {
				t.Type, fault = parseType(word)
			}
		case "shape":
			t.Shape, fault = r.shape(t.Name)
		case "data":
			if data = r.i; t.Type != tensor.Invalid && t.Shape != nil {
				return r.data(&t)
			}
			_, fault = r.skip()
		case "parameters":
			size, fault = r.inputParameters()
		default:
			fault = r.unknown(string(name))
		}
		return fault
	})
	switch {
	case fault != nil:
		return fault
	case t.Name == "", t.Type == tensor.Invalid, t.Shape == nil:
		return api.Refuse("missing_required_parameter", "an input lacks its name, its datatype or its shape")
	case slices.ContainsFunc(r.p.Inputs, func(other tensor.Tensor) bool { return other.Name == t.Name }):
		return api.Refuse("duplicate_parameter", fmt.Sprintf("the input %s comes twice", quote(t.Name)))
	case size >= 0 && data >= 0:
		return api.Refuse("invalid_value", fmt.Sprintf("input %s has both data and binary_data_size", quote(t.Name)))
	case size >= 0:
		fault = r.takeBinary(&t, size)
	case data < 0:
		fault = api.Refuse("missing_required_parameter", fmt.Sprintf("input %s has neither data nor binary_data_size", quote(t.Name)))
	case t.Data == nil && t.Strings == nil:
		after := r.i
		r.i = data
		fault = r.data(&t)
		r.i = after
	}
	r.p.Inputs = append(r.p.Inputs, t)
	return fault
}

func parseType(word string) (tensor.Type, *api.Error) {
	t, err := tensor.ParseType(word)
	if err != nil {
		return t, api.Refuse("invalid_value", err.Error())
	}
	return t, nil
}

// shape reads a tensor's shape, which is not nil. name is the tensor's, "" where it
// stands behind the shape.
func (r *readerV2) shape(name string) ([]int64, *api.Error) {
	shape := make([]int64, 0, 4)
	fault := r.elements(func() *api.Error {
		if len(shape) == maxDepth {
			return api.Refuse("invalid_value", fmt.Sprintf("the shape of %s has more than %d sizes", r.inputName(name), maxDepth))
		}
		n, ok := r.whole()
		if !ok {
			return r.wrong(fmt.Sprintf("size %d in the shape of %s", len(shape), r.inputName(name)), wantCount)
		}
		shape = append(shape, n)
		return nil
	})
	return shape, fault
}

// inputName names the input that is read; its place does, where the name is not known yet.
func (r *readerV2) inputName(name string) string {
	if name == "" {
		return fmt.Sprintf("inputs[%d]", len(r.p.Inputs))
	}
	return "input " + quote(name)
}

// data reads the elements of a tensor whose type and shape are known, flat or nested as
// its shape says.
func (r *readerV2) data(t *tensor.Tensor) *api.Error {
	const leastBytes = 2 // of an element with its comma
	n, err := tensor.Elements(t.Shape, int64(len(r.b)-r.i)/leastBytes+1)
	if err != nil {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s: its shape %v has more elements than the body can hold behind it; send the shape of the data that is sent", quote(t.Name), t.Shape))
	}
	a, fault := newArray(t.Name, dataV2, t.Type, n)
	if fault == nil {
		fault = a.read(&r.scanner)
	}
	if fault != nil {
		return fault
	}
	if have := a.elements.len(); have != n || a.rank > 1 && !slices.Equal(a.shape(), t.Shape) {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s has %d elements of shape %v; its shape says %v", quote(t.Name), have, a.shape(), t.Shape))
	}
	*t = a.elements.tensor(t.Name, t.Shape)
	if t.Type != tensor.Bytes && t.Data == nil {
		t.Data = []byte{}
	}
	return nil
}

// inputParameters returns binary_data_size, -1 for none.
func (r *readerV2) inputParameters() (size int64, fault *api.Error) {
	size = -1
	fault = r.fields(func(name []byte) (fault *api.Error) {
		key := string(name)
		switch {
		case key == "binary_data_size":
			size, fault = r.count(key)
		case strings.HasPrefix(key, "shared_memory_"):
			fault = unsupportedSharedMemory(key)
		default:
			fault = r.unknown(key)
		}
		return fault
	})
	return size, fault
}

func unsupportedSharedMemory(name string) *api.Error {
	e := api.Refuse("unsupported_parameter", fmt.Sprintf("the parameter %s is not supported; send the tensor in the request", quote(name)))
	e.Param = shorten(name)
	return e
}

// output reads one requested output.
func (r *readerV2) output() *api.Error {
	if len(r.outputs) == maxOutputs {
		return api.Refuse("invalid_value", fmt.Sprintf("the request asks for more than %d outputs", maxOutputs))
	}
	var o requestedOutput
	fault := r.fields(func(name []byte) (fault *api.Error) {
		switch string(name) {
		case "name":
			o.name, fault = r.str("name")
		case "parameters":
			fault = r.outputParameters(&o)
		default:
			fault = r.unknown(string(name))
		}
		return fault
	})
	if fault == nil && o.name == "" {
		fault = api.Refuse("missing_required_parameter", "an output lacks its name")
	}
	for _, other := range r.outputs {
		if other.name == o.name {
			return api.Refuse("duplicate_parameter", fmt.Sprintf("the output %s comes twice", quote(o.name)))
		}
	}
	r.outputs = append(r.outputs, o)
	return fault
}

func (r *readerV2) outputParameters(o *requestedOutput) *api.Error {
	return r.fields(func(name []byte) (fault *api.Error) {
		switch key := string(name); {
		case key == "binary_data":
			o.raw, fault = r.boolean(key)
			o.said = true
		case key == "classification":
			var n int64
			n, fault = r.count(key)
			o.classes = int(min(n, maxClasses))
		case strings.HasPrefix(key, "shared_memory_"):
			fault = unsupportedSharedMemory(key)
		default:
			fault = r.unknown(key)
		}
		return fault
	})
}

// maxClasses bounds the classes that a classification asks for.
const maxClasses = 1 << 20
