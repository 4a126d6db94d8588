package predict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"weir/api"
	"weir/internal/tensor"
	"weir/router"
)

// answer is the JSON of a response, and the binary tensors that follow it; nil where
// there are none.
func (r *readerV2) answer(d *router.Description) (text, data []byte, fault *api.Error) {
	dst := make([]byte, 0, 256)
	dst = api.AppendString(append(dst, `{"model_name":`...), d.Name)
	dst = api.AppendString(append(dst, `,"model_version":`...), d.Version)
	if r.name != "" {
		dst = api.AppendString(append(dst, `,"id":`...), r.name)
	}
	if len(r.p.Notes) > 0 {
		dst = append(dst, `,"parameters":`...)
		for i, n := range r.p.Notes {
			dst = api.AppendString(append(appendName(dst, i, n.Name), ':'), n.Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"outputs":[`...)
	for i := range r.p.Outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, data, fault = r.appendOutput(dst, data, d, i); fault != nil {
			return nil, nil, fault
		}
	}
	return append(dst, "]}"...), data, nil
}

// wantsBinary reports whether an output goes behind the JSON.
func (r *readerV2) wantsBinary() bool {
	if len(r.outputs) == 0 {
		return r.allRaw
	}
	return slices.ContainsFunc(r.outputs, func(w requestedOutput) bool { return w.raw })
}

func (r *readerV2) appendOutput(dst, data []byte, d *router.Description, i int) (text, binary []byte, fault *api.Error) {
	o, raw := &r.p.Outputs[i], r.allRaw
	if i < len(r.outputs) {
		w := &r.outputs[i]
		raw = w.raw
		if w.classes > 0 {
			if o, fault = classify(o, w.classes, d.Labels[o.Name]); fault != nil {
				return nil, nil, fault
			}
		}
	}
	dst = api.AppendString(append(dst, `{"name":`...), o.Name)
	dst = append(append(append(dst, `,"datatype":"`...), o.Type.String()...), `","shape":[`...)
	for i, size := range o.Shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, size, 10)
	}
	dst = append(dst, ']')
	if raw {
		dst = append(dst, `,"parameters":{"binary_data_size":`...)
		dst = append(strconv.AppendInt(dst, int64(binarySize(o)), 10), "}}"...)
		if data == nil {
			data = []byte{}
		}
		data, fault = appendBinary(data, o)
		return dst, data, fault
	}
	if !isWritable(o.Type) {
		return nil, nil, api.Refuse("unsupported_operation", fmt.Sprintf(
			"output %q is %v, which JSON cannot carry exactly; ask for binary_data, or use gRPC", o.Name, o.Type))
	}
	w := newWriter(o, false)
	dst = slices.Grow(dst, room([]writer{w}))
	dst = w.flat(append(dst, `,"data":`...))
	return append(dst, '}'), data, nil
}

// classify is Triton's classification extension: of each row the k largest values, as
// strings "value:index" or "value:index:label", the largest first. NaN comes last.
func classify(o *tensor.Tensor, k int, labels []string) (*tensor.Tensor, *api.Error) {
	values, ok := asFloats(o)
	if !ok {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("output %q is %v, of which there is no classification", o.Name, o.Type))
	}
	shape, width := []int64{}, len(values)
	if len(o.Shape) > 1 {
		shape, width = []int64{o.Shape[0]}, stride(o.Shape[1:])
	}
	k = min(k, width)
	t := &tensor.Tensor{Name: o.Name, Type: tensor.Bytes, Shape: append(shape, int64(k)), Strings: [][]byte{}}
	order := make([]int, width)
	for first := 0; width > 0 && first < len(values); first += width {
		row := values[first : first+width]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) }) // which has NaN below all
		for _, i := range order[:k] {
			text := strconv.AppendFloat(nil, row[i], 'f', 6, 64)
			text = strconv.AppendInt(append(text, ':'), int64(i), 10)
			if i < len(labels) {
				text = append(append(text, ':'), labels[i]...)
			}
			t.Strings = append(t.Strings, text)
		}
	}
	return t, nil
}

// asFloats are a tensor's numbers, for comparing and printing.
func asFloats(t *tensor.Tensor) ([]float64, bool) {
	switch t.Type {
	case tensor.Float32:
		return floats[float32](t), true
	case tensor.Float64:
		return floats[float64](t), true
	case tensor.Int32:
		return floats[int32](t), true
	case tensor.Int64:
		return floats[int64](t), true
	case tensor.Int8:
		return floats[int8](t), true
	case tensor.Int16:
		return floats[int16](t), true
	case tensor.Uint8:
		return floats[uint8](t), true
	case tensor.Uint16:
		return floats[uint16](t), true
	case tensor.Uint32:
		return floats[uint32](t), true
	case tensor.Uint64:
		return floats[uint64](t), true
	case tensor.Invalid, tensor.Bool, tensor.Bytes, tensor.Float16, tensor.BFloat16:
	}
	return nil, false
}

func floats[T number](t *tensor.Tensor) []float64 {
	list := make([]float64, 0, len(t.Data)/max(t.Type.Size(), 1))
	for _, v := range tensor.Values[T](t) {
		list = append(list, float64(v))
	}
	return list
}
