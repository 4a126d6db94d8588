package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// Builder assembles a GGUF file in memory and writes it: small models for
// tests and tools. Its zero value is ready for use. The first error is kept,
// and WriteTo returns it.
type Builder struct {
	// Version is written into the file; 0 stands for the newest. Versions 2
	// and 3 have the same layout.
	Version uint32

	kv      []KeyValue
	tensors []builtTensor
	err     error
}

type builtTensor struct {
	Tensor
	data []byte
}

// Set stores a metadata value under key, replacing an earlier one. Value must
// be of one of the Go types that [KeyValue] lists. A uint32 under
// "general.alignment" aligns the data.
func (b *Builder) Set(key string, value any) {
	if key == "" || len(key) > maxKeyBytes {
		b.fail(fmt.Errorf("%w: key %.40q of %d bytes", ErrValue, key, len(key)))
	}
	if valueTypeOf(value) == valueTypes {
		b.fail(fmt.Errorf("%w: %s is of type %T, which GGUF cannot hold", ErrValue, key, value))
	}
	for i := range b.kv {
		if b.kv[i].Key == key {
			b.kv[i].Value = value
			return
		}
	}
	b.kv = append(b.kv, KeyValue{Key: key, Value: value})
}

// Tensor adds a tensor; dims are in ggml's order, contiguous dimension first.
// The data is kept, not copied, and must have the size that dims and type
// demand.
func (b *Builder) Tensor(name string, dims []uint64, t Type, data []byte) {
	want, err := storedBytes(dimsOrScalar(dims), t)
	switch {
	case err != nil:
		b.fail(fmt.Errorf("tensor %q: %w", name, err))
	case want != int64(len(data)) && want != 0:
		b.fail(fmt.Errorf("%w: tensor %q has %d bytes of data, %v of type %v take %d", ErrValue, name, len(data), dims, t, want))
	case name == "" || len(name) > maxNameBytes || len(dims) > maxDims:
		b.fail(fmt.Errorf("%w: tensor name %.80q or dimensions %v", ErrValue, name, dims))
	}
	for i := range b.tensors {
		if b.tensors[i].Name == name {
			b.fail(fmt.Errorf("%w: tensor %q is added twice", ErrValue, name))
		}
	}
	b.tensors = append(b.tensors, builtTensor{Tensor{Name: name, Dims: dims, Type: t}, data})
}

// TensorF32 adds a tensor of type F32.
func (b *Builder) TensorF32(name string, dims []uint64, values []float32) {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	b.Tensor(name, dims, TypeF32, data)
}

