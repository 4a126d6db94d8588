package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// node is one node of a graph while it is turned into a step: what it takes, what it is told, and what its constructor says of its outputs.
type node struct {
	*nodeProto
	operands
	attributeReader
	results
	version int64 // of the domain's operator set
	bodies  bool  // it runs graphs
}

// results are what a constructor says of a node's outputs.
type results struct {
	types    []tensor.Type // of the outputs, or of their elements
	forms    []form
	alias    bool
	same     []int    // the outputs are these values; nil: the step computes them
	parts    []int    // the values that output 0, a sequence, is made of
	labels   []string // of the classes along the last axis of output labelled
	labelled int
}

func (n *node) String() string {
	return fmt.Sprintf("node %q: operator %s of %s, set %d", n.name, n.op, domainName(n.domain), n.version)
}

// gives sets the types of the outputs, in order.
func (rs *results) gives(types ...tensor.Type) { copy(rs.types, types) }

// labelsOf takes over the classes' names of an input whose last axis the output keeps.
func (n *node) labelsOf(i int) { n.labels, n.labelled = n.b.g.values[n.in[i]].labels, 0 }

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
