package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// form says whether a value is a tensor, or what of tensors it is.
type form uint8

const (
	plain        form = iota // a tensor
	list                     // a sequence of tensors of one type
	option                   // a tensor, or nothing
	optionalList             // a sequence, or nothing
)

func (f form) String() string {
	return [...]string{"tensor", "sequence", "optional tensor", "optional sequence"}[f]
}

// variable is what is known of a value before a run.
type variable struct {
	form form
	typ  tensor.Type
}

func (v variable) String() string { return fmt.Sprintf("%v of %v", v.form, v.typ) }

// items are a sequence's tensors in a run, or an optional value's one or none. Nothing writes to
// them once they are made, so that sequences share them.
type items struct {
	list []tensor.Tensor
	none bool // the optional value is nothing
}

// Limits of sequences.
const (
	maxItems  = 1 << 20
	itemBytes = 128 // of a tensor without its elements
)

// datum is what a value holds in a run.
type datum struct {
	t tensor.Tensor
	items
}

// bytes is the memory of a value.
func (d *datum) bytes() int64 {
	n := tensorBytes(&d.t)
	for i := range d.list {
		n += itemBytes + tensorBytes(&d.list[i])
	}
	return n
}

func tensorBytes(t *tensor.Tensor) int64 { return int64(len(t.Data)) + 24*int64(len(t.Strings)) }

// take is what a value holds, in memory of its own.
func (f *frame) take(id int) datum {
	if f.graph.values[id].form != plain {
		return datum{items: f.lists[id]}
	}
	return datum{t: f.result(id)}
}

// set makes a value hold something.
func (f *frame) set(id int, d datum) {
	f.tensors[id] = d.t
	if f.lists != nil {
		f.lists[id] = d.items
	}
}

// outputIs says what output i is, where the node names it.
func (rs *results) outputIs(i int, v variable) {
	if i < len(rs.types) {
		rs.types[i], rs.forms[i] = v.typ, v.form
	}
}

// items are those of input i, a sequence or an optional value.
func (c *call) items(i int) items { return c.f.lists[c.s.in[i]] }

// datum is what input i holds; the memory is not the step's.
func (c *call) datum(i int) datum {
	id := c.s.in[i]
	d := datum{t: c.f.tensors[id]}
	if c.f.lists != nil {
		d.items = c.f.lists[id]
	}
	return d
}

// give makes output i hold something, whose memory is its own. Where the graph does not name the output, nothing is done.
func (c *call) give(i int, d datum) {
	if c.wants(i) {
		d.t.Name = ""
		c.f.set(c.s.out[i], d)
	}
}

// copyOf is a tensor in memory of its own, within the run's limit.
func (c *call) copyOf(t *tensor.Tensor) (tensor.Tensor, error) {
	if err := c.f.spend(itemBytes + tensorBytes(t)); err != nil {
		return tensor.Tensor{}, err
	}
	return copied(t), nil
}
