package onnx

import (
	"fmt"
	"maps"
	"slices"
)

// functionName is what a node calls a function by.
type functionName struct{ domain, op, overload string }

// functionProto is FunctionProto: nodes that stand for a call.
type functionProto struct {
	inputs, outputs []string
	defaults        map[string]attribute
	nodes           []nodeProto
	opsets          map[string]int64
}

const maxFunctions = 1 << 12

// function reads one of the model's functions.
func (p *modelProto) function(data []byte) error {
	var name functionName
	f := &functionProto{opsets: make(map[string]int64), defaults: make(map[string]attribute)}
	m := read("FunctionProto", data)
	for m.next() {
		var err error
		switch m.number {
		case 1:
			name.op = m.text()
		case 4:
			f.inputs = append(f.inputs, m.text())
		case 5:
			f.outputs = append(f.outputs, m.text())
		case 7:
			var n nodeProto
			n, err = parseNode(m.content(), 0)
			f.nodes = append(f.nodes, n)
		case 9:
			err = addOpset(f.opsets, m.content())
		case 10:
			name.domain = standard(m.text())
		case 11:
			attribute, a, fault := parseAttribute(m.content(), 0)
			f.defaults[attribute], err = a, fault
		case 13:
			name.overload = m.text()
		}
		if err != nil {
			return fmt.Errorf("function %q: %w", name.op, err)
		}
		if len(f.inputs) > maxNames || len(f.outputs) > maxNames || len(f.nodes) > maxNodes || len(f.defaults) > maxAttributes {
			return fmt.Errorf("function %q has more than %d inputs or outputs, %d nodes or %d attributes",
				name.op, maxNames, maxNodes, maxAttributes)
		}
	}
	if p.functions == nil {
		p.functions = make(map[functionName]*functionProto)
	}
	if len(p.functions) >= maxFunctions {
		return fmt.Errorf("the model has more than %d functions", maxFunctions)
	}
	p.functions[name] = f
	return m.err
}

// calling is a call of a function, within which its nodes are built.
type calling struct {
	name       functionName
	attributes map[string]attribute // of the call, and the function's own where the call has none
	outer      *calling
}

// call builds a function's nodes in the place of a node that calls it.
func (b *builder) call(n *node, f *functionProto) error {
	name, depth := functionName{n.domain, n.op, n.overload}, 0
	for c := b.within; c != nil; c = c.outer {
		if depth++; c.name == name || depth >= maxNesting {
			return fmt.Errorf("%s: the function calls itself, or functions call one another more than %d deep", n, maxNesting)
		}
	}
	if len(n.in) > len(f.inputs) || len(n.outputs) > len(f.outputs) {
		return fmt.Errorf("%s: %d inputs and %d outputs; the function has %d and %d", n, len(n.in), len(n.outputs), len(f.inputs), len(f.outputs))
	}
	attributes := maps.Clone(f.defaults)
	maps.Copy(attributes, n.given)
	inside := *b
	inside.outer, inside.byName, inside.within = nil, make(map[string]int), &calling{name, attributes, b.within}
	if len(f.opsets) > 0 {
		inside.opsets = f.opsets
	}
	for i, input := range f.inputs {
		id := absent
		if n.has(i) {
			id = n.in[i]
		}
		if err := inside.bind(input, id); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	if err := inside.allNodes(f.nodes); err != nil {
		return fmt.Errorf("%s: %w", n, err)
	}
	for _, output := range f.outputs[:len(n.outputs)] {
		id, ok, err := inside.find(output)
		if err != nil {
			return err
		}
		if !ok {
			id = absent
		}
		n.same = append(n.same, id)
	}
	return b.rename(n)
}

// attributesOf are a node's attributes, where it takes the call's for its own. One that the call leaves out is left out.
func (c *calling) attributesOf(n *nodeProto) map[string]attribute {
	refers := func(a attribute) bool { return a.refers != "" }
	if !slices.ContainsFunc(slices.Collect(maps.Values(n.attributes)), refers) {
		return n.attributes
	}
	found := make(map[string]attribute)
	for name, a := range n.attributes {
		ok := true
		if refers(a) {
			a, ok = c.attributes[a.refers]
		}
		if ok {
			found[name] = a
		}
	}
	return found
}
