// Package gguf reads model files in the GGUF format, versions 2 and 3: typed
// metadata, tensor descriptions, and the tensors' bytes on demand.
//
// A file is untrusted input. Parsing allocates a small multiple of the bytes
// that are really in the file, whatever its counts claim; it returns errors
// that wrap the sentinels of this package and never panics. Weights are never
// mapped: they are read with pread into memory that the caller owns, so a file
// cut short under a running server is a read error and not a fault.
//
// The format is specified in ggml's docs/gguf.md; where that leaves a choice,
// this reader is as strict as llama.cpp's.
package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
)

// KeyValue is one metadata entry. Value has the Go type of the stored one:
// uint8 … uint64, int8 … int64, float32, float64, bool, string, or a slice of
// one of these.
type KeyValue struct {
	Key   string
	Value any
}

// Tensor describes one tensor; the bytes stay in the file until ReadTensor.
type Tensor struct {
	Name   string
	Dims   []uint64 // in ggml's order: Dims[0] is the contiguous (input) dimension; at least one
	Type   Type
	Offset int64 // of the first byte, from the start of the tensor's own file
	Bytes  int64 // stored size; 0 when the type's block layout is unknown
	Split  int   // index of the file that holds it: 0 for a model in one file
}

// Elements is the number of values; it saturates where Dims of an unknown
// type would overflow.
func (t *Tensor) Elements() uint64 {
	n, ok := product(t.Dims)
	if !ok {
		return math.MaxUint64
	}
	return n
}

// Rows is the number of rows of Dims[0] values.
func (t *Tensor) Rows() uint64 { return t.Elements() / t.Dims[0] }

// RowBytes is the stored size of one row, 0 when the type's layout is unknown.
func (t *Tensor) RowBytes() int64 {
	n, _ := t.Type.RowBytes(t.Dims[0])
	return int64(n)
}

// CheckSupported returns an ErrUnsupportedType that names the tensor, the type
// and the supported types, or nil.
func (t *Tensor) CheckSupported() error {
	if t.Type.Supported() {
		return nil
	}
	if t.Type == earlyMXFP4 && len(t.Dims) == 3 {
		return fmt.Errorf("%w: tensor %q has experts of type id 4, which is MXFP4 in Ollama's early files of gpt-oss and Q4_2 elsewhere; "+
			"use a file that another converter made", ErrUnsupportedType, t.Name)
	}
	return fmt.Errorf("%w: tensor %q is %v (id %d); use a file quantised to one of %s",
		ErrUnsupportedType, t.Name, t.Type, uint32(t.Type), supportedNames())
}

// earlyMXFP4 is the number that Ollama gave to MXFP4 before ggml gave it one.
const earlyMXFP4 Type = 4

// File is an opened model: one GGUF file, or all files of a split model. It is
// immutable after Open or Parse and safe for concurrent use until Close.
type File struct {
	Version   uint32
	Alignment uint32     // of the first file's data section, in bytes
	KV        []KeyValue // in file order; of a split model, the first file's
	Tensors   []Tensor   // in file order, splits in sequence

	keys    map[string]int // index into KV
	tensors map[string]int // index into Tensors
	parts   []part
}

// part is one of the files that make up a model.
type part struct {
	r           io.ReaderAt
	handle      *handle // nil when the caller owns r
	sizeBytes   int64
	headerBytes int64 // magic to last tensor description, without padding
}

