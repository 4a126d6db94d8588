package predict

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/api"
	"weir/internal/tensor"
)

// takeBinary gives a tensor its bytes, which come next behind the JSON.
func (r *readerV2) takeBinary(t *tensor.Tensor, size int64) *api.Error {
	if size > int64(len(r.binary)) {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s has %d bytes of binary data, by binary_data_size; %d bytes follow", quote(t.Name), size, len(r.binary)))
	}
	data := r.binary[:size:size]
	r.binary = r.binary[size:]
	return setData(t, data)
}

// setData makes data the elements of a tensor of known type and shape, without a copy.
func setData(t *tensor.Tensor, data []byte) *api.Error {
	n, err := tensor.Elements(t.Shape, int64(len(data))+1)
	if err != nil {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s: its shape %v has more elements than its %d bytes of data; send the shape of the data that is sent", quote(t.Name), t.Shape, len(data)))
	}
	if t.Type == tensor.Bytes {
		var fault *api.Error
		t.Strings, fault = splitStrings(t.Name, data, n)
		return fault
	}
	if want := n * int64(t.Type.Size()); want != int64(len(data)) {
		return api.Refuse("invalid_value", fmt.Sprintf("input %s has %d bytes of data; shape %v of %v takes %d", quote(t.Name), len(data), t.Shape, t.Type, want))
	}
	if t.Type == tensor.Bool {
		for i, b := range data {
			if b > 1 {
				return api.Refuse("invalid_value", fmt.Sprintf("input %s has the byte %d as element %d; BOOL has 0 and 1", quote(t.Name), b, i))
			}
		}
	}
	t.Data = data
	return nil
}

const lengthBytes = 4 // before each byte string

// splitStrings cuts data into n byte strings, each behind its length.
func splitStrings(name string, data []byte, n int64) ([][]byte, *api.Error) {
	list := make([][]byte, 0, min(n, int64(len(data)/lengthBytes)))
	for len(data) > 0 {
		if len(data) < lengthBytes {
			break
		}
		size := uint64(binary.LittleEndian.Uint32(data))
		if size > uint64(len(data)-lengthBytes) || int64(len(list)) == n {
			break
		}
		end := lengthBytes + int(size) //nolint:gosec // at most len(data)
		list = append(list, data[lengthBytes:end:end])
		data = data[end:]
	}
	if len(data) > 0 || int64(len(list)) != n {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("input %s is not %d byte strings, each behind its length in 4 bytes", quote(name), n))
	}
	return list, nil
}

// raw reads a body that is the only input's elements alone. The model gives name, type
// and shape; of the sizes that may be any, the first is what the data make it, the
// others are 1.
func (r *readerV2) raw(body []byte) *api.Error {
	r.allRaw = true
	if len(r.about.Inputs) != 1 {
		return api.Refuse("invalid_value", fmt.Sprintf("a raw request is for models with one input; %s has %s", r.about.Name, inputNames(r.about)))
	}
	spec := &r.about.Inputs[0]
	shape, open, known := append([]int64{}, spec.Shape...), -1, 1
	for i, size := range shape {
		switch {
		case size == tensor.Any && open < 0:
			open = i
		case size == tensor.Any:
			shape[i] = 1
		default:
			known *= int(size)
		}
	}
	if open >= 0 {
		shape[open] = 1
		if step := known * spec.Type.Size(); step > 0 {
			shape[open] = int64(len(body) / step)
		}
	}
	t := tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape}
	fault := setData(&t, body)
	r.p.Inputs = []tensor.Tensor{t}
	return fault
}

// binarySize is the length of a tensor's elements as binary data.
func binarySize(t *tensor.Tensor) int {
	size := len(t.Data)
	for _, s := range t.Strings {
		size += lengthBytes + len(s)
	}
	return size
}

// appendBinary appends a tensor's elements as binary data.
func appendBinary(dst []byte, t *tensor.Tensor) ([]byte, *api.Error) {
	if t.Type != tensor.Bytes {
		return append(dst, t.Data...), nil
	}
	for _, s := range t.Strings {
		if uint64(len(s)) > math.MaxUint32 {
			return nil, api.Refuse("internal_error", "an output's byte string is longer than 4 GiB")
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s))) //nolint:gosec // checked above
		dst = append(dst, s...)
	}
	return dst, nil
}
