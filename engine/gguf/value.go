package gguf

import (
	"fmt"
	"math"
)

// valueType is the id of a metadata value's type in the file.
type valueType uint32

const (
	valueUint8 valueType = iota
	valueInt8
	valueUint16
	valueInt16
	valueUint32
	valueInt32
	valueFloat32
	valueBool
	valueString
	valueArray
	valueUint64
	valueInt64
	valueFloat64
	valueTypes // number of ids
)

// Value returns the metadata stored under key, with the Go type that
// [KeyValue] documents.
func (f *File) Value(key string) (any, bool) {
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.KV[i].Value, true
}

// Uint returns a non-negative integer stored in any of the integer types. As
// with all typed accessors, ok is false where the key is missing, and err (an
// ErrValue) says what is there where it is of another kind.
func (f *File) Uint(key string) (v uint64, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	if u, isUint := n.(uint64); isUint {
		return u, true, nil
	}
	i, isInt := toInt64(n)
	if !isInt {
		return 0, false, kindError(key, n, "an integer")
	}
	if i < 0 {
		return 0, false, fmt.Errorf("%w: %s is %d, must not be negative", ErrValue, key, i)
	}
	return uint64(i), true, nil
}

// Int returns an integer stored in any of the integer types.
func (f *File) Int(key string) (v int64, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	v, isInt := toInt64(n)
	if !isInt {
		return 0, false, kindError(key, n, "an integer below 2^63")
	}
	return v, true, nil
}

// Float returns a float32 or float64.
func (f *File) Float(key string) (v float64, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return 0, false, nil
	}
	switch n := n.(type) {
	case float32:
		return float64(n), true, nil
	case float64:
		return n, true, nil
	}
	return 0, false, kindError(key, n, "a float")
}

// Bool returns a bool.
func (f *File) Bool(key string) (v bool, ok bool, err error) {
	return typed[bool](f, key, "a bool")
}

// String returns a string.
func (f *File) String(key string) (v string, ok bool, err error) {
	return typed[string](f, key, "a string")
}

// Strings returns an array of strings. The slice belongs to f.
func (f *File) Strings(key string) (v []string, ok bool, err error) {
	return typed[[]string](f, key, "an array of strings")
}

// Floats returns an array of float32; float64 elements are rounded into a
// copy. Without a copy the slice belongs to f.
func (f *File) Floats(key string) (v []float32, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return nil, false, nil
	}
	switch n := n.(type) {
	case []float32:
		return n, true, nil
	case []float64:
		v = make([]float32, len(n))
		for i, x := range n {
			v[i] = float32(x)
		}
		return v, true, nil
	}
	return nil, false, kindError(key, n, "an array of floats")
}

// Bools reads an array of booleans.
func (f *File) Bools(key string) (v []bool, ok bool, err error) {
	return typed[[]bool](f, key, "an array of booleans")
}

// Ints returns a copy of an array of any integer type.
func (f *File) Ints(key string) (v []int64, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return nil, false, nil
	}
	v, isInts := toInt64s(n)
	if !isInts {
		return nil, false, kindError(key, n, "an array of integers below 2^63")
	}
	return v, true, nil
}

func typed[T any](f *File, key, want string) (v T, ok bool, err error) {
	n, ok := f.Value(key)
	if !ok {
		return v, false, nil
	}
	v, isT := n.(T)
	if !isT {
		return v, false, kindError(key, n, want)
	}
	return v, true, nil
}

func kindError(key string, have any, want string) error {
	return fmt.Errorf("%w: %s is of type %T, must be %s", ErrValue, key, have, want)
}

func toInt64(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case int64:
		return v, true
	}
	return 0, false
}

func toInt64s(v any) ([]int64, bool) {
	switch v := v.(type) {
	case []uint8:
		return widened(v), true
	case []int8:
		return widened(v), true
	case []uint16:
		return widened(v), true
	case []int16:
		return widened(v), true
	case []uint32:
		return widened(v), true
	case []int32:
		return widened(v), true
	case []int64:
		return widened(v), true
	case []uint64:
		for _, u := range v {
			if u > math.MaxInt64 {
				return nil, false
			}
		}
		return widened(v), true
	}
	return nil, false
}

func widened[T interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}](v []T) []int64 {
	w := make([]int64, len(v))
	for i, x := range v {
		w[i] = int64(x)
	}
	return w
}
