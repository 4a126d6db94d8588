package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/tensor"
)

// node is what an operator's constructor sees of a node.
type node struct {
	*nodeProto
	b       *builder
	version int64 // of the domain's operator set
	in      []int // values
	given   map[string]attribute

	// What the constructor says.
	types    []tensor.Type // of the outputs, or of their elements
	forms    []form
	alias    bool
	bodies   bool     // it runs graphs
	same     []int    // the outputs are these values; nil: the step computes them
	parts    []int    // the values that output 0, a sequence, is made of
	lists    []int    // the inputs that it takes as sequences or optional values
	labels   []string // of the classes along the last axis of output labelled
	labelled int
	read     []string // attributes that it asked for
	special  []string // attributes that it asked for as graphs or types
}

func (n *node) String() string {
	return fmt.Sprintf("node %q: operator %s of %s, set %d", n.name, n.op, domainName(n.domain), n.version)
}

// gives sets the types of the outputs, in order.
func (n *node) gives(types ...tensor.Type) { copy(n.types, types) }

// has reports whether the node names input i.
func (n *node) has(i int) bool { return i >= 0 && i < len(n.in) && n.in[i] != absent }

// typ is the type of input i.
func (n *node) typ(i int) tensor.Type {
	if !n.has(i) {
		return tensor.Invalid
	}
	if v := &n.b.g.values[n.in[i]]; v.form == plain {
		return v.typ
	}
	return tensor.Invalid
}

// constant is input i where it is known at load, else nil.
func (n *node) constant(i int) *tensor.Tensor {
	if !n.has(i) {
		return nil
	}
	return n.b.g.values[n.in[i]].constant
}

// takes checks how many inputs the node has.
func (n *node) takes(least, most int) error {
	if len(n.in) < least || len(n.in) > most {
		return fmt.Errorf("%d inputs; %d to %d are expected", len(n.in), least, most)
	}
	for i := range least {
		if !n.has(i) {
			return fmt.Errorf("input %d is left out", i)
		}
	}
	return nil
}

// oneOf checks the type of input i.
func (n *node) oneOf(i int, types ...tensor.Type) error {
	if !slices.Contains(types, n.typ(i)) {
		return fmt.Errorf("input %d is %v, which is not supported here; %s", i, n.typ(i), wayOut)
	}
	return nil
}

// labelsOf takes over the classes' names of an input whose last axis the output keeps.
func (n *node) labelsOf(i int) { n.labels, n.labelled = n.b.g.values[n.in[i]].labels, 0 }

func (n *node) attribute(name string) (attribute, bool) {
	n.read = append(n.read, name)
	a, ok := n.given[name]
	return a, ok
}

func (n *node) integer(name string, otherwise int64) int64 {
	if a, ok := n.attribute(name); ok {
		return a.i
	}
	return otherwise
}

func (n *node) float(name string, otherwise float32) float32 {
	if a, ok := n.attribute(name); ok {
		return a.f
	}
	return otherwise
}

func (n *node) str(name, otherwise string) string {
	if a, ok := n.attribute(name); ok {
		return string(a.s)
	}
	return otherwise
}

func (n *node) integers(name string) []int64 { a, _ := n.attribute(name); return a.ints }

func (n *node) floats(name string) []float32 { a, _ := n.attribute(name); return a.floats }

func (n *node) strings(name string) [][]byte { a, _ := n.attribute(name); return clones(a.strings) }

// clones copies strings out of the file's bytes, into one memory.
func clones(from [][]byte) [][]byte {
	if len(from) == 0 {
		return nil
	}
	size := 0
	for _, s := range from {
		size += len(s)
	}
	memory := make([]byte, 0, size)
	to := make([][]byte, len(from))
	for i, s := range from {
		start := len(memory)
		memory = append(memory, s...)
		to[i] = memory[start:len(memory):len(memory)]
	}
	return to
}

func (n *node) graph(name string) *graphProto {
	a, _ := n.attribute(name)
	n.special = append(n.special, name)
	return a.graph
}

func (n *node) valueType(name string) *valueProto {
	a, _ := n.attribute(name)
	n.special = append(n.special, name)
	return a.value
}

func (n *node) tensor(name string) *tensor.Tensor { a, _ := n.attribute(name); return a.tensor }

// ignore names attributes that change no result.
func (n *node) ignore(names ...string) { n.read = append(n.read, names...) }

// checkAttributes refuses attributes that the constructor did not ask for: they would
// change what the operator means.
func (n *node) checkAttributes() error {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(n.given)) {
		if a := n.given[name]; !slices.Contains(n.read, name) || a.foreign || a.refers != "" || (a.graph != nil || a.value != nil) && !slices.Contains(n.special, name) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return fmt.Errorf("attribute %s is not supported; %s", strings.Join(unknown, ", "), wayOut)
	}
	return nil
}

// checkOpset checks the node's operator set. Files import old sets of domains that
// they do not use.
func (n *node) checkOpset() error {
	least, most := int64(minOpset), int64(maxOpset)
	switch n.domain {
	case domainML:
		least, most = minOpsetML, maxOpsetML
	case domainMicrosoft:
		least, most = opsetMicrosoft, opsetMicrosoft
	}
	if n.version < least || n.version > most {
		return fmt.Errorf("%s: sets %d to %d are supported; %s", n, least, most, wayOut)
	}
	return nil
}

func domainName(domain string) string {
	if domain == "" {
		return "ai.onnx"
	}
	return domain
}

// constructor finds what makes the node's kernel.
func (n *node) constructor() (constructor, error) {
	if _, known := n.b.opsets[n.domain]; !known {
		return nil, fmt.Errorf("%s: the model imports no operator set of %s", n, domainName(n.domain))
	}
	construct, ok := operators[n.domain][n.op]
	if !ok {
		return nil, fmt.Errorf("%s is not among the supported operators; %s", n, wayOut)
	}
	return construct, n.checkOpset()
}

// resolve finds the node's inputs, and the attributes that stand in a function's call.
func (n *node) resolve() error {
	n.given = n.attributes
	if n.b.within != nil {
		n.given = n.b.within.attributesOf(n.nodeProto)
	}
	for _, name := range n.inputs {
		id := absent
		if name != "" {
			var ok bool
			var err error
			if id, ok, err = n.b.find(name); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			if !ok {
				return fmt.Errorf("%s takes %q, which no earlier node computes", n, name)
			}
		}
		n.in = append(n.in, id)
	}
	return nil
}

// constants reports whether the node's outputs are known at load.
func (n *node) constants() bool {
	return !slices.ContainsFunc(n.in, func(id int) bool { return id != absent && n.b.g.values[id].constant == nil })
}

// sizing are the inputs that say how large an output becomes, by operator.
var sizing = map[string][]int{
	"ConstantOfShape": {0}, "Range": {0, 1, 2}, "Expand": {1}, "Tile": {1}, "Pad": {1}, "OneHot": {1}, "Resize": {1, 2, 3}, "Upsample": {1},
}

// isOpen reports whether what the model's inputs hold says how large an output becomes.
func (n *node) isOpen() bool {
	return slices.ContainsFunc(sizing[n.op], func(i int) bool {
		return n.has(i) && n.constant(i) == nil && n.b.g.values[n.in[i]].fromData
	})
}

// isFromData reports whether the outputs follow from what the model's inputs hold. Shapes do not.
func (n *node) isFromData() bool {
	if n.op == "Shape" || n.op == "Size" {
		return false
	}
	return n.bodies || slices.ContainsFunc(n.in, func(id int) bool { return id != absent && n.b.g.values[id].fromData })
}
