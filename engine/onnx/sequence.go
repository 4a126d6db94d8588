package onnx

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// sequence makes a sequence of its inputs.
func sequence(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	for i := range n.in {
		if err := n.oneOf(i, n.typ(0)); err != nil || n.typ(0) == tensor.Invalid {
			return nil, fmt.Errorf("input %d is a %v; tensors of one type are taken", i, n.variable(i))
		}
	}
	n.parts = slices.Clone(n.in)
	n.outputIs(0, variable{list, n.typ(0)})
	return func(c *call) error {
		made := make([]tensor.Tensor, c.inputs())
		for i := range made {
			var err error
			if made[i], err = c.copyOf(c.in(i)); err != nil {
				return err
			}
		}
		return c.giveList(made)
	}, nil
}

// giveList makes output 0 a sequence, which takes as much of the run's memory as its list.
func (c *call) giveList(made []tensor.Tensor) error {
	if len(made) > maxItems {
		return fmt.Errorf("a sequence of %d tensors; the limit is %d", len(made), maxItems)
	}
	c.give(0, datum{items: items{list: made}})
	return c.f.spend(itemBytes * int64(len(made)))
}

func sequenceEmpty(n *node) (kernel, error) {
	if err := n.takes(0, 0); err != nil {
		return nil, err
	}
	typ, err := elementType(n.integer("dtype", 1))
	n.outputIs(0, variable{list, typ})
	return func(c *call) error { return c.giveList(nil) }, err
}

func sequenceLength(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Int64)
	return func(c *call) error {
		out, err := c.out(0)
		if err == nil {
			tensor.Values[int64](out)[0] = int64(len(c.items(0).list))
		}
		return err
	}, n.takesList(0, list)
}

// position is a place in a sequence of size tensors that input i names; negative ones count from the end. Without the
// input it is otherwise.
func (c *call) position(i, size, otherwise int) (int, error) {
	t := c.in(i)
	if t == nil {
		return otherwise, nil
	}
	at := indices(t)
	if len(at) != 1 {
		return 0, fmt.Errorf("a position of %d elements", len(at))
	}
	return indexOf(at[0], int64(size))
}

func sequenceAt(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	if err := n.takesList(0, list); err != nil {
		return nil, err
	}
	if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
		return nil, err
	}
	parts := n.b.g.values[n.in[0]].parts
	if t := n.constant(1); t != nil && elements(t) == 1 && parts != nil {
		i, err := indexOf(indices(t)[0], int64(len(parts)))
		if err == nil {
			n.same = parts[i : i+1]
		}
		return nil, err
	}
	n.gives(n.variable(0).typ)
	return func(c *call) error {
		all := c.items(0).list
		i, err := c.position(1, len(all), 0)
		if err != nil {
			return err
		}
		t, err := c.copyOf(&all[i])
		c.give(0, datum{t: t})
		return err
	}, nil
}

func sequenceInsert(n *node) (kernel, error) {
	if err := n.takes(2, 3); err != nil {
		return nil, err
	}
	if err := n.takesList(0, list); err != nil {
		return nil, err
	}
	of := n.variable(0)
	n.outputIs(0, of)
	if n.has(2) {
		if err := n.oneOf(2, tensor.Int32, tensor.Int64); err != nil {
			return nil, err
		}
	}
	return func(c *call) error {
		all := c.items(0).list
		i, err := c.position(2, len(all)+1, len(all))
		if at := c.in(2); at != nil && len(indices(at)) == 1 && indices(at)[0] < 0 {
			i, err = c.position(2, len(all), len(all))
		}
		if err != nil {
			return err
		}
		t, err := c.copyOf(c.in(1))
		if err != nil {
			return err
		}
		return c.giveList(slices.Concat(all[:i], []tensor.Tensor{t}, all[i:]))
	}, n.oneOf(1, of.typ)
}

func sequenceErase(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	n.outputIs(0, n.variable(0))
	if n.has(1) {
		if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
			return nil, err
		}
	}
	return func(c *call) error {
		all := c.items(0).list
		i, err := c.position(1, len(all), len(all)-1)
		if err != nil {
			return err
		}
		if i < 0 {
			return errors.New("the sequence is empty")
		}
		return c.giveList(slices.Concat(all[:i], all[i+1:]))
	}, n.takesList(0, list)
}

// splitToSequence cuts a tensor into a sequence of parts along an axis.
func splitToSequence(n *node) (kernel, error) {
	if err := n.takes(1, 2); err != nil {
		return nil, err
	}
	if n.has(1) {
		if err := n.oneOf(1, tensor.Int32, tensor.Int64); err != nil {
			return nil, err
		}
	}
	axis, keep := n.integer("axis", 0), n.integer("keepdims", 1) != 0
	n.outputIs(0, variable{list, n.typ(0)})
	return func(c *call) error {
		in := c.in(0)
		at, err := axisOf(axis, len(in.Shape))
		if err != nil {
			return err
		}
		sizes, err := splitSizes(c.in(1), in.Shape[at])
		if err != nil {
			return err
		}
		if err := c.f.spend(tensorBytes(in)); err != nil {
			return err
		}
		made, start := make([]tensor.Tensor, len(sizes)), int64(0)
		for i, size := range sizes {
			made[i] = cutAlong(in, at, start, size)
			if c.in(1) == nil && !keep {
				made[i].Shape = slices.Delete(made[i].Shape, at, at+1)
			}
			start += size
		}
		return c.giveList(made)
	}, n.oneOf(0, anything...)
}

