package onnx

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"weir/internal/tensor"
)

// maxRunBytes bounds the memory of one run's tensors together.
const maxRunBytes = 4 << 30

// frame is the memory of one run: the graph's tensors, and buffers that values take
// one after the other. One goroutine uses it at a time.
type frame struct {
	graph   *graph
	tensors []tensor.Tensor
	lists   []items // of the values that are no tensors; nil: the graph has none
	buffers []buffer
	fresh   buffer // of the output that a step makes for the caller
	scratch []byte
	kept    int64 // bytes of the buffers and of scratch
	call    call  // of the step that runs
	*limits
	own limits // of a frame that runs for itself
}

// limits are those of a run; the graphs of its nodes share them.
type limits struct {
	budget     int64        // bytes that the run may still allocate
	work       int64        // bytes that steps may still read, and products of matrices; bounds trials at load, and loops
	iterations int64        // that loops may still make
	held       held         // what the run holds of the memory of all runs
	stop       func() error // is asked before every step, and ends the run with its error; nil: never
}

// charge takes from the work that the run may still do.
func (f *frame) charge(work int64) error {
	if f.work -= work; f.work < 0 {
		return fmt.Errorf("%w: more work than one run may do", ErrTooMuch)
	}
	return nil
}

// perform runs one step.
func (f *frame) perform(s *step) error {
	if f.stop != nil {
		if err := f.stop(); err != nil {
			return err
		}
	}
	for _, id := range s.in {
		if id == absent {
			continue
		}
		t := &f.tensors[id]
		if err := f.charge(int64(len(t.Data)) + 24*int64(len(t.Strings))); err != nil {
			return err
		}
	}
	f.call = call{f, s}
	if err := s.run(&f.call); err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	return nil
}

type buffer struct {
	data    []byte
	strings [][]byte
}

func (g *graph) newFrame() *frame {
	f := &frame{graph: g, tensors: make([]tensor.Tensor, len(g.values)), buffers: make([]buffer, g.buffers)}
	f.limits = &f.own
	f.iterations = maxIterations
	for i, v := range g.values {
		if v.constant != nil {
			f.tensors[i] = *v.constant
		}
		if v.form != plain && f.lists == nil {
			f.lists = make([]items, len(g.values))
		}
	}
	return f
}

// release forgets the memory that belongs to callers.
func (f *frame) release() {
	for _, id := range f.graph.given {
		f.tensors[id] = tensor.Tensor{}
	}
	for i := range f.graph.values {
		if v := &f.graph.values[i]; v.constant == nil {
			f.tensors[i].Data, f.tensors[i].Strings = nil, nil
		}
	}
	clear(f.lists)
	f.fresh = buffer{}
	for i := range f.buffers {
		clear(f.buffers[i].strings)
	}
	f.limits, f.own = &f.own, limits{iterations: maxIterations}
}

// result is an output that the caller may keep.
func (f *frame) result(id int) tensor.Tensor {
	t := f.tensors[id]
	t.Shape = slices.Clone(t.Shape)
	if f.graph.values[id].buffer == fresh {
		return t
	}
	return copied(&t)
}

// copied is a tensor with memory of its own. Byte strings are shared: nothing writes to them.
func copied(t *tensor.Tensor) tensor.Tensor {
	c := *t
	c.Shape = slices.Clone(t.Shape)
	c.Strings = slices.Clone(t.Strings)
	if t.Data != nil {
		c.Data = aligned(len(t.Data))
		copy(c.Data, t.Data)
	}
	return c
}

