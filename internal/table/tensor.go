package table

import (
	"fmt"

	"github.com/parquet-go/parquet-go"

	"weir/internal/tensor"
)

// TextColumn is a column of texts.
//
//go:noinline
func TextColumn(name string) Column {
	return Column{Name: name, Kind: Text, Type: "text", node: parquet.Optional(parquet.String())}
}

// NumberColumn is a column of floats of 64 bits.
//
//go:noinline
func NumberColumn(name string) Column {
	return Column{Name: name, Kind: Number, Type: "double", node: optional(parquet.DoubleType)}
}

// Numbers are the cells of a column as values of a NumberColumn. What is no number is missing.
func (c *Column) Numbers(values []Value) []Value {
	list := make([]Value, len(values))
	for i, v := range values {
		if x, ok := c.Float(v); ok && !v.IsNull() {
			list[i] = parquet.DoubleValue(x)
		}
	}
	return list
}

// TextValue is a text of such a column.
func TextValue(text string) Value { return parquet.ByteArrayValue([]byte(text)) }

// TensorColumn is a column of the elements of tensors.
func TensorColumn(name string, t tensor.Type) (Column, error) {
	c := Column{Name: name, Kind: Number}
	var node parquet.Node
	switch t {
	case tensor.Float32:
		node = parquet.Leaf(parquet.FloatType)
	case tensor.Float64:
		node = parquet.Leaf(parquet.DoubleType)
	case tensor.Int64:
		node = parquet.Int(64)
	case tensor.Int32, tensor.Int16, tensor.Int8:
		node = parquet.Int(32)
	case tensor.Uint8, tensor.Uint16:
		node = parquet.Int(32)
	case tensor.Bool:
		node = parquet.Leaf(parquet.BooleanType)
	case tensor.Bytes:
		return TextColumn(name), nil
	default:
		return c, fmt.Errorf("output %q is %v, which no column holds", name, t)
	}
	c.Type, c.node = t.String(), parquet.Optional(node)
	return c, nil
}

// TensorValues are the elements of a tensor, as values of its column.
func TensorValues(t *tensor.Tensor) []Value {
	switch t.Type {
	case tensor.Float32:
		return valuesOf(tensor.Values[float32](t), parquet.FloatValue)
	case tensor.Float64:
		return valuesOf(tensor.Values[float64](t), parquet.DoubleValue)
	case tensor.Int64:
		return valuesOf(tensor.Values[int64](t), parquet.Int64Value)
	case tensor.Int32:
		return valuesOf(tensor.Values[int32](t), parquet.Int32Value)
	case tensor.Int16:
		return valuesOf(tensor.Values[int16](t), func(n int16) Value { return parquet.Int32Value(int32(n)) })
	case tensor.Int8:
		return valuesOf(tensor.Values[int8](t), func(n int8) Value { return parquet.Int32Value(int32(n)) })
	case tensor.Uint16:
		return valuesOf(tensor.Values[uint16](t), func(n uint16) Value { return parquet.Int32Value(int32(n)) })
	case tensor.Uint8:
		return valuesOf(tensor.Values[uint8](t), func(n uint8) Value { return parquet.Int32Value(int32(n)) })
	case tensor.Bool:
		return valuesOf(tensor.Values[uint8](t), func(n uint8) Value { return parquet.BooleanValue(n != 0) })
	default:
		return valuesOf(t.Strings, parquet.ByteArrayValue)
	}
}

func valuesOf[T any](list []T, value func(T) Value) []Value {
	values := make([]Value, len(list))
	for i, x := range list {
		values[i] = value(x)
	}
	return values
}