// splitSizes are the sizes of the parts of an axis: as listed, all of one size but the last, or 1.
func splitSizes(given *tensor.Tensor, size int64) ([]int64, error) {
	chunk := int64(1)
	if given != nil {
		listed := indices(given)
		if len(given.Shape) > 0 {
			total := int64(0)
			for _, s := range listed {
				if s < 0 || s > size-total {
					return nil, fmt.Errorf("parts %v of an axis of %d", listed, size)
				}
				total += s
			}
			if total != size || len(listed) > maxItems {
				return nil, fmt.Errorf("parts %v of an axis of %d", listed, size)
			}
			return listed, nil
		}
		if chunk = listed[0]; chunk < 1 {
			return nil, fmt.Errorf("parts of %d", chunk)
		}
	}
	if size/chunk > maxItems {
		return nil, fmt.Errorf("%d parts; the limit is %d", size/chunk, maxItems)
	}
	var sizes []int64
	for left := size; left > 0; left -= chunk {
		sizes = append(sizes, min(chunk, left))
	}
	return sizes, nil
}

// cutAlong copies a range of an axis.
func cutAlong(t *tensor.Tensor, axis int, start, size int64) tensor.Tensor {
	part := tensor.Tensor{Type: t.Type, Shape: slices.Clone(t.Shape)}
	part.Shape[axis] = size
	n := int(product(part.Shape))
	if t.Type == tensor.Bytes {
		part.Strings = make([][]byte, n)
	} else {
		part.Data = aligned(n * t.Type.Size())
	}
	width := int(product(t.Shape[axis+1:]))
	for r := range int(product(t.Shape[:axis])) {
		copyElements(&part, r*int(size)*width, t, (r*int(t.Shape[axis])+int(start))*width, int(size)*width)
	}
	return part
}

// concatFromSequence joins a sequence's tensors along an axis, or along a new one.
func concatFromSequence(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	axis, added := n.integer("axis", 0), n.integer("new_axis", 0) != 0
	n.gives(n.variable(0).typ)
	return func(c *call) error {
		all := c.items(0).list
		if len(all) == 0 {
			return errors.New("the sequence is empty")
		}
		rank := len(all[0].Shape)
		if added {
			rank++
		}
		at, err := axisOf(axis, rank)
		if err != nil {
			return err
		}
		parts := slices.Clone(all)
		for i := range parts {
			if added {
				if len(parts[i].Shape) != rank-1 {
					return fmt.Errorf("tensors of shapes %v and %v", parts[0].Shape, parts[i].Shape)
				}
				parts[i].Shape = slices.Insert(slices.Clone(parts[i].Shape), at, 1)
			}
		}
		return c.joined(parts, at)
	}, n.takesList(0, list)
}

// joined makes output 0 of tensors that follow one another along an axis.
func (c *call) joined(parts []tensor.Tensor, axis int) error {
	shape := slices.Clone(parts[0].Shape)
	shape[axis] = 0
	for i := range parts {
		for d, size := range parts[i].Shape {
			if len(parts[i].Shape) != len(shape) || d != axis && size != shape[d] {
				return fmt.Errorf("tensors of shapes %v and %v", parts[0].Shape, parts[i].Shape)
			}
		}
		if len(parts[i].Shape) != len(shape) {
			return fmt.Errorf("tensors of shapes %v and %v", parts[0].Shape, parts[i].Shape)
		}
		shape[axis] += parts[i].Shape[axis]
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return err
	}
	width, start := int(product(shape[axis+1:])), 0
	for i := range parts {
		size := int(parts[i].Shape[axis])
		for r := range int(product(shape[:axis])) {
			copyElements(out, (r*int(shape[axis])+start)*width, &parts[i], r*size*width, size*width)
		}
		start += size
	}
	return nil
}

// sequenceMap runs a graph for each tensor of a sequence, and of the other sequences at the same place.
func sequenceMap(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	if err := n.takesList(0, list); err != nil {
		return nil, err
	}
	var given []variable
	for i := range n.in {
		n.lists = append(n.lists, i)
		v := n.variable(i)
		if v.form != plain && v.form != list {
			return nil, fmt.Errorf("input %d is an %v", i, v)
		}
		given = append(given, variable{plain, v.typ})
	}
	b, err := bodyOf(n, "body", given...)
	if err != nil {
		return nil, err
	}
	if len(n.outputs) > len(b.wanted) {
		return nil, fmt.Errorf("the body has %d outputs; the node has %d", len(b.wanted), len(n.outputs))
	}
	for i := range b.wanted {
		v := b.output(i)
		if v.form != plain {
			return nil, fmt.Errorf("output %d of the body is a %v; tensors are gathered", i, v)
		}
		n.outputIs(i, variable{list, v.typ})
	}
	inputs, outputs := len(given), len(n.outputs)
	return func(c *call) error {
		f := b.enter(c)
		defer b.leave(f)
		size := len(c.items(0).list)
		made := make([][]tensor.Tensor, outputs)
		for k := range size {
			if err := f.iterate(len(b.steps)); err != nil {
				return err
			}
			for i := range inputs {
				d := c.datum(i)
				if n := c.f.graph.values[c.s.in[i]]; n.form == list {
					if k >= len(d.list) {
						return fmt.Errorf("input %d is a sequence of %d tensors, input 0 of %d", i, len(d.list), size)
					}
					d.t = d.list[k]
				}
				f.set(b.given[i], datum{t: d.t})
			}
			if err := f.performAll(); err != nil {
				return err
			}
			for i := range made {
				made[i] = append(made[i], f.take(b.wanted[i]).t)
			}
		}
		for i := range made {
			c.give(i, datum{items: items{list: made[i]}})
		}
		return c.f.spend(itemBytes * int64(size) * int64(outputs))
	}, nil
}
