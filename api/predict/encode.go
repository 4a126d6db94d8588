package predict

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/api"
	"weir/internal/tensor"
)

// appendFloat writes the shortest decimal that reads back as the same float of so many
// bits, with a fraction or an exponent, so that readers take it for a float. NaN and the
// infinities are written as TensorFlow Serving, Triton and Python write them.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	size := math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	first := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	if bytes.IndexByte(dst[first:], '.') >= 0 {
		return dst
	}
	return append(dst, ".0"...)
}

// writer appends the elements of one tensor one by one, or in the rows of its shape.
type writer struct {
	t      *tensor.Tensor
	append func(dst []byte, i int) []byte
	n      int
}

// newWriter views the tensor's data in its type. b64 writes byte strings as
// {"b64": …}.
func newWriter(t *tensor.Tensor, b64 bool) writer {
	w := writer{t: t, n: len(t.Strings)}
	if t.Type != tensor.Bytes {
		w.n = len(t.Data) / t.Type.Size()
	}
	switch t.Type {
	case tensor.Float32:
		v := tensor.Values[float32](t)
		w.append = func(dst []byte, i int) []byte { return appendFloat(dst, float64(v[i]), 32) }
	case tensor.Float64:
		v := tensor.Values[float64](t)
		w.append = func(dst []byte, i int) []byte { return appendFloat(dst, v[i], 64) }
	case tensor.Int8:
		w.append = appendSigned[int8](t)
	case tensor.Int16:
		w.append = appendSigned[int16](t)
	case tensor.Int32:
		w.append = appendSigned[int32](t)
	case tensor.Int64:
		w.append = appendSigned[int64](t)
	case tensor.Uint8:
		w.append = appendUnsigned[uint8](t)
	case tensor.Uint16:
		w.append = appendUnsigned[uint16](t)
	case tensor.Uint32:
		w.append = appendUnsigned[uint32](t)
	case tensor.Uint64:
		w.append = appendUnsigned[uint64](t)
	case tensor.Bool:
		w.append = func(dst []byte, i int) []byte { return strconv.AppendBool(dst, t.Data[i] != 0) }
	case tensor.Bytes:
		w.append = func(dst []byte, i int) []byte { return appendBytes(dst, t.Strings[i], b64) }
	case tensor.Float16, tensor.BFloat16, tensor.Invalid:
		w.append = func(dst []byte, _ int) []byte { return append(dst, "null"...) } // isWritable says so before
	}
	return w
}

// room is about how many bytes an answer of these outputs has.
func room(list []writer) int {
	const aroundBytes, elementBytes = 64, 14
	n := aroundBytes
	for i := range list {
		n += aroundBytes + elementBytes*list[i].n
		for _, text := range list[i].t.Strings {
			n += len(text)
		}
	}
	return n
}

// isWritable reports whether JSON can carry the elements of a type.
func isWritable(t tensor.Type) bool {
	return t != tensor.Float16 && t != tensor.BFloat16 && t != tensor.Invalid
}

func appendSigned[T int8 | int16 | int32 | int64](t *tensor.Tensor) func([]byte, int) []byte {
	v := tensor.Values[T](t)
	return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(v[i]), 10) }
}

func appendUnsigned[T uint8 | uint16 | uint32 | uint64](t *tensor.Tensor) func([]byte, int) []byte {
	v := tensor.Values[T](t)
	return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(v[i]), 10) }
}

// appendBytes writes a byte string: as text where it is some, as {"b64": …} where it is
// none or where its name says that it is bytes.
func appendBytes(dst, text []byte, b64 bool) []byte {
	if !b64 && utf8.Valid(text) {
		return api.AppendString(dst, text)
	}
	dst = append(dst, `{"b64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, text)
	return append(dst, `"}`...)
}

// isBytesName tells outputs whose strings TensorFlow Serving writes as bytes.
func isBytesName(name string) bool { return strings.HasSuffix(name, "_bytes") }

// flat appends all elements as one array.
func (w *writer) flat(dst []byte) []byte { return w.list(dst, 0, w.n) }

func (w *writer) list(dst []byte, from, to int) []byte {
	dst = append(dst, '[')
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = w.append(dst, i)
	}
	return append(dst, ']')
}

// nested appends the elements as arrays of arrays: those that the sizes of shape stand
// for, beginning at element first.
func (w *writer) nested(dst []byte, shape []int64, first int) []byte {
	switch len(shape) {
	case 0:
		return w.append(dst, first)
	case 1:
		return w.list(dst, first, first+int(shape[0]))
	}
	step := stride(shape[1:])
	dst = append(dst, '[')
	for i := range int(shape[0]) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.nested(dst, shape[1:], first+i*step)
	}
	return append(dst, ']')
}

// stride is the number of elements of a shape, which is that of a tensor in memory.
func stride(shape []int64) int {
	n := 1
	for _, size := range shape {
		n *= int(size)
	}
	return n
}
