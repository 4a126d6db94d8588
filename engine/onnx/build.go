package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/tensor"
)

// Operator sets that the evaluator knows. Newer ones may give an operator another meaning.
const (
	minOpset, maxOpset     = 7, 28
	minOpsetML, maxOpsetML = 1, 5
	opsetMicrosoft         = 1
)

// domainML is the domain of the operators of classical machine learning.
const domainML = "ai.onnx.ml"

// domainMicrosoft is the domain of the operators that ONNX Runtime's optimizer and quantizer write.
const domainMicrosoft = "com.microsoft"

// builder turns a parsed graph into steps.
type builder struct {
	m      *Model
	opsets map[string]int64
	byName map[string]int // values

	folding frame // of the nodes that run at load
}

func build(p *modelProto) (*Model, error) {
	b := &builder{m: &Model{labels: make(map[string][]string)}, opsets: p.opsets, byName: make(map[string]int)}
	b.folding.budget, b.folding.work = maxTrialBytes, maxTrialWork
	if p.others != nil {
		return nil, fmt.Errorf("the model has %s, which are not supported; %s", strings.Join(p.others, " and "), wayOut)
	}
	for i := range p.graph.initializers {
		t := &p.graph.initializers[i]
		if _, err := b.add(value{name: t.name, typ: t.t.Type, constant: &t.t, buffer: foreign}); err != nil {
			return nil, err
		}
	}
	if err := b.inputs(p.graph.inputs); err != nil {
		return nil, err
	}
	for i := range p.graph.nodes {
		if err := b.node(&p.graph.nodes[i]); err != nil {
			return nil, err
		}
	}
	if err := b.outputs(p.graph.outputs); err != nil {
		return nil, err
	}
	b.prune()
	b.placeBuffers()
	b.m.learnShapes(p.graph.outputs)
	return b.m, nil
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

func (b *builder) add(v value) (int, error) {
	if v.name == "" {
		return 0, errors.New("a tensor of the graph has no name")
	}
	if _, taken := b.byName[v.name]; taken {
		return 0, fmt.Errorf("two tensors of the graph have the name %q", v.name)
	}
	if len(b.m.values) >= maxTensors {
		return 0, fmt.Errorf("the graph has more than %d tensors", maxTensors)
	}
	b.m.values = append(b.m.values, v)
	b.byName[v.name] = len(b.m.values) - 1
	return len(b.m.values) - 1, nil
}

// inputs adds the graph's inputs. Old files list initializers among them, as defaults.
func (b *builder) inputs(given []valueProto) error {
	for _, v := range given {
		if _, isInitializer := b.byName[v.name]; isInitializer {
			continue
		}
		if v.typ == tensor.Invalid {
			return fmt.Errorf("input %q is a %s; only tensors are supported; %s", v.name, orUntyped(v.other), wayOut)
		}
		if !v.ranked {
			return fmt.Errorf("input %q has no declared shape; export the model with the inputs' shapes", v.name)
		}
		id, err := b.add(value{name: v.name, typ: v.typ, buffer: foreign})
		if err != nil {
			return err
		}
		b.m.given = append(b.m.given, id)
		b.m.inputs = append(b.m.inputs, tensor.Spec{Name: v.name, Type: v.typ, Shape: v.shape})
	}
	if len(b.m.inputs) == 0 {
		return errors.New("the graph has no input")
	}
	return nil
}

func orUntyped(kind string) string {
	if kind == "" {
		return "value without a type"
	}
	return kind
}

func (b *builder) outputs(wanted []valueProto) error {
	for _, v := range wanted {
		id, ok := b.byName[v.name]
		if !ok {
			return fmt.Errorf("no node computes output %q", v.name)
		}
		if slices.Contains(b.m.wanted, id) {
			return fmt.Errorf("output %q is listed twice", v.name)
		}
		known := &b.m.values[id]
		if v.typ != tensor.Invalid && v.typ != known.typ {
			return fmt.Errorf("output %q is declared as %v, but its node gives %v", v.name, v.typ, known.typ)
		}
		if known.buffer != foreign {
			known.buffer = fresh
		}
		if known.labels != nil {
			b.m.labels[v.name] = known.labels
		}
		b.m.wanted = append(b.m.wanted, id)
		b.m.outputs = append(b.m.outputs, tensor.Spec{Name: v.name, Type: known.typ})
	}
	if len(b.m.wanted) == 0 {
		return errors.New("the graph has no output")
	}
	return nil
}

// node makes one step, or runs it at once where all its inputs are constants.
func (b *builder) node(p *nodeProto) error {
	n := &node{nodeProto: p, b: b, version: b.opsets[p.domain]}
	if _, known := b.opsets[p.domain]; !known {
		return fmt.Errorf("%s: the model imports no operator set of %s", n, domainName(p.domain))
	}
	construct, ok := operators[p.domain][p.op]
	if !ok {
		return fmt.Errorf("%s is not among the supported operators; %s", n, wayOut)
	}
	if err := n.checkOpset(); err != nil {
		return err
	}
	for _, name := range p.inputs {
		id, ok := b.byName[name]
		switch {
		case name == "":
			id = absent
		case !ok:
			return fmt.Errorf("%s takes %q, which no earlier node computes", n, name)
		}
		n.in = append(n.in, id)
	}
	n.types = make([]tensor.Type, len(p.outputs))
	run, err := construct(n)
	if err == nil {
		err = n.checkAttributes()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n, err)
	}
	if !slices.ContainsFunc(p.outputs, func(name string) bool { return name != "" }) {
		return nil // whatever it computes, nothing can read it
	}
	if n.alias && p.outputs[0] == "" {
		return fmt.Errorf("%s names no first output", n)
	}
	s := step{what: n.String(), run: run, in: n.in, alias: n.alias}
	for i, name := range p.outputs {
		if name == "" {
			s.out = append(s.out, absent)
			continue
		}
		if n.types[i] == tensor.Invalid {
			return fmt.Errorf("%s has no output %d", n, i)
		}
		v := value{name: name, typ: n.types[i]}
		if i == n.labelled {
			v.labels = n.labels
		}
		id, err := b.add(v)
		if err != nil {
			return err
		}
		s.out = append(s.out, id)
	}
	if n.constants() {
		return b.fold(s)
	}
	b.m.steps = append(b.m.steps, s)
	return nil
}

// constants reports whether the node's outputs are known at load.
func (n *node) constants() bool {
	return !slices.ContainsFunc(n.in, func(id int) bool { return id != absent && n.b.m.values[id].constant == nil })
}

// fold runs a step whose inputs are constants; its outputs become constants.
func (b *builder) fold(s step) error {
	for _, id := range s.out {
		if id != absent {
			b.m.values[id].buffer = fresh
		}
	}
	f := &b.folding
	f.model = b.m
	f.tensors = slices.Grow(f.tensors, len(b.m.values))[:len(b.m.values)]
	for _, id := range s.in {
		if id != absent {
			f.tensors[id] = *b.m.values[id].constant
		}
	}
	if err := f.perform(&s); err != nil {
		return err
	}
	for _, id := range s.out {
		if id == absent {
			continue
		}
		t := f.result(id)
		b.m.values[id].constant, b.m.values[id].buffer = &t, foreign
	}
	return nil
}

// prune drops the steps whose outputs nothing needs.
func (b *builder) prune() {
	needed := make([]bool, len(b.m.values))
	for _, id := range b.m.wanted {
		needed[id] = true
	}
	for i := len(b.m.steps) - 1; i >= 0; i-- {
		s := &b.m.steps[i]
		if !slices.ContainsFunc(s.out, func(id int) bool { return id != absent && needed[id] }) {
			b.m.steps = slices.Delete(b.m.steps, i, i+1)
			continue
		}
		for _, id := range s.in {
			if id != absent {
				needed[id] = true
			}
		}
	}
}

// placeBuffers gives the values that only steps use a memory each, which another
// value takes over after the last step that reads it.
func (b *builder) placeBuffers() {
	values := b.m.values
	root := make([]int, len(values)) // the value whose memory it is
	last := make([]int, len(values)) // the last step that reads the memory, by root
	for i := range root {
		root[i] = i
	}
	for i, s := range b.m.steps {
		for _, id := range s.in {
			if id != absent {
				last[root[id]] = i
			}
		}
		if s.alias && s.out[0] != absent && values[s.out[0]].buffer != fresh {
			root[s.out[0]] = root[s.in[0]]
		}
		for _, id := range s.out {
			if id != absent {
				last[root[id]] = max(last[root[id]], i)
			}
		}
	}
	var free []int
	for i, s := range b.m.steps {
		for _, id := range s.out {
			if id == absent || root[id] != id || values[id].buffer == fresh {
				continue
			}
			if len(free) == 0 {
				free = append(free, b.m.buffers)
				b.m.buffers++
			}
			values[id].buffer = free[len(free)-1]
			free = free[:len(free)-1]
		}
		freed := make(map[int]bool)
		for _, id := range slices.Concat(s.in, s.out) {
			if id == absent || last[root[id]] != i {
				continue
			}
			if buffer := values[root[id]].buffer; buffer >= 0 && !freed[buffer] {
				free, freed[buffer] = append(free, buffer), true
			}
		}
	}
}

// node is what an operator's constructor sees of a node.
type node struct {
	*nodeProto
	b       *builder
	version int64 // of the domain's operator set
	in      []int // values

	// What the constructor says.
	types    []tensor.Type // of the outputs
	alias    bool
	labels   []string // of the classes along the last axis of output labelled
	labelled int
	read     []string // attributes that it asked for
}

func (n *node) String() string {
	return fmt.Sprintf("node %q: operator %s of %s, set %d", n.name, n.op, domainName(n.domain), n.version)
}

// gives sets the types of the outputs, in order.
func (n *node) gives(types ...tensor.Type) { copy(n.types, types) }

// has reports whether the node names input i.
func (n *node) has(i int) bool { return i < len(n.in) && n.in[i] != absent }

// typ is the type of input i.
func (n *node) typ(i int) tensor.Type {
	if !n.has(i) {
		return tensor.Invalid
	}
	return n.b.m.values[n.in[i]].typ
}

// constant is input i where it is known at load, else nil.
func (n *node) constant(i int) *tensor.Tensor {
	if !n.has(i) {
		return nil
	}
	return n.b.m.values[n.in[i]].constant
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
func (n *node) labelsOf(i int) { n.labels, n.labelled = n.b.m.values[n.in[i]].labels, 0 }

func (n *node) attribute(name string) (attribute, bool) {
	n.read = append(n.read, name)
	a, ok := n.attributes[name]
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

func (n *node) tensor(name string) *tensor.Tensor { a, _ := n.attribute(name); return a.tensor }

// ignore names attributes that change no result.
func (n *node) ignore(names ...string) { n.read = append(n.read, names...) }

// checkAttributes refuses attributes that the constructor did not ask for: they would
// change what the operator means.
func (n *node) checkAttributes() error {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(n.attributes)) {
		if !slices.Contains(n.read, name) || n.attributes[name].foreign {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return fmt.Errorf("attribute %s is not supported; %s", strings.Join(unknown, ", "), wayOut)
	}
	return nil
}