func dimsOrScalar(dims []uint64) []uint64 {
	if len(dims) == 0 {
		return []uint64{1}
	}
	return dims
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Bytes is the finished file.
func (b *Builder) Bytes() ([]byte, error) {
	var buf bytes.Buffer
	if _, err := b.WriteTo(&buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// WriteTo writes the finished file. It implements io.WriterTo.
func (b *Builder) WriteTo(w io.Writer) (int64, error) {
	if b.err != nil {
		return 0, fmt.Errorf("build model: %w", b.err)
	}
	align, err := b.alignment()
	if err != nil {
		return 0, fmt.Errorf("build model: %w", err)
	}
	total, err := writePadded(w, b.header(align), align)
	if err != nil {
		return total, err
	}
	for i := range b.tensors {
		n, err := writePadded(w, b.tensors[i].data, align)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (b *Builder) alignment() (uint64, error) {
	for _, kv := range b.kv {
		if kv.Key != alignmentKey {
			continue
		}
		a, ok := kv.Value.(uint32)
		if !ok || a == 0 || a&(a-1) != 0 {
			return 0, fmt.Errorf("%w: %s is %v, must be a uint32 and a power of two", ErrValue, alignmentKey, kv.Value)
		}
		return uint64(a), nil
	}
	return defaultAlignment, nil
}

func writePadded(w io.Writer, data []byte, align uint64) (int64, error) {
	n, err := w.Write(data)
	if err != nil {
		return int64(n), err
	}
	pad, err := w.Write(make([]byte, padded(uint64(n), align)-uint64(n)))
	return int64(n + pad), err
}

func (b *Builder) header(align uint64) []byte {
	version := b.Version
	if version == 0 {
		version = newestVersion
	}
	h := append([]byte(nil), magic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(b.tensors)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(b.kv)))
	for _, kv := range b.kv {
		h = appendString(h, kv.Key)
		h = appendValue(h, kv.Value)
	}
	offset := uint64(0)
	for i := range b.tensors {
		t := &b.tensors[i]
		h = appendTensor(h, &t.Tensor, offset)
		offset = padded(offset+uint64(len(t.data)), align)
	}
	return h
}

func appendString(h []byte, s string) []byte {
	h = binary.LittleEndian.AppendUint64(h, uint64(len(s)))
	return append(h, s...)
}

func appendTensor(h []byte, t *Tensor, offset uint64) []byte {
	h = appendString(h, t.Name)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(t.Dims)))
	for _, d := range t.Dims {
		h = binary.LittleEndian.AppendUint64(h, d)
	}
	h = binary.LittleEndian.AppendUint32(h, uint32(t.Type))
	return binary.LittleEndian.AppendUint64(h, offset)
}

// appendValue writes type and value; Set has checked the type.
func appendValue(h []byte, value any) []byte {
	t := valueTypeOf(value)
	h = binary.LittleEndian.AppendUint32(h, uint32(t))
	switch v := value.(type) {
	case string:
		return appendString(h, v)
	case []string:
		h = appendArrayHead(h, valueString, len(v))
		for _, s := range v {
			h = appendString(h, s)
		}
		return h
	}
	if t == valueArray {
		e, n := elementTypeOf(value)
		h = appendArrayHead(h, e, n)
	}
	// Append knows all remaining types; it fails for none of them.
	h, err := binary.Append(h, binary.LittleEndian, value)
	if err != nil {
		return nil
	}
	return h
}

func appendArrayHead(h []byte, element valueType, n int) []byte {
	h = binary.LittleEndian.AppendUint32(h, uint32(element))
	return binary.LittleEndian.AppendUint64(h, uint64(n))
}

// valueTypeOf returns valueTypes for what GGUF cannot hold.
func valueTypeOf(value any) valueType {
	switch value.(type) {
	case uint8:
		return valueUint8
	case int8:
		return valueInt8
	case uint16:
		return valueUint16
	case int16:
		return valueInt16
	case uint32:
		return valueUint32
	case int32:
		return valueInt32
	case float32:
		return valueFloat32
	case bool:
		return valueBool
	case string:
		return valueString
	case uint64:
		return valueUint64
	case int64:
		return valueInt64
	case float64:
		return valueFloat64
	}
	if t, _ := elementTypeOf(value); t != valueTypes {
		return valueArray
	}
	return valueTypes
}

// elementTypeOf returns the element type and length of a slice, or valueTypes.
func elementTypeOf(value any) (valueType, int) {
	switch v := value.(type) {
	case []uint8:
		return valueUint8, len(v)
	case []int8:
		return valueInt8, len(v)
	case []uint16:
		return valueUint16, len(v)
	case []int16:
		return valueInt16, len(v)
	case []uint32:
		return valueUint32, len(v)
	case []int32:
		return valueInt32, len(v)
	case []float32:
		return valueFloat32, len(v)
	case []bool:
		return valueBool, len(v)
	case []string:
		return valueString, len(v)
	case []uint64:
		return valueUint64, len(v)
	case []int64:
		return valueInt64, len(v)
	case []float64:
		return valueFloat64, len(v)
	}
	return valueTypes, 0
}

// WriteSplits writes the model as files of at most tensorsPerFile tensors into
// dir, named as split models are, and returns their paths. The first file has
// all metadata.
func (b *Builder) WriteSplits(dir, name string, tensorsPerFile int) ([]string, error) {
	if b.err != nil {
		return nil, fmt.Errorf("build model: %w", b.err)
	}
	if tensorsPerFile <= 0 {
		return nil, fmt.Errorf("%w: %d tensors per file", ErrValue, tensorsPerFile)
	}
	count := max(1, (len(b.tensors)+tensorsPerFile-1)/tensorsPerFile)
	paths := make([]string, count)
	for no := range count {
		part := Builder{Version: b.Version}
		if no == 0 {
			part.kv = append(part.kv, b.kv...)
		}
		part.Set(splitNoKey, uint16(no))
		part.Set(splitCountKey, uint16(count))
		part.Set(splitTensorsKey, int32(len(b.tensors)))
		part.tensors = b.tensors[no*tensorsPerFile : min((no+1)*tensorsPerFile, len(b.tensors))]
		paths[no] = splitName(filepath.Join(dir, name), uint64(no), uint64(count))
		if err := part.WriteFile(paths[no]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// WriteFile writes the finished file to path.
func (b *Builder) WriteFile(path string) error {
	h, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	_, err = b.WriteTo(h)
	return errors.Join(err, h.Close())
}
