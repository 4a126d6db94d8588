package gguf

import (
	"fmt"
	"io"
	"math"
	"math/bits"
)

const (
	magic            = "GGUF"
	newestVersion    = 3
	defaultAlignment = 32
	alignmentKey     = "general.alignment"

	maxKeyBytes  = 65535 // the specification's limit
	maxNameBytes = 63    // ggml keeps names in 64 bytes with a terminator
	maxDims      = 4

	minKeyValueBytes = 8 + 1 + 4 + 1     // key length, a one-byte key, type, the smallest value
	minTensorBytes   = 8 + 1 + 4 + 4 + 8 // name length, a one-byte name, dimension count, type, offset
)

// foreignMagics are the first bytes of files that are often passed by mistake.
var foreignMagics = map[string]string{
	"vers":         "a Git LFS pointer; fetch the real file with 'git lfs pull'",
	"PK\x03\x04":   "a zip archive, maybe a PyTorch checkpoint; convert it to GGUF first",
	"lmgg":         "a GGML file from before GGUF; convert it to GGUF first",
	"fmgg":         "a GGML file from before GGUF; convert it to GGUF first",
	"tjgg":         "a GGML file from before GGUF; convert it to GGUF first",
	"<!DO":         "an HTML page; download the file itself",
	"<htm":         "an HTML page; download the file itself",
	"\x1f\x8b\x08": "a gzip archive; unpack it first",
}

// parse reads the header of one file, whether alone or part of a split model.
func parse(src io.ReaderAt, sizeBytes int64) (*File, error) {
	r := newReader(src, sizeBytes)
	f := &File{}
	tensorCount, kvCount := f.preamble(r)
	f.readKV(r, kvCount)
	f.readAlignment(r)
	f.readTensors(r, tensorCount)
	if r.err != nil {
		return nil, r.err
	}
	f.parts = []part{{r: src, sizeBytes: sizeBytes, headerBytes: r.off}}
	if err := f.place(r.off, sizeBytes); err != nil {
		return nil, err
	}
	return f, nil
}

// preamble reads magic, version and counts, which precede the metadata.
func (f *File) preamble(r *reader) (tensorCount, kvCount uint64) {
	r.checkMagic()
	f.Version = r.uint32("version")
	r.checkVersion(f.Version)
	tensorCount = r.count("tensor", minTensorBytes)
	kvCount = r.count("metadata", minKeyValueBytes)
	return tensorCount, kvCount
}

func (r *reader) checkMagic() {
	b := r.peek(4, "magic")
	if r.err != nil || string(b) == magic {
		r.skip(4)
		return
	}
	for foreign, what := range foreignMagics {
		if string(b[:len(foreign)]) == foreign {
			r.fail("%w: this is %s", ErrFormat, what)
			return
		}
	}
	r.fail("%w: it begins with %q instead of %q", ErrFormat, b, magic)
}

func (r *reader) checkVersion(v uint32) {
	switch {
	case r.err != nil || v == 2 || v == newestVersion:
	case v != 0 && v&0xffff == 0:
		r.fail("%w: its version reads %#08x; only little-endian files are read, convert it with gguf-py's convert-endian",
			ErrByteOrder, v)
	case v == 1:
		r.fail("%w: version 1; versions 2 and 3 are read, convert the model again", ErrVersion)
	default:
		r.fail("%w: version %d; versions 2 and 3 are read", ErrVersion, v)
	}
}

func (f *File) readKV(r *reader, count uint64) {
	f.keys = make(map[string]int)
	for i := uint64(0); i < count && r.err == nil; i++ {
		f.readKeyValue(r, i)
	}
}

func (f *File) readKeyValue(r *reader, i uint64) {
	key := r.string("metadata key", maxKeyBytes)
	if r.err != nil {
		r.in("metadata entry %d", i)
		return
	}
	if key == "" {
		r.fail("%w: metadata entry %d has an empty key", ErrFormat, i)
		return
	}
	if _, dup := f.keys[key]; dup {
		r.fail("%w: metadata key %q occurs twice", ErrFormat, key)
		return
	}
	v := r.value(valueType(r.uint32("value type")))
	r.in("metadata key %q", key)
	f.keys[key] = len(f.KV)
	f.KV = append(f.KV, KeyValue{Key: key, Value: v})
}

// readAlignment takes the alignment of the data section from the metadata. It
// divides and masks offsets later, so zero and odd values are refused here.
func (f *File) readAlignment(r *reader) {
	f.Alignment = defaultAlignment
	v, ok := f.Value(alignmentKey)
	if !ok || r.err != nil {
		return
	}
	a, isUint32 := v.(uint32)
	if !isUint32 {
		r.fail("%w: %s is of type %T, must be uint32", ErrFormat, alignmentKey, v)
		return
	}
	if a == 0 || a&(a-1) != 0 {
		r.fail("%w: %s is %d, must be a power of two", ErrFormat, alignmentKey, a)
		return
	}
	f.Alignment = a
}

