// Package tensor holds the values that predict requests and their answers carry:
// named arrays of numbers or byte strings, with the types of the Open Inference
// Protocol. Edge, router and engines share it.
package tensor

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Tensor is a named array in row-major order. Numbers are little endian in Data;
// byte strings stand in Strings, and Data is nil.
type Tensor struct {
	Name    string
	Type    Type
	Shape   []int64
	Data    []byte
	Strings [][]byte
}

// Spec says what a model takes or gives: a size of -1 in Shape is any.
type Spec struct {
	Name  string
	Type  Type
	Shape []int64
}

// Any is the size in a Spec's shape that every size fits.
const Any = -1

// number is an element of a tensor that is no byte string.
type number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Of returns a tensor whose data are the memory of values, which the tensor owns
// from now on. The element type must be that of t.
func Of[T number](name string, t Type, shape []int64, values []T) Tensor {
	var one T
	if size := int(unsafe.Sizeof(one)); size != t.Size() {
		panic(fmt.Sprintf("tensor: values of %d bytes for %v", size, t))
	}
	return Tensor{Name: name, Type: t, Shape: shape, Data: bytesOf(values)}
}

// Values returns the elements of a tensor of numbers: its own memory where that is
// aligned for T, a copy where it is not. The element type must be that of t's type.
func Values[T number](t *Tensor) []T {
	var one T
	size := int(unsafe.Sizeof(one))
	if size != t.Type.Size() || len(t.Data)%size != 0 {
		panic(fmt.Sprintf("tensor: %d bytes of %v read in elements of %d bytes", len(t.Data), t.Type, size))
	}
	n := len(t.Data) / size
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(t.Data))
	if uintptr(p)%uintptr(size) == 0 {
		return unsafe.Slice((*T)(p), n)
	}
	values := make([]T, n)
	copy(bytesOf(values), t.Data)
	return values
}

func bytesOf[T number](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(one)))
}

// Elements is the number of elements that a shape without Any has. It fails for
// negative sizes and where the product is above limit.
func Elements(shape []int64, limit int64) (int64, error) {
	n, empty := int64(1), slices.Contains(shape, 0)
	for _, size := range shape {
		switch {
		case size < 0:
			return 0, fmt.Errorf("shape %v has a negative size", shape)
		case empty:
			n = 0
		case n > math.MaxInt64/size || n*size > limit:
			return 0, fmt.Errorf("shape %v has more than %d elements", shape, limit)
		default:
			n *= size
		}
	}
	return n, nil
}

// Rows is the first size of the shape, the number of rows that a model scores; 1
// where the tensor is a single value.
func (t *Tensor) Rows() int64 {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[0]
}

// Fits says why a tensor of this type and shape is not what the spec asks for.
func (s *Spec) Fits(t *Tensor) error {
	if t.Type != s.Type {
		return fmt.Errorf("input %q is %v; the model takes %v", t.Name, t.Type, s.Type)
	}
	fits := len(t.Shape) == len(s.Shape)
	for i := 0; fits && i < len(s.Shape); i++ {
		fits = s.Shape[i] == Any || s.Shape[i] == t.Shape[i]
	}
	if !fits {
		return fmt.Errorf("input %q has shape %v; the model takes %v, where -1 is any size", t.Name, t.Shape, s.Shape)
	}
	return nil
}
