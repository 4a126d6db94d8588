package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// scanning is Scan: a graph that runs once for each slice of its inputs.
type scanning struct {
	*body
	state             int     // inputs that go from one slice to the next
	slices            int     // inputs that are cut into slices
	inAxes, outAxes   []int64 // as given; nil: the first
	inTurns, outTurns []int64 // 1 where the order is turned; nil: nowhere
}

func scan(n *node) (kernel, error) {
	if n.version < 9 {
		return nil, fmt.Errorf("set 9 and later are supported; %s", wayOut)
	}
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	s := &scanning{
		slices: int(n.integer("num_scan_inputs", 0)), inAxes: n.integers("scan_input_axes"), outAxes: n.integers("scan_output_axes"),
		inTurns: n.integers("scan_input_directions"), outTurns: n.integers("scan_output_directions"),
	}
	if s.slices < 1 || s.slices > len(n.in) {
		return nil, fmt.Errorf("%d of %d inputs are scanned", s.slices, len(n.in))
	}
	s.state = len(n.in) - s.slices
	var given []variable
	for i := range n.in {
		if !n.has(i) || n.variable(i).form != plain {
			return nil, fmt.Errorf("input %d is left out, or no tensor", i)
		}
		given = append(given, n.variable(i))
	}
	var err error
	if s.body, err = bodyOf(n, "body", given...); err != nil {
		return nil, err
	}
	kept := len(s.wanted) - s.state
	switch {
	case kept < 0 || len(n.outputs) > len(s.wanted):
		return nil, fmt.Errorf("the body has %d outputs for %d of the node, %d of them its state", len(s.wanted), len(n.outputs), s.state)
	case s.inAxes != nil && len(s.inAxes) != s.slices || s.inTurns != nil && len(s.inTurns) != s.slices,
		s.outAxes != nil && len(s.outAxes) != kept || s.outTurns != nil && len(s.outTurns) != kept:
		return nil, fmt.Errorf("axes or directions are not given for each of %d inputs and %d outputs", s.slices, kept)
	}
	for k := range s.state {
		n.b.m.mixes = n.b.m.mixes || !s.passes(k, k)
	}
	return s.run, loopOutputs(&n.results, s.body, given[:s.state], 0)
}

func (s *scanning) run(c *call) error {
	inputs := make([]tensor.Tensor, s.slices)
	count := int64(0)
	for i := range inputs {
		t := c.in(s.state + i)
		axis, err := axisOf(at(s.inAxes, i), len(t.Shape))
		if err != nil {
			return err
		}
		if i > 0 && t.Shape[axis] != count {
			return fmt.Errorf("%d slices of one input and %d of another", count, t.Shape[axis])
		}
		count = t.Shape[axis]
		if inputs[i], err = s.moved(c, t, axis, 0); err != nil {
			return err
		}
	}
	r := s.begin(c, 0, s.state, 0, 0)
	defer s.leave(r.f)
	for k := range count {
		for i := range inputs {
			from := k
			if at(s.inTurns, i) == 1 {
				from = count - 1 - k
			}
			r.f.set(s.given[s.state+i], datum{t: sliceAt(&inputs[i], from)})
		}
		if err := r.run(); err != nil {
			return err
		}
	}
	return r.end(func(i int, kept *pile, declared []int64) error {
		axis, turned := at(s.outAxes, i-s.state), at(s.outTurns, i-s.state) == 1
		if axis == 0 || kept.count == 0 {
			return kept.lay(c, i, declared, turned)
		}
		return s.layAlong(c, i, kept, axis, turned)
	})
}

// at is an element of a list, 0 of one that is not given.
func at(list []int64, i int) int64 {
	if list == nil {
		return 0
	}
	return list[i]
}

// sliceAt is a slice of the first axis; it shares the tensor's memory.
func sliceAt(t *tensor.Tensor, k int64) tensor.Tensor {
	s := tensor.Tensor{Type: t.Type, Shape: t.Shape[1:]}
	if t.Type == tensor.Bytes {
		width := int64(len(t.Strings)) / t.Shape[0]
		s.Strings = t.Strings[k*width : (k+1)*width]
		return s
	}
	width := int64(len(t.Data)) / t.Shape[0]
	s.Data = t.Data[k*width : (k+1)*width : (k+1)*width]
	return s
}

// moved is a tensor whose axis stands at another place; the tensor itself where that is its own.
func (s *scanning) moved(c *call, t *tensor.Tensor, from, to int) (tensor.Tensor, error) {
	if from == to {
		return *t, nil
	}
	m, err := c.copyOf(t)
	if err != nil {
		return m, err
	}
	strides := stretched(t.Shape, len(t.Shape))
	step, size := strides[from], t.Shape[from]
	m.Shape = slices.Insert(slices.Delete(m.Shape, from, from+1), to, size)
	gatherFrom(&m, t, slices.Insert(slices.Delete(strides, from, from+1), to, step), 0)
	return m, nil
}

// layAlong writes what was gathered along another axis than the first.
func (s *scanning) layAlong(c *call, i int, kept *pile, axis int64, turned bool) error {
	to, err := axisOf(axis, 1+len(kept.shape))
	if err != nil {
		return err
	}
	if err := kept.lay(c, i, nil, turned); err != nil {
		return err
	}
	if to == 0 {
		return nil
	}
	m, err := s.moved(c, &c.f.tensors[c.s.out[i]], 0, to)
	if err != nil {
		return err
	}
	c.give(i, datum{t: m})
	return nil
}