// aligned is memory for elements of any type.
func aligned(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// room is how many bytes a buffer has that is to hold n: its own where they suffice.
func room(data []byte, n int) int {
	if n <= cap(data) {
		return cap(data)
	}
	return max(n, 2*cap(data))
}

// call is one step of one run.
type call struct {
	f *frame
	s *step
}

// in is the step's input i, nil where it is absent.
func (c *call) in(i int) *tensor.Tensor {
	if i < 0 || i >= len(c.s.in) || c.s.in[i] == absent {
		return nil
	}
	return &c.f.tensors[c.s.in[i]]
}

// inputs is how many inputs the step names.
func (c *call) inputs() int { return len(c.s.in) }

// wants reports whether the graph names output i.
func (c *call) wants(i int) bool { return i < len(c.s.out) && c.s.out[i] != absent }

// out gives output i, which the graph names, its shape and memory, whose content is arbitrary.
func (c *call) out(i int, shape ...int64) (*tensor.Tensor, error) {
	if !c.wants(i) {
		return nil, fmt.Errorf("output %d is not named", i)
	}
	if len(shape) > maxRank {
		return nil, fmt.Errorf("output %d has %d dimensions; the limit is %d", i, len(shape), maxRank)
	}
	id := c.s.out[i]
	v, t := &c.f.graph.values[id], &c.f.tensors[id]
	size := int64(max(v.typ.Size(), 1))
	if v.typ == tensor.Bytes {
		size = 24
	}
	t.Shape = append(t.Shape[:0], shape...)
	n, err := tensor.Elements(t.Shape, c.f.budget/size)
	if err != nil {
		return nil, fmt.Errorf("output %d is too large: %w", i, err)
	}
	t.Type = v.typ
	b := &c.f.fresh
	if v.buffer != fresh {
		b = &c.f.buffers[v.buffer]
		c.f.budget -= n * size
	} else {
		*b = buffer{}
		if err := c.f.spend(n * size); err != nil {
			return nil, err
		}
	}
	if v.typ == tensor.Bytes {
		t.Strings, t.Data = nil, nil
		if int(n) > cap(b.strings) {
			if err := c.f.growth(v, size*(n-int64(cap(b.strings)))); err != nil {
				return nil, err
			}
			b.strings = make([][]byte, n)
		}
		b.strings = b.strings[:n]
		t.Strings = b.strings
		return t, nil
	}
	t.Data, t.Strings = nil, nil
	if want := room(b.data, int(n)*v.typ.Size()); want > cap(b.data) {
		if err := c.f.growth(v, int64(want-cap(b.data))); err != nil {
			return nil, err
		}
		b.data = aligned(want)
	}
	b.data = b.data[:int(n)*v.typ.Size()]
	t.Data = b.data
	return t, nil
}

// growth counts the growth of a value's buffer; what goes to the caller has been counted.
func (f *frame) growth(v *value, bytes int64) error {
	if v.buffer == fresh {
		return nil
	}
	return f.grown(bytes)
}

// output is output i as the step has made it.
func (c *call) output(i int) *tensor.Tensor { return &c.f.tensors[c.s.out[i]] }

// share makes output 0 input 0 with another shape: its memory, or a copy of it where
// the output's memory goes to the caller.
func (c *call) share(shape []int64) error {
	id := c.s.out[0]
	from, t := c.in(0), &c.f.tensors[id]
	if c.f.graph.values[id].buffer == fresh {
		to, err := c.out(0, shape...)
		if err == nil {
			copy(to.Data, from.Data)
			copy(to.Strings, from.Strings)
		}
		return err
	}
	t.Type, t.Data, t.Strings = from.Type, from.Data, from.Strings
	t.Shape = append(t.Shape[:0], shape...)
	return nil
}

// scratch is memory of the step for n elements, valid until the step asks again.
func scratch[T number](c *call, n int) ([]T, error) {
	var one T
	size := int(unsafe.Sizeof(one))
	if n < 0 || int64(n) > c.f.budget/int64(size) {
		return nil, fmt.Errorf("%d elements of working memory are too many", n)
	}
	if n == 0 {
		return nil, nil
	}
	if want := room(c.f.scratch, n*size); want > cap(c.f.scratch) {
		if err := c.f.grown(int64(want - cap(c.f.scratch))); err != nil {
			return nil, err
		}
		c.f.scratch = aligned(want)
	}
	c.f.scratch = c.f.scratch[:n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(c.f.scratch))), n), nil
}

// number is an element of a tensor of numbers or bits.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// floats is input i as float32, as ONNX Runtime's linear models and support vector
// machines take every type. It may be the call's scratch memory.
func (c *call) floats(i int) ([]float32, error) {
	t := c.in(i)
	switch t.Type {
	case tensor.Float32:
		return tensor.Values[float32](t), nil
	case tensor.Float64:
		return converted[float32](c, tensor.Values[float64](t))
	case tensor.Int32:
		return converted[float32](c, tensor.Values[int32](t))
	case tensor.Int64:
		return converted[float32](c, tensor.Values[int64](t))
	}
	return nil, fmt.Errorf("input %d is %v", i, t.Type)
}

func converted[T, S number](c *call, from []S) ([]T, error) {
	to, err := scratch[T](c, len(from))
	for i := range to {
		to[i] = T(from[i])
	}
	return to, err
}

// table says how many rows of how many columns a tensor of one or two dimensions has.
func table(t *tensor.Tensor) (rows, columns int64, err error) {
	switch len(t.Shape) {
	case 1:
		return 1, t.Shape[0], nil
	case 2:
		return t.Shape[0], t.Shape[1], nil
	}
	return 0, 0, fmt.Errorf("an input of shape %v is no table of rows and columns", t.Shape)
}

// text is a byte string for maps and messages.
func text(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) }
