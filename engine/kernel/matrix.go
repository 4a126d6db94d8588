package kernel

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"weir/engine/gguf"
)

// ErrShape is wrapped by errors about sizes that do not fit a weight's type.
var ErrShape = errors.New("bad weight shape")

// Matrix is a weight matrix of Rows outputs by Cols inputs, held at its
// file's own bit width in memory the garbage collector does not see. It is
// opaque so that its layout can be packed for a kernel; today rows lie one
// after another as in the file. The loader owns the memory behind it.
type Matrix struct {
	Type gguf.Type
	Rows int
	Cols int

	rowBytes int
	data     []byte
	f32      []float32 // data seen as floats when Type is F32
}

// MatrixBytes is the memory that NewMatrix needs, or an error naming the
// type or size it cannot hold.
func MatrixBytes(t gguf.Type, rows, cols int) (int, error) {
	if !t.Supported() {
		return 0, fmt.Errorf("%w: weight type %v", gguf.ErrUnsupportedType, t)
	}
	elems, size, _ := t.Block()
	if rows <= 0 || cols <= 0 || cols%elems != 0 {
		return 0, fmt.Errorf("%w: %d x %d of type %v, whose rows come in blocks of %d", ErrShape, rows, cols, t, elems)
	}
	hi, n := bits.Mul64(uint64(cols/elems*size), uint64(rows))
	if hi != 0 || n > 1<<46 {
		return 0, fmt.Errorf("%w: %d x %d of type %v is too large", ErrShape, rows, cols, t)
	}
	return int(n), nil
}

// NewMatrix wraps data, MatrixBytes long, 4-byte aligned, which the caller
// keeps alive and unchanged.
func NewMatrix(t gguf.Type, rows, cols int, data []byte) (*Matrix, error) {
	n, err := MatrixBytes(t, rows, cols)
	if err != nil {
		return nil, err
	}
	if len(data) != n {
		return nil, fmt.Errorf("%w: %d x %d of type %v needs %d bytes, have %d", ErrShape, rows, cols, t, n, len(data))
	}
	m := &Matrix{Type: t, Rows: rows, Cols: cols, rowBytes: n / rows, data: data}
	if t == gguf.TypeF32 {
		m.f32 = Floats(data)
	}
	return m, nil
}

// Floats views 4-byte aligned little-endian memory as float32 values.
func Floats(data []byte) []float32 {
	if len(data) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)
}

// DecodeRow writes row r, Cols values, to dst.
func (m *Matrix) DecodeRow(dst []float32, r int) {
	Decode(m.Type, dst[:m.Cols], m.data[r*m.rowBytes:(r+1)*m.rowBytes])
}

// row returns row r as floats, decoding into scratch where it must.
func (m *Matrix) row(r int, scratch []float32) []float32 {
	if m.f32 != nil {
		return m.f32[r*m.Cols : (r+1)*m.Cols]
	}
	m.DecodeRow(scratch, r)
	return scratch[:m.Cols]
}
