package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// headerLength says how many bytes of a body are JSON; binary tensors follow, in the order of their
// descriptions (the Open Inference Protocol's binary tensor data extension).
const headerLength = "Inference-Header-Content-Length"

const mostElements = 1 << 28 // of an answer's tensor

// tensorJSON is a tensor of a request or an answer.
type tensorJSON struct {
	Name       string          `json:"name"`
	Type       string          `json:"datatype"`
	Shape      []int64         `json:"shape"`
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// writeInference is a prediction as a V2 request with binary tensors; header bytes of the body are JSON.
func writeInference(q *router.Prediction) (body []byte, header int, err error) {
	type named struct {
		Name string `json:"name"`
	}
	request := struct {
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters"`
		Inputs     []tensorJSON   `json:"inputs"`
		Outputs    []named        `json:"outputs,omitempty"`
	}{ID: q.ID, Parameters: map[string]any{"binary_data_output": true}}
	if q.Schema != "" {
		request.Parameters["schema"] = q.Schema
	}
	var data []byte
	for i := range q.Inputs {
		t := &q.Inputs[i]
		before := len(data)
		data = append(data, t.Data...)
		for _, s := range t.Strings {
			if len(s) > math.MaxInt32 {
				return nil, 0, fmt.Errorf("%w: a byte string of input %q has %d bytes", inference.ErrInvalid, t.Name, len(s))
			}
			data = append(binary.LittleEndian.AppendUint32(data, uint32(len(s))), s...) //nolint:gosec // checked above
		}
		request.Inputs = append(request.Inputs, tensorJSON{
			Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Parameters: map[string]any{"binary_data_size": len(data) - before},
		})
	}
	for _, name := range q.Wanted {
		request.Outputs = append(request.Outputs, named{name})
	}
	head, err := json.Marshal(request)
	if err != nil {
		return nil, 0, err
	}
	return append(head, data...), len(head), nil
}

// readInference reads a V2 answer: binary tensors, or numbers as JSON. Its parameters that are texts are notes.
func readInference(h http.Header, whole []byte) ([]tensor.Tensor, []router.Note, error) {
	head, data := whole, []byte(nil)
	if text := h.Get(headerLength); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(whole) {
			return nil, nil, fmt.Errorf("%w: %s is %.40q of %d bytes", errAnswer, headerLength, text, len(whole))
		}
		head, data = whole[:n], whole[n:]
	}
	var answer struct {
		Parameters map[string]any
		Outputs    []struct {
			tensorJSON
			Parameters struct {
				Size *int64 `json:"binary_data_size"`
			} `json:"parameters"`
		}
	}
	if err := json.Unmarshal(head, &answer); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if len(answer.Outputs) == 0 {
		return nil, nil, fmt.Errorf("%w: it has no outputs", errAnswer)
	}
	list := make([]tensor.Tensor, len(answer.Outputs))
	for i := range answer.Outputs {
		o, t := &answer.Outputs[i], &list[i]
		typ, err := tensor.ParseType(o.Type)
		if err == nil {
			*t = tensor.Tensor{Name: o.Name, Type: typ, Shape: o.Shape}
			if size := o.Parameters.Size; size == nil {
				err = readJSON(t, o.Data)
			} else if *size < 0 || *size > int64(len(data)) {
				err = fmt.Errorf("binary_data_size is %d, and %d bytes are left", *size, len(data))
			} else {
				err = readBinary(t, data[:*size:*size])
				data = data[*size:]
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: output %.100q: %w", errAnswer, o.Name, err)
		}
	}
	if len(data) > 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes follow the outputs", errAnswer, len(data))
	}
	return list, notesOf(answer.Parameters), nil
}

// notesOf are the parameters that are texts, in no order.
func notesOf(parameters map[string]any) (notes []router.Note) {
	for name, value := range parameters {
		if text, ok := value.(string); ok {
			notes = append(notes, router.Note{Name: name, Value: text})
		}
	}
	return notes
}

