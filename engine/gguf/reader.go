package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
)

// maxHeaderBytes bounds what is read as metadata and tensor descriptions, and
// with it the memory that a sparse file can claim. The largest vocabularies
// (262k tokens with merges) take about 20 MiB, twice that with a copy of the
// tokenizer in another format beside.
const maxHeaderBytes = 128 << 20

const (
	readBufferBytes = 256 << 10
	chunkBytes      = 32 << 10 // of a numeric array, decoded at once
)

// reader decodes a header front to back. The first error is kept: later calls
// return zero values, so that callers check once per record. Nothing is
// allocated before the bytes that justify it are known to be in the file.
type reader struct {
	br        *bufio.Reader
	off       int64 // of the next byte
	limit     int64 // of the header: the file's size or maxHeaderBytes
	sizeBytes int64
	err       error
}

func newReader(src io.ReaderAt, sizeBytes int64) *reader {
	sizeBytes = max(sizeBytes, 0)
	limit := min(sizeBytes, maxHeaderBytes)
	section := io.NewSectionReader(src, 0, limit)
	return &reader{
		br:        bufio.NewReaderSize(section, int(min(limit, readBufferBytes))),
		limit:     limit,
		sizeBytes: sizeBytes,
	}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// in names the record that the error, if there is one, was found in.
func (r *reader) in(format string, args ...any) {
	if r.err != nil {
		r.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), r.err)
	}
}

// need fails unless n more bytes are in the header.
func (r *reader) need(n uint64, what string) bool {
	if r.err != nil {
		return false
	}
	left := uint64(r.limit - r.off)
	if n <= left {
		return true
	}
	if r.limit < r.sizeBytes {
		r.fail("%w: %s of %d bytes goes beyond the %d MiB that a header may take", ErrFormat, what, n, maxHeaderBytes>>20)
	} else {
		r.fail("%w: %s needs %d bytes, %d are left; fetch the file again", ErrTruncated, what, n, left)
	}
	return false
}

// peek returns the next n bytes, valid until the next read; n must not exceed
// the smallest buffer of bufio (16).
func (r *reader) peek(n int, what string) []byte {
	if !r.need(uint64(n), what) {
		return nil
	}
	b, err := r.br.Peek(n)
	if err != nil {
		r.ioError(err, what)
		return nil
	}
	return b
}

// skip drops n bytes that were peeked.
func (r *reader) skip(n int) {
	if r.err != nil {
		return
	}
	if _, err := r.br.Discard(n); err != nil {
		r.ioError(err, "header")
	}
	r.off += int64(n)
}

// fill reads len(dst) bytes that need has granted.
func (r *reader) fill(dst []byte, what string) {
	if r.err != nil {
		return
	}
	n, err := io.ReadFull(r.br, dst)
	r.off += int64(n)
	if err != nil {
		r.ioError(err, what)
	}
}

func (r *reader) ioError(err error, what string) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.fail("%w: %s is cut off, the file has shrunk while it was read", ErrTruncated, what)
		return
	}
	r.fail("read %s: %w", what, err)
}

func (r *reader) uint8(what string) uint8 {
	b := r.peek(1, what)
	if r.err != nil {
		return 0
	}
	v := b[0]
	r.skip(1)
	return v
}

func (r *reader) uint16(what string) uint16 {
	b := r.peek(2, what)
	if r.err != nil {
		return 0
	}
	v := binary.LittleEndian.Uint16(b)
	r.skip(2)
	return v
}

func (r *reader) uint32(what string) uint32 {
	b := r.peek(4, what)
	if r.err != nil {
		return 0
	}
	v := binary.LittleEndian.Uint32(b)
	r.skip(4)
	return v
}

func (r *reader) uint64(what string) uint64 {
	b := r.peek(8, what)
	if r.err != nil {
		return 0
	}
	v := binary.LittleEndian.Uint64(b)
	r.skip(8)
	return v
}

// count reads how many records follow, at least minBytes each, and refuses a
// number that does not fit into the bytes that the file has left.
func (r *reader) count(what string, minBytes uint64) uint64 {
	n := r.uint64(what + " count")
	if r.err != nil {
		return 0
	}
	if int64(n) < 0 {
		r.fail("%w: %s count is %d", ErrFormat, what, int64(n))
		return 0
	}
	hi, lo := bits.Mul64(n, minBytes)
	if hi != 0 {
		lo = math.MaxUint64
	}
	if !r.need(lo, fmt.Sprintf("%s count %d", what, n)) {
		return 0
	}
	return n
}

// string reads a length and as many bytes, at most maxBytes.
func (r *reader) string(what string, maxBytes uint64) string {
	n := r.uint64(what)
	if r.err == nil && n > maxBytes && n <= uint64(r.limit-r.off) {
		r.fail("%w: %s of %d bytes, at most %d are allowed", ErrFormat, what, n, maxBytes)
	}
	if !r.need(n, what) {
		return ""
	}
	var b strings.Builder
	b.Grow(int(n))
	r.copyTo(&b, int(n), what)
	return b.String()
}

