package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// plain lets the library decode n values.
func (p *pages) plain(n int, body []byte, e format.Encoding) (encoding.Values, error) {
	var none encoding.Values
	if n < 0 || n > maxPageValues {
		return none, checkCount(int32(min(n, maxPageValues+1))) //nolint:gosec // bounded
	}
	switch e {
	case format.Plain, format.ByteStreamSplit:
		if size := sizeOf(p.kind); int64(n)*int64(size) > 8*int64(len(body)) {
			return none, io.ErrUnexpectedEOF
		}
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		if err := checkDelta(n, body); err != nil {
			return none, err
		}
	case format.DeltaByteArray:
		return none, errors.New("it has the encoding DELTA_BYTE_ARRAY, a few bytes of which may be gigabytes: write it with another one")
	default:
		return none, fmt.Errorf("its encoding %v is not read", e)
	}
	with := parquet.LookupEncoding(e)
	buffer := body
	if !with.CanDecodeInPlace() {
		buffer = make([]byte, 0, p.kind.EstimateDecodeSize(n, body, with))
	}
	var offsets []uint32
	if p.kind.Kind() == parquet.ByteArray {
		offsets = make([]uint32, 0, n+1)
	}
	values, err := p.kind.Decode(p.kind.NewValues(buffer, offsets), body, with)
	if err != nil {
		return none, err
	}
	data, ends := values.Data()
	if offsets != nil && len(ends) < n+1 || offsets == nil && 8*int64(len(data)) < int64(n)*int64(sizeOf(p.kind)) {
		return none, io.ErrUnexpectedEOF
	}
	return values, nil
}

// sizeOf is how many bits a value takes at least.
func sizeOf(t parquet.Type) int {
	switch t.Kind() {
	case parquet.Boolean:
		return 1
	case parquet.Int32, parquet.Float, parquet.ByteArray: // a text has its length
		return 32
	case parquet.Int64, parquet.Double:
		return 64
	case parquet.Int96:
		return 96
	default:
		return 8 * max(t.Length(), 1)
	}
}

// look finds values in the dictionary.
func (p *pages) look(dst []Value, body []byte) error {
	if p.dictionary == nil {
		return errors.New("a page needs a dictionary, and none is before it")
	}
	if len(body) == 0 || body[0] > 32 {
		return errors.New("a page does not say how many bits its values' numbers have")
	}
	indexes, err := runs(body[1:], int(body[0]), len(dst))
	if err != nil {
		return err
	}
	most := p.dictionary.Len()
	for _, i := range indexes {
		if i < 0 || int(i) >= most {
			return fmt.Errorf("a value is number %d of a dictionary of %d", i, most)
		}
	}
	p.dictionary.Lookup(indexes, dst)
	return nil
}

// prefixed splits off what a length stands before.
func prefixed(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

// runs decodes n whole numbers of so many bits, at most 32, which stand in runs of one number and in groups of eight. The library
// takes memory for as many as a run says that it has.
func runs(b []byte, width, n int) ([]int32, error) {
	out, size := make([]int32, 0, n), (width+7)/8
	for len(out) < n {
		head, used := binary.Uvarint(b)
		if used <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[used:]
		count, left := head>>1, uint64(n-len(out)) //nolint:gosec // not negative
		if head&1 == 1 {
			part := int(min(count, (left+7)/8)) * width //nolint:gosec // bounded by left
			if part > len(b) {
				return nil, io.ErrUnexpectedEOF
			}
			out = unpack(out, b[:part], width, int(min(8*min(count, left), left))) //nolint:gosec // bounded by left
			b = b[part:]
			continue
		}
		if len(b) < size {
			return nil, io.ErrUnexpectedEOF
		}
		var one uint32
		for i := range size {
			one |= uint32(b[i]) << (8 * i)
		}
		b = b[size:]
		for range min(count, left) {
			out = append(out, int32(one)) //nolint:gosec // the same bits
		}
	}
	return out, nil
}

// unpack appends count numbers of so many bits.
func unpack(out []int32, b []byte, width, count int) []int32 {
	var bits uint64
	have := 0
	for range count {
		for ; have < width; have += 8 {
			bits |= uint64(b[0]) << have
			b = b[1:]
		}
		out = append(out, int32(bits&(1<<width-1))) //nolint:gosec // at most 32 bits
		bits >>= width
		have -= width
	}
	return out
}

// decodeDelta32 decodes whole numbers of 32 bits in 64, as those without a sign are written by some.
func decodeDelta32(dst []Value, body []byte) error {
	if err := checkDelta(len(dst), body); err != nil {
		return err
	}
	numbers, err := parquet.DeltaBinaryPacked.DecodeInt64(make([]int64, 0, len(dst)), body)
	if err != nil {
		return err
	}
	if len(numbers) < len(dst) {
		return io.ErrUnexpectedEOF
	}
	for i := range dst {
		dst[i] = parquet.Int32Value(int32(numbers[i])) //nolint:gosec // the type's own bits
	}
	return nil
}

// checkDelta compares how many values a block of differences says that it has with those of its page: the library takes memory for
// the former.
func checkDelta(n int, body []byte) error {
	r := bytes.NewReader(body)
	var have uint64
	for range 3 { // size of a block, parts of a block, values
		var err error
		if have, err = binary.ReadUvarint(r); err != nil {
			return io.ErrUnexpectedEOF
		}
	}
	if have > uint64(n) { //nolint:gosec // not negative
		return fmt.Errorf("a page of %d values has %d differences", n, have)
	}
	return nil
}
