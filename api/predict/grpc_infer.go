package predict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/predict/oip"
	"weir/internal/tensor"
	"weir/scheduler/quota"
)

// ModelInfer implements oip.GRPCInferenceServiceServer.
func (g *service) ModelInfer(ctx context.Context, q *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	answer, fault := remoteOf(ctx).infer(ctx, q)
	if fault != nil {
		return nil, fault
	}
	return answer, nil
}

// infer reads a request, has it scored and writes the answer.
func (r *remote) infer(ctx context.Context, q *oip.ModelInferRequest) (*oip.ModelInferResponse, *api.Error) {
	if !r.named {
		r.name(q.GetId())
	}
	if fault := r.isAbout(r.value(strings.ToLower(userHeader))); fault != nil {
		return nil, fault
	}
	if fault := r.use(&r.job, q.GetModelName(), q.GetModelVersion()); fault != nil {
		return nil, fault
	}
	classes, fault := r.readInfer(q)
	if fault == nil {
		_, fault = r.settle(&r.job)
	}
	r.label(func(name, value string) { r.head.Set(strings.ToLower(name), value) })
	if fault != nil {
		return nil, fault
	}
	if due, ok := ctx.Deadline(); ok && (r.p.DoneBy.IsZero() || due.Before(r.p.DoneBy)) {
		r.p.DoneBy = due
	}
	if len(r.warnings) > 0 {
		r.head.Set("x-weir-warnings", strings.Join(r.warnings, ", "))
	}
	ctx, end := r.ends(ctx)
	defer end()
	fault = r.predict(ctx, &r.job, func(left quota.Remaining, degraded bool) {
		meter.WriteRemaining(func(name, value string) { r.head.Set(strings.ToLower(name), value) }, left)
		if degraded {
			r.head.Set("x-weir-quota", "local")
		}
	})
	if r.failedOver {
		r.head.Delete("x-weir-arm")
		r.label(func(name, value string) { r.head.Set(strings.ToLower(name), value) })
	}
	if fault != nil {
		return nil, fault
	}
	return r.writeInfer(q, classes)
}

// ends is a context that ends also at the request's deadline; gRPC's own ends with the
// client.
func (r *remote) ends(ctx context.Context) (context.Context, context.CancelFunc) {
	if due, ok := ctx.Deadline(); r.p.DoneBy.IsZero() || ok && !r.p.DoneBy.Before(due) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, r.p.DoneBy)
}

// readInfer reads a request's tensors and terms. classes are what its outputs ask for
// in classification, by their order; nil is none.
func (r *remote) readInfer(q *oip.ModelInferRequest) (classes []int, fault *api.Error) {
	t := requestTerms{class: r.value(strings.ToLower(classHeader)), deadline: r.value(strings.ToLower(deadlineHeader))}
	r.p.Schema = r.value(strings.ToLower(schemaHeader))
	for name, v := range q.GetParameters() {
		switch {
		case name == "priority":
			t.priority, fault = whole(name, v)
		case name == "timeout":
			t.timeoutUs, fault = whole(name, v)
		case name == "schema":
			r.p.Schema = v.GetStringParam()
		case name == "user":
			fault = r.isAbout(v.GetStringParam())
		case strings.HasPrefix(name, "sequence_"):
			fault = unsupportedParameter(name)
		default:
			fault = r.warn(r.config.Strict, quote(name))
		}
		if fault != nil {
			return nil, fault
		}
	}
	if fault := t.apply(&r.job); fault != nil {
		return nil, fault
	}
	if fault := r.readInputs(q); fault != nil {
		return nil, fault
	}
	return r.readOutputs(q)
}

func whole(name string, v *oip.InferParameter) (int64, *api.Error) {
	switch p := v.GetParameterChoice().(type) {
	case *oip.InferParameter_Int64Param:
		if p.Int64Param >= 0 {
			return p.Int64Param, nil
		}
	case *oip.InferParameter_Uint64Param:
		return int64(min(p.Uint64Param, math.MaxInt64)), nil //nolint:gosec // bounded
	}
	return 0, api.Refuse("invalid_value", fmt.Sprintf("the parameter %s must be a whole number of at least 0", name))
}