// copyTo appends n bytes that need has granted, without a second buffer.
func (r *reader) copyTo(b *strings.Builder, n int, what string) {
	for n > 0 && r.err == nil {
		piece, err := r.br.Peek(min(n, r.br.Size()))
		if err != nil {
			r.ioError(err, what)
			return
		}
		b.Write(piece)
		r.skip(len(piece))
		n -= len(piece)
	}
}

// value reads one metadata value.
func (r *reader) value(t valueType) any {
	if r.err != nil {
		return nil
	}
	switch t {
	case valueUint8:
		return r.uint8("value")
	case valueInt8:
		return int8(r.uint8("value"))
	case valueUint16:
		return r.uint16("value")
	case valueInt16:
		return int16(r.uint16("value"))
	case valueUint32:
		return r.uint32("value")
	case valueInt32:
		return int32(r.uint32("value"))
	case valueUint64:
		return r.uint64("value")
	case valueInt64:
		return int64(r.uint64("value"))
	case valueFloat32:
		return math.Float32frombits(r.uint32("value"))
	case valueFloat64:
		return math.Float64frombits(r.uint64("value"))
	case valueBool:
		return r.bool()
	case valueString:
		return r.string("string", math.MaxUint64)
	case valueArray:
		return r.array()
	default:
		r.fail("%w: value type %d, known are 0 to %d", ErrFormat, t, valueTypes-1)
		return nil
	}
}

func (r *reader) bool() bool {
	b := r.uint8("value")
	if b > 1 {
		r.fail("%w: bool is %d, must be 0 or 1", ErrFormat, b)
	}
	return b == 1
}

func (r *reader) array() any {
	t := valueType(r.uint32("array type"))
	n := r.uint64("array length")
	if r.err != nil {
		return nil
	}
	switch t {
	case valueUint8:
		return numbers[uint8](r, n, 1)
	case valueInt8:
		return numbers[int8](r, n, 1)
	case valueUint16:
		return numbers[uint16](r, n, 2)
	case valueInt16:
		return numbers[int16](r, n, 2)
	case valueUint32:
		return numbers[uint32](r, n, 4)
	case valueInt32:
		return numbers[int32](r, n, 4)
	case valueUint64:
		return numbers[uint64](r, n, 8)
	case valueInt64:
		return numbers[int64](r, n, 8)
	case valueFloat32:
		return numbers[float32](r, n, 4)
	case valueFloat64:
		return numbers[float64](r, n, 8)
	case valueBool:
		return r.bools(n)
	case valueString:
		return r.strings(n)
	case valueArray:
		r.fail("%w: array of arrays", ErrFormat)
	default:
		r.fail("%w: array of value type %d, known are 0 to %d", ErrFormat, t, valueTypes-1)
	}
	return nil
}

type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// numbers reads n values of size bytes each. They are allocated at once: need
// has shown that the file holds as many bytes.
func numbers[T number](r *reader, n, size uint64) []T {
	hi, total := bits.Mul64(n, size)
	if hi != 0 {
		total = math.MaxUint64
	}
	if !r.need(total, fmt.Sprintf("array of %d values", n)) {
		return nil
	}
	out := make([]T, n)
	buf := make([]byte, min(total, chunkBytes))
	for rest := out; len(rest) > 0 && r.err == nil; {
		k := min(len(rest), len(buf)/int(size))
		chunk := buf[:k*int(size)]
		r.fill(chunk, "array")
		if _, err := binary.Decode(chunk, binary.LittleEndian, rest[:k]); err != nil {
			r.fail("decode array: %w", err)
		}
		rest = rest[k:]
	}
	return out
}

func (r *reader) bools(n uint64) []bool {
	raw := numbers[uint8](r, n, 1)
	out := make([]bool, len(raw))
	for i, b := range raw {
		if b > 1 {
			r.fail("%w: bool %d of the array is %d, must be 0 or 1", ErrFormat, i, b)
			return nil
		}
		out[i] = b == 1
	}
	return out
}

// strings reads n strings into one backing string: a vocabulary with merges
// has half a million of them, and one allocation is faster than as many.
func (r *reader) strings(n uint64) []string {
	const lengthBytes = 8 // of each element, at least
	if n > math.MaxUint64/lengthBytes || !r.need(n*lengthBytes, fmt.Sprintf("array of %d strings", n)) {
		r.fail("%w: array of %d strings", ErrTruncated, n)
		return nil
	}
	var all strings.Builder
	ends := make([]uint32, n) // maxHeaderBytes fits
	for i := range ends {
		k := r.uint64("string")
		if !r.need(k, "string") {
			r.in("string %d of %d", i, n)
			return nil
		}
		r.copyTo(&all, int(k), "string")
		ends[i] = uint32(all.Len())
	}
	out := make([]string, n)
	text, begin := all.String(), uint32(0)
	for i, end := range ends {
		if r.err == nil {
			out[i] = text[begin:end]
		}
		begin = end
	}
	return out
}