func (f *File) readTensors(r *reader, count uint64) {
	f.tensors = make(map[string]int)
	for i := uint64(0); i < count && r.err == nil; i++ {
		f.readTensor(r, i)
	}
}

// readTensor reads one description; Offset is relative to the data section
// until place makes it absolute.
func (f *File) readTensor(r *reader, i uint64) {
	name := r.string("tensor name", maxNameBytes)
	if r.err != nil {
		r.in("tensor %d", i)
		return
	}
	if name == "" {
		r.fail("%w: tensor %d has an empty name", ErrFormat, i)
		return
	}
	if _, dup := f.tensors[name]; dup {
		r.fail("%w: tensor %q occurs twice", ErrFormat, name)
		return
	}
	t := Tensor{Name: name, Dims: r.dims()}
	t.Type = Type(r.uint32("type"))
	offset := r.uint64("offset")
	if r.err == nil {
		t.Bytes, r.err = storedBytes(t.Dims, t.Type)
	}
	if r.err == nil && offset > math.MaxInt64 {
		r.fail("%w: offset %d is above 2^63", ErrFormat, offset)
	}
	r.in("tensor %q", name)
	t.Offset = int64(offset)
	f.tensors[name] = len(f.Tensors)
	f.Tensors = append(f.Tensors, t)
}

// dims reads a shape. ggml's scalars (no dimension) become one row of one
// value, so that every Tensor has a Dims[0].
func (r *reader) dims() []uint64 {
	n := r.uint32("dimension count")
	if n > maxDims {
		r.fail("%w: %d dimensions, at most %d are allowed", ErrFormat, n, maxDims)
	}
	if r.err != nil {
		return nil
	}
	if n == 0 {
		return []uint64{1}
	}
	dims := make([]uint64, n)
	for i := range dims {
		dims[i] = r.uint64("dimension")
		if r.err == nil && (dims[i] == 0 || dims[i] > math.MaxInt64) {
			r.fail("%w: dimension %d is %d, must be from 1 to 2^63-1", ErrFormat, i, int64(dims[i]))
		}
	}
	return dims
}

// storedBytes is the size of a tensor's data, 0 for types of unknown layout.
// All products are checked: a size that wrapped around would become a small
// buffer under a large tensor.
func storedBytes(dims []uint64, t Type) (int64, error) {
	if int32(t) < 0 {
		return 0, fmt.Errorf("%w: negative type id %d", ErrFormat, int32(t))
	}
	elems, ok := product(dims)
	if !ok || elems > math.MaxInt64 {
		return 0, fmt.Errorf("%w: dimensions %v have more than 2^63 elements", ErrFormat, dims)
	}
	blockElems, blockBytes, known := t.Block()
	if !known {
		return 0, nil
	}
	if dims[0]%uint64(blockElems) != 0 {
		return 0, fmt.Errorf("%w: rows of %d elements are not whole blocks of %v (%d)", ErrFormat, dims[0], t, blockElems)
	}
	hi, lo := bits.Mul64(elems/uint64(blockElems), uint64(blockBytes))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, fmt.Errorf("%w: dimensions %v of type %v take more than 2^63 bytes", ErrFormat, dims, t)
	}
	return int64(lo), nil
}

// place checks that the tensors lie one after the other, each padded to the
// alignment, inside the file, and makes their offsets absolute. A layout with
// holes or overlaps would let one tensor's bytes leak into another.
func (f *File) place(headerBytes, sizeBytes int64) error {
	align := uint64(f.Alignment)
	data := padded(uint64(headerBytes), align)
	next := uint64(0) // where the next tensor must begin; cannot overflow, as every end is inside the file
	sized := true     // false after a tensor of unknown size, whose successor fixes next
	for i := range f.Tensors {
		t := &f.Tensors[i]
		off := uint64(t.Offset)
		if off%align != 0 || off < next || (sized && off != next) {
			return fmt.Errorf("%w: tensor %q begins at byte %d of the data, expected %d (alignment %d)",
				ErrFormat, t.Name, off, next, align)
		}
		end, carry := bits.Add64(data+off, uint64(t.Bytes), 0)
		if carry != 0 || end > uint64(sizeBytes) {
			return fmt.Errorf("%w: tensor %q needs bytes %d to %d, the file has %d; fetch it again",
				ErrTruncated, t.Name, data+off, end, sizeBytes)
		}
		t.Offset = int64(data + off)
		next = padded(off+uint64(t.Bytes), align)
		_, _, sized = t.Type.Block()
	}
	return nil
}

// padded rounds n up to a multiple of align, a power of two.
func padded(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