// Open reads the headers of the model at path. For a split model path must be
// its first file (name-00001-of-0000N.gguf); the others are opened from the
// same folder. The files stay open, for ReadTensor, until Close.
func Open(path string) (*File, error) {
	f, err := openPart(path)
	if err != nil {
		return nil, err
	}
	if err := f.openSplits(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	translate(f)
	return f, nil
}

// openPart opens one file, without the other files of a split model.
func openPart(path string) (*File, error) {
	if st, err := os.Stat(path); err == nil { // before Open, which waits for a pipe's writer
		if err := checkRegular(st); err != nil {
			return nil, fmt.Errorf("open model %s: %w", path, err)
		}
	}
	h, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	f, err := parseHandle(h)
	if err != nil {
		return nil, fmt.Errorf("read model %s: %w", path, errors.Join(err, h.Close()))
	}
	return f, nil
}

func parseHandle(h *os.File) (*File, error) {
	st, err := h.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRegular(st); err != nil { // the path may name another file by now
		return nil, err
	}
	f, err := parse(h, st.Size())
	if err != nil {
		return nil, err
	}
	f.parts[0].handle = newHandle(h)
	return f, nil
}

// checkRegular refuses files that have no size and cannot be read at any offset,
// such as pipes.
func checkRegular(st fs.FileInfo) error {
	kind := "special file"
	switch mode := st.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("%w: it is a %s; give the path of a .gguf file", ErrNotRegular, kind)
}

// Parse reads the header of a model in one file of sizeBytes bytes, for
// example one that lies in memory. The caller keeps ownership of r, which must
// serve ReadTensor for as long as the File is used.
func Parse(r io.ReaderAt, sizeBytes int64) (*File, error) {
	f, err := parse(r, sizeBytes)
	if err != nil {
		return nil, err
	}
	s, err := f.split()
	if err != nil {
		return nil, err
	}
	if s.count > 1 {
		return nil, fmt.Errorf("%w: this is file %d of %d; open the first one by its path", ErrSplit, s.no+1, s.count)
	}
	translate(f)
	return f, nil
}

// Close closes the files that Open opened, except those that a Rows still reads. Tensors cannot be read afterwards;
// metadata stays valid.
func (f *File) Close() error {
	var errs []error
	for i := range f.parts {
		if h := f.parts[i].handle; h != nil {
			errs = append(errs, h.release())
			f.parts[i].handle, f.parts[i].r = nil, closed{}
		}
	}
	return errors.Join(errs...)
}

// Tensor finds a tensor by name. The result points into f.Tensors.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.tensors[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// ReadTensor fills dst with all bytes of t; len(dst) must be t.Bytes. Types
// that the engine does not compute with are refused.
func (f *File) ReadTensor(t *Tensor, dst []byte) error {
	if err := t.CheckSupported(); err != nil {
		return err
	}
	if int64(len(dst)) != t.Bytes {
		return fmt.Errorf("%w: tensor %q has %d bytes, the buffer %d", ErrValue, t.Name, t.Bytes, len(dst))
	}
	return f.ReadTensorAt(t, dst, 0)
}

// ReadTensorAt fills dst with bytes of t from offsetBytes on, counted from the
// tensor's start: a loader that packs weights reads a few rows at a time.
func (f *File) ReadTensorAt(t *Tensor, dst []byte, offsetBytes int64) error {
	if err := t.CheckSupported(); err != nil {
		return err
	}
	if t.Split < 0 || t.Split >= len(f.parts) {
		return fmt.Errorf("%w: tensor %q lies in file %d of %d", ErrValue, t.Name, t.Split+1, len(f.parts))
	}
	if offsetBytes < 0 || offsetBytes > t.Bytes || int64(len(dst)) > t.Bytes-offsetBytes {
		return fmt.Errorf("%w: bytes %d to %d asked of tensor %q, which has %d",
			ErrValue, offsetBytes, offsetBytes+int64(len(dst)), t.Name, t.Bytes)
	}
	if err := readFull(f.parts[t.Split].r, dst, t.Offset+offsetBytes); err != nil {
		return fmt.Errorf("read tensor %q: %w", t.Name, err)
	}
	return nil
}

// readFull is one pread of len(dst) bytes; an end of file before that means
// that the file has shrunk since its header was read.
func readFull(r io.ReaderAt, dst []byte, offsetBytes int64) error {
	n, err := r.ReadAt(dst, offsetBytes)
	if n == len(dst) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: file ends at byte %d, %d more expected", ErrTruncated, offsetBytes+int64(n), len(dst)-n)
	}
	return err
}

// ParamCount is the number of values in all tensors.
func (f *File) ParamCount() uint64 {
	var sum uint64
	for i := range f.Tensors {
		n, carry := bits.Add64(sum, f.Tensors[i].Elements(), 0)
		if carry != 0 {
			return math.MaxUint64
		}
		sum = n
	}
	return sum
}

// FileBytes is the size of all files of the model.
func (f *File) FileBytes() int64 {
	var sum int64
	for i := range f.parts {
		sum += f.parts[i].sizeBytes
	}
	return sum
}

// product multiplies dims; ok is false on overflow.
func product(dims []uint64) (n uint64, ok bool) {
	n = 1
	for _, d := range dims {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}
