package onnx

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Memory bounds what the runs of all models hold together. The zero value has no bound. It is safe for concurrent use.
type Memory struct {
	limit, taken atomic.Int64
}

// Runs is the memory of all runs of the process.
var Runs Memory

// Limit sets the bound in bytes; 0 is none.
func (m *Memory) Limit(bytes int64) { m.limit.Store(bytes) }

// Taken is how much runs hold at this time, in bytes.
func (m *Memory) Taken() int64 { return m.taken.Load() }

// ErrMemory says that the runs of all models hold what they may hold together.
var ErrMemory = errors.New("the runs of models hold all memory that they may")

const (
	freeRunBytes = 1 << 20  // that a run holds before it asks: small models ask for nothing
	memoryPiece  = 1 << 20  // that a run asks for at a time
	keptBytes    = 64 << 20 // that a frame may keep until the next run
)

// take takes bytes for a run that holds so many already.
func (m *Memory) take(bytes, held int64) error {
	limit := m.limit.Load()
	if taken := m.taken.Add(bytes); limit == 0 || taken <= limit {
		return nil
	}
	m.taken.Add(-bytes)
	if held+bytes > limit {
		return fmt.Errorf("%w: more than the %d bytes that all runs may have together", ErrTooMuch, limit)
	}
	return fmt.Errorf("%w (%d bytes); try again later", ErrMemory, limit)
}

// held is what a run holds.
type held struct {
	memory  *Memory // nil: of a trial
	buffers int64   // of its frames
	values  int64   // beside them
	taken   int64   // from memory
}

// check takes from memory what the run holds and has not taken yet.
func (h *held) check() error {
	missing := h.buffers + h.values - freeRunBytes - h.taken
	if missing <= 0 || h.memory == nil {
		return nil
	}
	piece := (missing + memoryPiece - 1) / memoryPiece * memoryPiece
	if err := h.memory.take(piece, h.taken); err != nil {
		return err
	}
	h.taken += piece
	return nil
}

// end gives all of it back.
func (h *held) end() {
	if h.taken > 0 {
		h.memory.taken.Add(-h.taken)
	}
	*h = held{}
}

// grown counts that a buffer of the frame has another size, and fails where that is too much.
func (f *frame) grown(bytes int64) error {
	if bytes == 0 {
		return nil
	}
	f.held.buffers += bytes
	if err := f.held.check(); err != nil {
		return err // which ends the run
	}
	f.kept += bytes
	return nil
}

// spend takes memory from what the run may still allocate.
func (f *frame) spend(bytes int64) error {
	if bytes > f.budget {
		return fmt.Errorf("%w: more memory than one run may have", ErrTooMuch)
	}
	f.budget -= bytes
	f.held.values += bytes
	return f.held.check()
}
