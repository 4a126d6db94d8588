package gguf

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Rows reads rows of a tensor when they are asked for, and keeps its file open until Close, even when the File is closed. What was
// read before lies in the system's page cache, where memory allows it. Read may be called from any goroutine.
type Rows struct {
	tensor Tensor
	r      io.ReaderAt
	handle *handle // nil: the caller owns r
}

// Rows gives a reader of t's rows, of Dims[0] values each. A tensor whose file is closed is refused.
func (f *File) Rows(t *Tensor) (*Rows, error) {
	if err := t.CheckSupported(); err != nil {
		return nil, err
	}
	if t.Split < 0 || t.Split >= len(f.parts) {
		return nil, fmt.Errorf("%w: tensor %q lies in file %d of %d", ErrValue, t.Name, t.Split+1, len(f.parts))
	}
	p := &f.parts[t.Split]
	if _, gone := p.r.(closed); gone {
		return nil, fmt.Errorf("read tensor %q: %w", t.Name, os.ErrClosed)
	}
	if p.handle != nil {
		p.handle.uses.Add(1)
	}
	return &Rows{tensor: *t, r: p.r, handle: p.handle}, nil
}

// Read fills dst, a multiple of the tensor's RowBytes, with rows from the given one on. An error names the tensor; one that wraps
// ErrTruncated says that the file has shrunk.
func (r *Rows) Read(dst []byte, row int) error {
	offset := int64(row) * r.tensor.RowBytes()
	if row < 0 || int64(len(dst)) > r.tensor.Bytes-offset {
		return fmt.Errorf("%w: row %d asked of tensor %q, which has %d", ErrValue, row, r.tensor.Name, r.tensor.Rows())
	}
	if err := readFull(r.r, dst, r.tensor.Offset+offset); err != nil {
		return fmt.Errorf("read row %d of tensor %q: %w", row, r.tensor.Name, err)
	}
	return nil
}

// Tensor is what is read.
func (r *Rows) Tensor() Tensor { return r.tensor }

// Close lets go of the file.
func (r *Rows) Close() error {
	if r.handle == nil {
		return nil
	}
	h := r.handle
	r.handle = nil
	return h.release()
}

// handle is an open file that a File and readers of its tensors share.
type handle struct {
	io.Closer
	uses atomic.Int32
}

func newHandle(c io.Closer) *handle {
	h := &handle{Closer: c}
	h.uses.Store(1)
	return h
}

// release closes the file when its last user lets go of it.
func (h *handle) release() error {
	if h.uses.Add(-1) > 0 {
		return nil
	}
	return h.Close()
}

// closed stands for a file that was closed, though a reader of rows may hold it open.
type closed struct{}

func (closed) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }
