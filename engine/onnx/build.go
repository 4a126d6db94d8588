package onnx

import (
	"errors"
	"fmt"
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

// construction is what the builders of one model share.
type construction struct {
	m         *Model
	functions map[functionName]*functionProto
	nodes     int   // so far, of all graphs and of functions wherever they are called
	tensors   int   // as well
	folding   frame // of the nodes that run at load

	pads         []string   // what fills rows of tokens
	vocabularies [][]string // words that are counted
}

// builder turns a parsed graph, or a part of one that has names of its own, into steps.
type builder struct {
	*construction
	g      *graph
	body   *body    // that g is the graph of; nil: it is the model's
	outer  *builder // whose values are seen here; nil: none
	opsets map[string]int64
	byName map[string]int // values
	within *calling       // the function that is called; nil: none
}

func build(p *modelProto) (*Model, error) {
	if p.others != nil {
		return nil, fmt.Errorf("the model has %s, which are not supported; %s", strings.Join(p.others, " and "), wayOut)
	}
	m := &Model{labels: make(map[string][]string)}
	b := &builder{construction: &construction{m: m, functions: p.functions}, g: &m.graph, opsets: p.opsets, byName: make(map[string]int)}
	b.folding.limits = &b.folding.own
	b.folding.own = limits{budget: maxTrialBytes, work: maxTrialWork, iterations: maxIterations}
	if err := b.initializers(&p.graph); err != nil {
		return nil, err
	}
	if err := b.inputs(p.graph.inputs); err != nil {
		return nil, err
	}
	if err := b.allNodes(p.graph.nodes); err != nil {
		return nil, err
	}
	declared, err := b.outputs(p.graph.outputs)
	if err != nil {
		return nil, err
	}
	b.g.finish()
	m.mixes = m.mixes || b.padsCount()
	m.learnShapes(declared)
	return m, nil
}

// padsCount reports whether what fills rows of tokens, as many as the longest row of all has, may count for something.
func (b *builder) padsCount() bool {
	isPad := func(word string) bool { return slices.Contains(b.pads, word) }
	return len(b.pads) > 0 && (len(b.vocabularies) == 0 ||
		slices.ContainsFunc(b.vocabularies, func(words []string) bool { return slices.ContainsFunc(words, isPad) }))
}

func (b *builder) initializers(p *graphProto) error {
	for i := range p.initializers {
		t := &p.initializers[i]
		if _, err := b.add(value{name: t.name, typ: t.t.Type, constant: &t.t, buffer: foreign}); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) allNodes(list []nodeProto) error {
	for _, i := range orderOf(list) {
		if b.nodes++; b.nodes > maxNodes {
			return fmt.Errorf("the model has more than %d nodes, with those of its functions wherever they are called", maxNodes)
		}
		if err := b.node(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// add makes a value of the graph and binds its name.
func (b *builder) add(v value) (int, error) {
	if v.name == "" {
		return 0, errors.New("a tensor of the graph has no name")
	}
	if b.tensors++; b.tensors > maxTensors {
		return 0, fmt.Errorf("the model has more than %d tensors", maxTensors)
	}
	b.g.values = append(b.g.values, v)
	id := len(b.g.values) - 1
	return id, b.bind(v.name, id)
}

// bind gives a value a name that is seen here and in the graphs within.
func (b *builder) bind(name string, id int) error {
	if _, taken := b.byName[name]; taken {
		return fmt.Errorf("two tensors of the graph have the name %q", name)
	}
	b.byName[name] = id
	return nil
}

// inputs adds the graph's inputs. Old files list initializers among them, as defaults.
func (b *builder) inputs(given []valueProto) error {
	for _, v := range given {
		if _, isInitializer := b.byName[v.name]; isInitializer {
			continue
		}
		if v.typ == tensor.Invalid || v.form != plain {
			return fmt.Errorf("input %q is a %s; only tensors are supported; %s", v.name, v.kind(), wayOut)
		}
		if !v.ranked {
			return fmt.Errorf("input %q has no declared shape; export the model with the inputs' shapes", v.name)
		}
		id, err := b.add(value{name: v.name, typ: v.typ, fromData: true, buffer: foreign})
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

// kind names what a value is, for errors.
func (v *valueProto) kind() string {
	switch {
	case v.other != "":
		return v.other
	case v.form != plain:
		return v.form.String()
	}
	return "value without a type"
}

// outputs are the graph's, as declared: a sequence whose tensors are known one by one is as many outputs.
func (b *builder) outputs(wanted []valueProto) (declared []valueProto, err error) {
	seen := make(map[string]bool)
	for _, v := range wanted {
		id, ok := b.byName[v.name]
		if !ok {
			return nil, fmt.Errorf("no node computes output %q", v.name)
		}
		if seen[v.name] {
			return nil, fmt.Errorf("output %q is listed twice", v.name)
		}
		seen[v.name] = true
		known := &b.g.values[id]
		switch {
		case v.typ != tensor.Invalid && v.typ != known.typ:
			return nil, fmt.Errorf("output %q is declared as %v, but its node gives %v", v.name, v.typ, known.typ)
		case known.form == plain:
			declared = append(declared, v)
			b.want(v.name, id)
		case known.parts == nil:
			return nil, fmt.Errorf("output %q is a %v whose length only a run tells; tensors, and what SequenceConstruct makes, are supported", v.name, known.form)
		}
		for i, part := range known.parts {
			declared = append(declared, valueProto{})
			b.want(fmt.Sprintf("%s/%d", v.name, i), part)
		}
	}
	if len(b.g.wanted) == 0 {
		return nil, errors.New("the graph has no output")
	}
	return declared, nil
}

// want makes a value an output of the model.
func (b *builder) want(name string, id int) {
	v := &b.g.values[id]
	b.g.keep(id)
	if v.labels != nil {
		b.m.labels[name] = v.labels
	}
	b.g.wanted = append(b.g.wanted, id)
	b.m.outputs = append(b.m.outputs, tensor.Spec{Name: name, Type: v.typ})
}

// node makes one step, or runs it at once where all its inputs are constants. A call of a function is its nodes.
func (b *builder) node(p *nodeProto) error {
	n := &node{nodeProto: p, operands: operands{b: b}, version: b.opsets[p.domain]}
	if err := n.resolve(); err != nil {
		return err
	}
	if f := b.functions[functionName{p.domain, p.op, p.overload}]; f != nil {
		return b.call(n, f)
	}
	construct, err := n.constructor()
	if err != nil {
		return err
	}
	wide, err := b.widen(n)
	if err != nil {
		return fmt.Errorf("%s: %w", n, err)
	}
	n.types, n.forms = make([]tensor.Type, len(p.outputs)), make([]form, len(p.outputs))
	run, err := construct(n)
	if err == nil {
		err = n.checkAttributes()
	}
	if err == nil {
		err = n.checkForms()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n, err)
	}
	if n.same != nil {
		return b.rename(n)
	}
	if !slices.ContainsFunc(p.outputs, func(name string) bool { return name != "" }) {
		return nil // whatever it computes, nothing can read it
	}
	if n.alias && p.outputs[0] == "" {
		return fmt.Errorf("%s names no first output", n)
	}
	if wide {
		return b.narrow(n, run)
	}
	return b.step(n, run)
}

// rename makes the node's outputs names of values that are there.
func (b *builder) rename(n *node) error {
	for i, name := range n.outputs {
		if name == "" {
			continue
		}
		if i >= len(n.same) || n.same[i] == absent {
			return fmt.Errorf("%s has no output %d", n, i)
		}
		if err := b.bind(name, n.same[i]); err != nil {
			return err
		}
	}
	return nil
}

// step adds the node's step to the graph.
func (b *builder) step(n *node, run kernel) error {
	s := step{what: n.String(), run: run, in: n.in, alias: n.alias}
	b.m.open = b.m.open || n.isOpen()
	foldable := !n.bodies && n.constants()
	for i, name := range n.outputs {
		if name == "" {
			s.out = append(s.out, absent)
			continue
		}
		if n.types[i] == tensor.Invalid {
			return fmt.Errorf("%s has no output %d", n, i)
		}
		foldable = foldable && n.forms[i] == plain
		v := value{name: name, typ: n.types[i], form: n.forms[i], fromData: n.isFromData()}
		if i == n.labelled {
			v.labels = n.labels
		}
		if i == 0 {
			v.parts = n.parts
		}
		id, err := b.add(v)
		if err != nil {
			return err
		}
		s.out = append(s.out, id)
	}
	if foldable {
		return b.fold(s)
	}
	b.g.steps = append(b.g.steps, s)
	return nil
}

// fold runs a step whose inputs are constants; its outputs become constants.
func (b *builder) fold(s step) error {
	values := b.g.values
	for _, id := range s.out {
		if id != absent {
			values[id].buffer = fresh
		}
	}
	f := &b.folding
	if f.graph != b.g {
		f.graph, f.tensors = b.g, nil
	}
	f.tensors = slices.Grow(f.tensors, max(0, len(values)-len(f.tensors)))[:len(values)]
	for _, id := range s.in {
		if id != absent {
			f.tensors[id] = *values[id].constant
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
		values[id].constant, values[id].buffer = &t, foreign
	}
	return nil
}
