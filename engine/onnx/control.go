package onnx

import (
	"errors"
	"fmt"
	"math"

	"weir/internal/tensor"
)

// control are the operators that run graphs, and those of sequences and optional values.
func control() map[string]constructor {
	return map[string]constructor{
		"If": ifElse, "Loop": loop, "Scan": scan, "SequenceMap": sequenceMap,
		"SequenceConstruct": sequence, "SequenceEmpty": sequenceEmpty, "SequenceLength": sequenceLength, "SequenceAt": sequenceAt,
		"SequenceInsert": sequenceInsert, "SequenceErase": sequenceErase,
		"SplitToSequence": splitToSequence, "ConcatFromSequence": concatFromSequence,
		"Optional": optional, "OptionalHasElement": optionalHasElement, "OptionalGetElement": optionalGetElement,
	}
}

// ifElse runs one of two graphs. Where its condition is known at load, it is the nodes of that graph.
func ifElse(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, tensor.Bool); err != nil {
		return nil, err
	}
	if t := n.constant(0); t != nil && len(t.Data) == 1 {
		return nil, inline(n, branchOf(t.Data[0] != 0))
	}
	n.b.m.mixes = true
	var branches [2]*body
	for i := range branches {
		var err error
		if branches[i], err = bodyOf(n, branchOf(i == 1)); err != nil {
			return nil, err
		}
		if len(branches[i].wanted) < len(n.outputs) {
			return nil, fmt.Errorf("graph %s has %d outputs; the node has %d", branchOf(i == 1), len(branches[i].wanted), len(n.outputs))
		}
	}
	for i := range n.outputs {
		a, b := branches[0].output(i), branches[1].output(i)
		if a != b {
			return nil, fmt.Errorf("output %d is a %v in one branch and a %v in the other", i, b, a)
		}
		n.outputIs(i, a)
	}
	return func(c *call) error {
		condition := c.in(0)
		if len(condition.Data) != 1 {
			return fmt.Errorf("the condition has %d elements", len(condition.Data))
		}
		b := branches[bit(condition.Data[0] != 0)]
		f := b.enter(c)
		defer b.leave(f)
		if err := f.performAll(); err != nil {
			return err
		}
		for i := range n.outputs {
			c.give(i, f.take(b.wanted[i]))
		}
		return nil
	}, nil
}

func branchOf(condition bool) string {
	if condition {
		return "then_branch"
	}
	return "else_branch"
}

// inline makes the nodes of a graph without inputs nodes of the graph that the node is in.
func inline(n *node, name string) error {
	p := n.graph(name)
	n.graph(branchOf(name != "then_branch"))
	if p == nil || len(p.inputs) > 0 || p.sparse || len(p.outputs) < len(n.outputs) {
		return fmt.Errorf("the node has no graph %s without inputs and with %d outputs", name, len(n.outputs))
	}
	b := *n.b
	b.outer, b.byName = n.b, make(map[string]int)
	err := b.initializers(p)
	if err == nil {
		err = b.allNodes(p.nodes)
	}
	if err == nil {
		n.same, err = b.named(p.outputs)
	}
	return err
}

// loop repeats a graph while a condition holds, so many times at most.
func loop(n *node) (kernel, error) {
	if len(n.in) < 2 {
		return nil, fmt.Errorf("%d inputs; 2 or more are expected", len(n.in))
	}
	if n.has(0) && n.typ(0) != tensor.Int64 || n.has(1) && n.typ(1) != tensor.Bool {
		return nil, errors.New("the count of iterations is no INT64, or the condition no BOOL")
	}
	count := len(n.in) - 2
	given := []variable{{plain, tensor.Int64}, {plain, tensor.Bool}}
	for i := range count {
		n.lists = append(n.lists, 2+i)
		given = append(given, n.variable(2+i))
	}
	b, err := bodyOf(n, "body", given...)
	if err != nil {
		return nil, err
	}
	if len(b.wanted) < 1+count || len(n.outputs) > len(b.wanted)-1 || b.output(0) != given[1] {
		return nil, fmt.Errorf("the body has %d outputs for a condition and %d values", len(b.wanted), count)
	}
	if err := loopOutputs(&n.results, b, given[2:], 1); err != nil {
		return nil, err
	}
	n.b.m.mixes, n.b.m.open = true, true
	return func(c *call) error {
		most, on, err := loopBounds(c)
		if err != nil {
			return err
		}
		r := b.begin(c, 2, count, 2, 1)
		defer b.leave(r.f)
		number, condition := tensor.Of("", tensor.Int64, []int64{}, []int64{0}), tensor.Of("", tensor.Bool, []int64{}, []uint8{1})
		r.f.set(b.given[0], datum{t: number})
		r.f.set(b.given[1], datum{t: condition})
		for i := int64(0); i < most && on; i++ {
			tensor.Values[int64](&number)[0] = i
			if err := r.run(); err != nil {
				return err
			}
			t := &r.f.tensors[b.wanted[0]]
			if len(t.Data) != 1 {
				return fmt.Errorf("the body's condition has %d elements", len(t.Data))
			}
			on = t.Data[0] != 0
		}
		return r.end(func(i int, s *pile, declared []int64) error { return s.lay(c, i, declared, false) })
	}, nil
}

// loopOutputs says what a loop's outputs are: its state, then what is kept of each iteration. The body's outputs from
// one on are the same.
func loopOutputs(rs *results, b *body, state []variable, from int) error {
	for i := from; i < len(b.wanted); i++ {
		v, k := b.output(i), i-from
		switch {
		case k < len(state) && v != state[k]:
			return fmt.Errorf("value %d of the loop begins as a %v; the body makes it a %v", k, state[k], v)
		case k >= len(state) && v.form != plain:
			return fmt.Errorf("output %d of the body is a %v; tensors are gathered", i, v)
		}
		rs.outputIs(k, v)
	}
	return nil
}

// loopBounds are how often a loop runs at most, and whether it begins.
func loopBounds(c *call) (most int64, on bool, err error) {
	most, on = math.MaxInt64, true
	if t := c.in(0); t != nil {
		if elements(t) != 1 {
			return 0, false, fmt.Errorf("the count of iterations has %d elements", elements(t))
		}
		most = tensor.Values[int64](t)[0]
	}
	if t := c.in(1); t != nil {
		if len(t.Data) != 1 {
			return 0, false, fmt.Errorf("the condition has %d elements", len(t.Data))
		}
		on = t.Data[0] != 0
	}
	return most, on, nil
}
