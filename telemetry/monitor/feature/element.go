package feature

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// element reads one value of a request's tensor, wherever its bytes lie. NaN and a nil string are missing.
func element(t *tensor.Tensor, i int) (Value, error) {
	if t.Type == tensor.Bytes {
		if t.Strings[i] == nil {
			return Value{}, nil // null, which is not ""
		}
		return TextOf(string(t.Strings[i])), nil
	}
	size := t.Type.Size()
	at := t.Data[i*size : (i+1)*size]
	switch t.Type {
	case tensor.Float32:
		return FloatOf(float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))), nil
	case tensor.Float64:
		return FloatOf(math.Float64frombits(binary.LittleEndian.Uint64(at))), nil
	case tensor.Bool:
		return BoolOf(at[0] != 0), nil
	case tensor.Uint64:
		if u := binary.LittleEndian.Uint64(at); u > math.MaxInt64 {
			return Value{}, fmt.Errorf("input %q has the value %d; at most %d is read", t.Name, u, int64(math.MaxInt64))
		}
		return IntOf(int64(binary.LittleEndian.Uint64(at))), nil //nolint:gosec // just checked
	default:
		if n, whole := tensor.Integer(t.Type, at); whole {
			return IntOf(n), nil
		}
		return Value{}, fmt.Errorf("input %q is %v; features are sent as FP32, FP64, integers, BOOL or BYTES", t.Name, t.Type)
	}
}

// isInteger reports whether tensor.Integer reads the type.
func isInteger(t tensor.Type) bool { return t >= tensor.Uint8 && t <= tensor.Int64 }

// wellFormed checks that a tensor holds what its shape says.
func wellFormed(t *tensor.Tensor) error {
	n, err := tensor.Elements(t.Shape, maxCells)
	if err != nil {
		return fmt.Errorf("%w: input %q: %w", inference.ErrInvalid, t.Name, err)
	}
	have := int64(len(t.Strings))
	if size := t.Type.Size(); size > 0 {
		have = int64(len(t.Data) / size)
	}
	if have != n {
		return fmt.Errorf("%w: input %q has %d elements; its shape %v has %d", inference.ErrInvalid, t.Name, have, t.Shape, n)
	}
	return nil
}