// readBinary makes data the elements of a tensor.
func readBinary(t *tensor.Tensor, data []byte) error {
	n, err := tensor.Elements(t.Shape, mostElements)
	if err != nil {
		return err
	}
	if t.Type != tensor.Bytes {
		if want := n * int64(t.Type.Size()); want != int64(len(data)) {
			return fmt.Errorf("it has %d bytes, and shape %v of %v takes %d", len(data), t.Shape, t.Type, want)
		}
		t.Data = data
		return nil
	}
	for len(data) >= 4 {
		size := int64(binary.LittleEndian.Uint32(data))
		if size > int64(len(data)-4) {
			break
		}
		t.Strings = append(t.Strings, data[4:4+size:4+size])
		data = data[4+size:]
	}
	if len(data) > 0 || int64(len(t.Strings)) != n {
		return fmt.Errorf("it is not %d byte strings, each behind its length", n)
	}
	return nil
}

// readJSON makes a JSON array, nested or flat, the elements of a tensor.
func readJSON(t *tensor.Tensor, raw []byte) error {
	n, err := tensor.Elements(t.Shape, mostElements)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	count := int64(0)
	for {
		token, err := d.Token()
		if err != nil {
			break // the end: raw is valid JSON
		}
		if _, bracket := token.(json.Delim); bracket {
			continue
		}
		if err := appendElement(t, token); err != nil {
			return err
		}
		count++
	}
	if count != n {
		return fmt.Errorf("it has %d elements, and shape %v takes %d", count, t.Shape, n)
	}
	return nil
}

// appendElement appends a JSON value to a tensor's data.
func appendElement(t *tensor.Tensor, token json.Token) error {
	wrong := fmt.Errorf("%.100v is no element of %v", token, t.Type)
	le := binary.LittleEndian
	switch v := token.(type) {
	case string:
		if t.Type != tensor.Bytes {
			return wrong
		}
		t.Strings = append(t.Strings, []byte(v))
		return nil
	case bool:
		if t.Type != tensor.Bool {
			return wrong
		}
		b := byte(0)
		if v {
			b = 1
		}
		t.Data = append(t.Data, b)
		return nil
	case json.Number:
		bits := t.Type.Size() * 8
		switch t.Type {
		case tensor.Float32, tensor.Float64:
			f, err := strconv.ParseFloat(string(v), bits)
			if err != nil {
				return wrong
			}
			if bits == 32 {
				t.Data = le.AppendUint32(t.Data, math.Float32bits(float32(f)))
			} else {
				t.Data = le.AppendUint64(t.Data, math.Float64bits(f))
			}
			return nil
		case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
			i, err := strconv.ParseInt(string(v), 10, bits)
			if err != nil {
				return wrong
			}
			t.Data = appendInteger(t.Data, uint64(i), bits) //nolint:gosec // two's complement
			return nil
		case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
			u, err := strconv.ParseUint(string(v), 10, bits)
			if err != nil {
				return wrong
			}
			t.Data = appendInteger(t.Data, u, bits)
			return nil
		default: // JSON numbers are none of the others
		}
	}
	return wrong
}

// appendInteger appends the low bits of a number.
func appendInteger(dst []byte, v uint64, bits int) []byte {
	for ; bits > 0; bits -= 8 {
		dst = append(dst, byte(v)) //nolint:gosec // the low byte is wanted
		v >>= 8
	}
	return dst
}

// readDescription reads a model's V2 metadata.
func readDescription(text []byte) (*router.Description, error) {
	var about struct {
		Platform        string
		Versions        []string
		Inputs, Outputs []tensorJSON
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("the model's metadata: %w", err)
	}
	d := &router.Description{Platform: about.Platform}
	if n := len(about.Versions); n > 0 {
		d.Version = about.Versions[n-1]
	}
	for _, side := range []struct {
		from []tensorJSON
		to   *[]tensor.Spec
	}{{about.Inputs, &d.Inputs}, {about.Outputs, &d.Outputs}} {
		for _, t := range side.from {
			typ, err := tensor.ParseType(t.Type)
			if err != nil {
				return nil, fmt.Errorf("the model's metadata: %.100q: %w", t.Name, err)
			}
			*side.to = append(*side.to, tensor.Spec{Name: t.Name, Type: typ, Shape: t.Shape})
		}
	}
	if len(d.Inputs) == 0 || len(d.Outputs) == 0 {
		return nil, fmt.Errorf("the model's metadata have %d inputs and %d outputs: %.200q", len(d.Inputs), len(d.Outputs), text)
	}
	return d, nil
}
