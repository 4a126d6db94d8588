package classic

import (
	"fmt"

	"weir/internal/tensor"
)

// float is the type of a tree model's rows.
type float interface{ float32 | float64 }

// number is the type of an element that a row may be made of.
type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// convert writes a tensor's elements to every stride-th place of dst, from the first on. It
// fails for types that are no numbers.
func convert[T float](dst []T, stride int, t *tensor.Tensor) error {
	switch t.Type {
	case tensor.Float32:
		spread(dst, stride, tensor.Values[float32](t))
	case tensor.Float64:
		spread(dst, stride, tensor.Values[float64](t))
	case tensor.Int64:
		spread(dst, stride, tensor.Values[int64](t))
	case tensor.Int32:
		spread(dst, stride, tensor.Values[int32](t))
	case tensor.Int16:
		spread(dst, stride, tensor.Values[int16](t))
	case tensor.Int8:
		spread(dst, stride, tensor.Values[int8](t))
	case tensor.Uint64:
		spread(dst, stride, tensor.Values[uint64](t))
	case tensor.Uint32:
		spread(dst, stride, tensor.Values[uint32](t))
	case tensor.Uint16:
		spread(dst, stride, tensor.Values[uint16](t))
	case tensor.Uint8, tensor.Bool:
		spread(dst, stride, tensor.Values[uint8](t))
	default:
		return fmt.Errorf("input %q is %v; the model takes numbers: FP32, FP64, integers or BOOL", t.Name, t.Type)
	}
	return nil
}

func spread[T float, E number](dst []T, stride int, src []E) {
	if stride == 1 {
		for i, v := range src {
			dst[i] = T(v)
		}
		return
	}
	for i, v := range src {
		dst[i*stride] = T(v)
	}
}

// whole says why a tensor has not the bytes or strings of its shape.
func whole(t *tensor.Tensor) error {
	n, err := tensor.Elements(t.Shape, maxElements)
	if err != nil {
		return fmt.Errorf("input %q: %w", t.Name, err)
	}
	have, unit := int64(len(t.Strings)), "strings"
	if t.Type != tensor.Bytes {
		have, n, unit = int64(len(t.Data)), n*int64(t.Type.Size()), "bytes"
	}
	if have != n {
		return fmt.Errorf("input %q of shape %v has %d %s; %d are needed", t.Name, t.Shape, have, unit, n)
	}
	return nil
}

// maxElements bounds one input: far more than a request's body holds.
const maxElements = 1 << 31