func (r *remote) readInputs(q *oip.ModelInferRequest) *api.Error {
	raw := q.GetRawInputContents()
	if len(q.GetInputs()) > maxInputs {
		return api.Refuse("invalid_value", fmt.Sprintf("the request has more than %d inputs", maxInputs))
	}
	if len(raw) > 0 && len(raw) != len(q.GetInputs()) {
		return api.Refuse("invalid_value", fmt.Sprintf("the request has %d inputs and %d raw_input_contents; there must be one of each, or none of the latter", len(q.GetInputs()), len(raw)))
	}
	r.p.Inputs = make([]tensor.Tensor, 0, len(q.GetInputs()))
	for i, in := range q.GetInputs() {
		t := tensor.Tensor{Name: in.GetName(), Shape: in.GetShape()}
		var fault *api.Error
		if t.Type, fault = parseType(in.GetDatatype()); fault != nil {
			return fault
		}
		switch {
		case len(t.Name) > maxNameBytes:
			return api.Refuse("invalid_value", fmt.Sprintf("the name of input %d has %d bytes; at most %d are taken", i, len(t.Name), maxNameBytes))
		case len(t.Shape) > maxDepth:
			return api.Refuse("invalid_value", fmt.Sprintf("input %s has a shape of %d sizes; at most %d are taken", quote(t.Name), len(t.Shape), maxDepth))
		case slices.ContainsFunc(r.p.Inputs, func(other tensor.Tensor) bool { return other.Name == t.Name }):
			return api.Refuse("duplicate_parameter", fmt.Sprintf("the input %s comes twice", quote(t.Name)))
		case len(raw) > 0 && in.GetContents() != nil:
			return api.Refuse("invalid_value", fmt.Sprintf("input %s has contents beside raw_input_contents; send one of them", quote(t.Name)))
		case len(raw) > 0:
			fault = setData(&t, raw[i])
		default:
			fault = setContents(&t, in.GetContents())
		}
		if fault != nil {
			return fault
		}
		for name := range in.GetParameters() {
			if strings.HasPrefix(name, "shared_memory_") {
				return unsupportedSharedMemory(name)
			}
			if fault := r.warn(r.config.Strict, quote(name)); fault != nil {
				return fault
			}
		}
		r.p.Inputs = append(r.p.Inputs, t)
	}
	return nil
}

func (r *remote) readOutputs(q *oip.ModelInferRequest) (classes []int, fault *api.Error) {
	if len(q.GetOutputs()) > maxOutputs {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("the request asks for more than %d outputs", maxOutputs))
	}
	for i, o := range q.GetOutputs() {
		if slices.Contains(r.p.Wanted, o.GetName()) {
			return nil, api.Refuse("duplicate_parameter", fmt.Sprintf("the output %s comes twice", quote(o.GetName())))
		}
		r.p.Wanted = append(r.p.Wanted, o.GetName())
		for name, v := range o.GetParameters() {
			switch {
			case name == "classification":
				n, fault := whole(name, v)
				if fault != nil {
					return nil, fault
				}
				if classes == nil {
					classes = make([]int, len(q.GetOutputs()))
				}
				classes[i] = int(min(n, maxClasses))
			case strings.HasPrefix(name, "shared_memory_"):
				return nil, unsupportedSharedMemory(name)
			default:
				fault = r.warn(r.config.Strict, quote(name))
			}
		}
	}
	return classes, fault
}

// setContents makes the elements of typed contents those of a tensor: without a copy,
// where their type is the tensor's.
func setContents(t *tensor.Tensor, c *oip.InferTensorContents) *api.Error {
	typed, ok := contentsOf(t, c)
	if !ok {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s is %v, which needs raw_input_contents, or has contents out of its range", quote(t.Name), t.Type))
	}
	have := int64(len(typed.Strings))
	if t.Type != tensor.Bytes {
		have = int64(len(typed.Data) / t.Type.Size())
	}
	n, err := tensor.Elements(t.Shape, have+1)
	if err != nil || n != have {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s has %d elements in the contents of %v; its shape is %v", quote(t.Name), have, t.Type, t.Shape))
	}
	*t = typed
	return nil
}

func contentsOf(t *tensor.Tensor, c *oip.InferTensorContents) (typed tensor.Tensor, ok bool) {
	switch t.Type {
	case tensor.Bool:
		v := make([]uint8, len(c.GetBoolContents()))
		for i, on := range c.GetBoolContents() {
			if on {
				v[i] = 1
			}
		}
		return tensor.Of(t.Name, t.Type, t.Shape, v), true
	case tensor.Int8:
		return narrowed[int8](t, c.GetIntContents())
	case tensor.Int16:
		return narrowed[int16](t, c.GetIntContents())
	case tensor.Int32:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetIntContents()), true
	case tensor.Int64:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetInt64Contents()), true
	case tensor.Uint8:
		return narrowed[uint8](t, c.GetUintContents())
	case tensor.Uint16:
		return narrowed[uint16](t, c.GetUintContents())
	case tensor.Uint32:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetUintContents()), true
	case tensor.Uint64:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetUint64Contents()), true
	case tensor.Float32:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetFp32Contents()), true
	case tensor.Float64:
		return tensor.Of(t.Name, t.Type, t.Shape, c.GetFp64Contents()), true
	case tensor.Bytes:
		return tensor.Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Strings: c.GetBytesContents()}, true
	case tensor.Invalid, tensor.Float16, tensor.BFloat16:
	}
	return typed, false
}

// narrowed are values of a type with fewer bits than the message has for them; false
// where one does not fit.
func narrowed[T int8 | int16 | uint8 | uint16, W int32 | uint32](t *tensor.Tensor, wide []W) (tensor.Tensor, bool) {
	values := make([]T, len(wide))
	for i, w := range wide {
		if values[i] = T(w); W(values[i]) != w {
			return tensor.Tensor{}, false
		}
	}
	return tensor.Of(t.Name, t.Type, t.Shape, values), true
}

