package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// integral is a whole number.
type integral interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// bitwise makes the operators on the bits of integers.
func bitwise(n *node) (kernel, error) {
	if n.op == "BitwiseNot" {
		if err := n.takes(1, 1); err != nil {
			return nil, err
		}
	} else if err := n.alike(); err != nil {
		return nil, err
	}
	op := n.op
	if op == "BitShift" {
		switch direction := n.str("direction", ""); direction {
		case "LEFT", "RIGHT":
			op += direction
		default:
			return nil, fmt.Errorf("direction %q is neither LEFT nor RIGHT", direction)
		}
	}
	n.gives(n.typ(0))
	switch n.typ(0) {
	case tensor.Int8:
		return bits[int8](op), nil
	case tensor.Int16:
		return bits[int16](op), nil
	case tensor.Int32:
		return bits[int32](op), nil
	case tensor.Int64:
		return bits[int64](op), nil
	case tensor.Uint8:
		return bits[uint8](op), nil
	case tensor.Uint16:
		return bits[uint16](op), nil
	case tensor.Uint32:
		return bits[uint32](op), nil
	case tensor.Uint64:
		return bits[uint64](op), nil
	}
	return nil, n.oneOf(0, numbers[2:]...)
}

func bits[T integral](op string) kernel {
	switch op {
	case "BitwiseNot":
		return each(func(x T) T { return ^x })
	case "BitwiseAnd":
		return combined(func(a, b T) T { return a & b })
	case "BitwiseOr":
		return combined(func(a, b T) T { return a | b })
	case "BitwiseXor":
		return combined(func(a, b T) T { return a ^ b })
	case "BitShiftLEFT":
		return combined(func(a, b T) T { return a << uint64(b) })
	}
	return combined(func(a, b T) T { return a >> uint64(b) })
}
