package onnx

import (
	"slices"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// Tensors of float16 are kept as such and computed in float32, as ONNX Runtime does on CPUs: in front of a node stands the conversion of its
// inputs, which runs at load for weights, and behind it that of its outputs. What a node has computed goes to the next one without being
// rounded between; a Cast rounds, and so does an output of the graph.

// Names of the values that a node's conversions make. The zero byte keeps them apart from those of files.
const (
	wideSuffix  = "\x00float32" // in float32 as a node has computed it, or converted where no node has
	exactSuffix = "\x00rounded" // converted from what float16 keeps of it
)

// keepsHalf are operators that take float16 as it is: they do not look at elements, have graphs of their own, or round.
var keepsHalf = []string{
	"Cast", "CastLike", "Constant", "Identity", "If", "Loop", "Scan", "Shape", "Size", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
	"SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement",
}

// widen gives the node its inputs of float16 in float32, and reports whether it has any.
func (b *builder) widen(n *node) (bool, error) {
	if slices.Contains(keepsHalf, n.op) {
		return false, nil
	}
	wide := false
	n.in = slices.Clone(n.in)
	for i := range n.in {
		if n.typ(i) != tensor.Float16 {
			continue
		}
		wide = true
		id, ok := b.g.wide[n.in[i]]
		if !ok {
			var err error
			if id, err = b.converted(n, i, tensor.Float32, wideSuffix); err != nil {
				return false, err
			}
			b.g.keepWide(n.in[i], id)
		}
		n.in[i] = id
	}
	return wide, nil
}

// castOf is a node that casts one value of another node.
func (b *builder) castOf(n *node, id int, from, to string) *node {
	return &node{
		nodeProto: &nodeProto{name: n.name, op: "Cast", inputs: []string{from}, outputs: []string{to}},
		operands:  operands{b: b, in: []int{id}}, results: results{types: make([]tensor.Type, 1), forms: make([]form, 1)},
	}
}

// converted is input i of a node in another type, by a step of its own.
func (b *builder) converted(n *node, i int, to tensor.Type, suffix string) (int, error) {
	name := n.inputs[i] + suffix
	if id, ok := b.byName[name]; ok {
		return id, nil
	}
	c := b.castOf(n, n.in[i], n.inputs[i], name)
	run, err := castTo(c, to)
	if err == nil {
		err = b.step(c, run)
	}
	return b.byName[name], err
}

// narrow makes the node's outputs of float32 those of float16: the step gives the former, and conversions behind it the latter.
func (b *builder) narrow(n *node, run kernel) error {
	names := n.outputs
	inner := *n.nodeProto
	inner.outputs = slices.Clone(names)
	n.nodeProto = &inner
	var halves []int
	for i, name := range names {
		if name != "" && n.types[i] == tensor.Float32 && n.forms[i] == plain && !keepsStatistics(n, i) {
			inner.outputs[i] += wideSuffix
			halves = append(halves, i)
		}
	}
	if err := b.step(n, run); err != nil {
		return err
	}
	for _, i := range halves {
		wide := b.byName[inner.outputs[i]]
		c := b.castOf(n, wide, inner.outputs[i], names[i])
		round, err := castTo(c, tensor.Float16)
		if err == nil {
			err = b.step(c, round)
		}
		if err != nil {
			return err
		}
		b.g.keepWide(b.byName[names[i]], wide)
	}
	return nil
}

// keepWide remembers in which value a tensor of float16 stands in float32.
func (g *graph) keepWide(half, wide int) {
	if g.wide == nil {
		g.wide = make(map[int]int)
	}
	g.wide[half] = wide
}

// castHalf converts from or to float16. Other types than float32 go by way of it.
func castHalf(n *node, from, to tensor.Type) (kernel, error) {
	switch {
	case from == tensor.Float32:
		return each(vector.F32ToF16), nil
	case to == tensor.Float32:
		return each(vector.F16ToF32), nil
	}
	id, err := n.b.converted(n, 0, tensor.Float32, exactSuffix)
	if err != nil {
		return nil, err
	}
	n.in = []int{id}
	if to == tensor.Float16 {
		return each(vector.F32ToF16), nil
	}
	return castTo(n, to)
}

// keepsStatistics reports whether output i is a mean or a deviation, which normalizations give in float32 whatever they take.
func keepsStatistics(n *node, i int) bool {
	a, given := n.given["stash_type"]
	return i > 0 && (n.op == "LayerNormalization" || n.op == "SkipLayerNormalization") && (!given || a.i == 1)
}