// writeInfer writes outputs as the request's inputs came: raw, or in typed contents.
func (r *remote) writeInfer(q *oip.ModelInferRequest, classes []int) (*oip.ModelInferResponse, *api.Error) {
	answer := &oip.ModelInferResponse{ModelName: r.about.Name, ModelVersion: r.about.Version, Id: r.answerID(q),
		Outputs: make([]*oip.ModelInferResponse_InferOutputTensor, len(r.p.Outputs))}
	for _, n := range r.p.Notes {
		if answer.Parameters == nil {
			answer.Parameters = make(map[string]*oip.InferParameter)
		}
		answer.Parameters[n.Name] = &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: n.Value}}
	}
	raw := len(q.GetRawInputContents()) > 0 || slices.ContainsFunc(r.p.Outputs, func(t tensor.Tensor) bool { return !isWritable(t.Type) })
	for i := range r.p.Outputs {
		o := &r.p.Outputs[i]
		if classes != nil && classes[i] > 0 {
			var fault *api.Error
			if o, fault = classify(o, classes[i], r.about.Labels[o.Name]); fault != nil {
				return nil, fault
			}
		}
		out := &oip.ModelInferResponse_InferOutputTensor{Name: o.Name, Datatype: o.Type.String(), Shape: o.Shape}
		answer.Outputs[i] = out
		if !raw {
			out.Contents = contents(o)
			continue
		}
		data := o.Data
		if o.Type == tensor.Bytes {
			var fault *api.Error
			if data, fault = appendBinary(make([]byte, 0, binarySize(o)), o); fault != nil {
				return nil, fault
			}
		}
		answer.RawOutputContents = append(answer.RawOutputContents, data)
	}
	return answer, nil
}

// answerID is the id in an answer: the request's own. In a stream, which has no header for each answer, it is ours where the message
// had none.
func (r *remote) answerID(q *oip.ModelInferRequest) string {
	if q.GetId() == "" && r.streams() {
		return r.id
	}
	return q.GetId()
}

// contents are a tensor's elements in the field of their type.
func contents(t *tensor.Tensor) *oip.InferTensorContents {
	c := new(oip.InferTensorContents)
	switch t.Type {
	case tensor.Bool:
		c.BoolContents = make([]bool, len(t.Data))
		for i, b := range t.Data {
			c.BoolContents[i] = b != 0
		}
	case tensor.Int8:
		c.IntContents = widened[int32](tensor.Values[int8](t))
	case tensor.Int16:
		c.IntContents = widened[int32](tensor.Values[int16](t))
	case tensor.Int32:
		c.IntContents = tensor.Values[int32](t)
	case tensor.Int64:
		c.Int64Contents = tensor.Values[int64](t)
	case tensor.Uint8:
		c.UintContents = widened[uint32](tensor.Values[uint8](t))
	case tensor.Uint16:
		c.UintContents = widened[uint32](tensor.Values[uint16](t))
	case tensor.Uint32:
		c.UintContents = tensor.Values[uint32](t)
	case tensor.Uint64:
		c.Uint64Contents = tensor.Values[uint64](t)
	case tensor.Float32:
		c.Fp32Contents = tensor.Values[float32](t)
	case tensor.Float64:
		c.Fp64Contents = tensor.Values[float64](t)
	case tensor.Bytes:
		c.BytesContents = t.Strings
	case tensor.Invalid, tensor.Float16, tensor.BFloat16: // these go raw
	}
	return c
}

func widened[W int32 | uint32, T int8 | int16 | uint8 | uint16](values []T) []W {
	wide := make([]W, len(values))
	for i, v := range values {
		wide[i] = W(v)
	}
	return wide
}

// ModelStreamInfer implements oip.GRPCInferenceServiceServer: an error of one message
// is its answer, and the stream goes on.
func (g *service) ModelStreamInfer(stream grpc.BidiStreamingServer[oip.ModelInferRequest, oip.ModelStreamInferResponse]) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r, fault := g.begin(stream.Context(), oip.GRPCInferenceService_ModelStreamInfer_FullMethodName)
		answer := new(oip.ModelStreamInferResponse)
		if fault == nil {
			answer.InferResponse, fault = r.safely(stream.Context(), q)
		}
		r.finish(fault)
		if fault != nil {
			answer.ErrorMessage = fault.Message
			answer.InferResponse = &oip.ModelInferResponse{Id: r.answerID(q), ModelName: q.GetModelName()}
		}
		if fault != nil && fault.Status == edge.StatusHungUp {
			return statusOf(fault)
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// safely is infer whose panic is the message's error alone.
func (r *remote) safely(ctx context.Context, q *oip.ModelInferRequest) (answer *oip.ModelInferResponse, fault *api.Error) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked("grpc", v)
			fault = api.Refuse("internal_error", "the server hit a bug while it handled this request; the process goes on")
		}
	}()
	return r.infer(ctx, q)
}
