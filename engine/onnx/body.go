package onnx

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// Limits of what loops of one run do together.
const (
	maxIterations = 1 << 24
	maxLoopWork   = 1 << 38
	stepWork      = 64 // what a step of a loop's body counts at least
)

// body is a graph that a node runs: a branch, or what a loop repeats. It reads values of the
// graph around, which are further inputs of the node's step.
type body struct {
	graph
	outer    []int // values of the graph around
	inner    []int // what they are here
	at       int   // the first of them among the step's inputs
	declared []valueProto
}

// bodyOf makes the graph of an attribute, whose inputs are given.
func bodyOf(n *node, name string, given ...variable) (*body, error) {
	p := n.graph(name)
	if p == nil {
		return nil, fmt.Errorf("the node has no graph %s", name)
	}
	body := &body{declared: p.outputs}
	inside := &builder{
		construction: n.b.construction, g: &body.graph, body: body, outer: n.b, opsets: n.b.opsets,
		byName: make(map[string]int), within: n.b.within,
	}
	if err := inside.build(p, given); err != nil {
		return nil, fmt.Errorf("graph %s: %w", name, err)
	}
	n.b.m.bodies, n.bodies = true, true
	body.at = len(n.in)
	n.in = append(n.in, body.outer...)
	return body, nil
}

// build fills a body's graph.
func (b *builder) build(p *graphProto, given []variable) error {
	if p.sparse {
		return fmt.Errorf("sparse initializers are not supported; %s", wayOut)
	}
	if len(p.inputs) != len(given) {
		return fmt.Errorf("it has %d inputs; the node gives %d", len(p.inputs), len(given))
	}
	if err := b.initializers(p); err != nil {
		return err
	}
	for i, v := range p.inputs {
		if v.typ != tensor.Invalid && (variable{v.form, v.typ}) != given[i] {
			return fmt.Errorf("its input %q is declared as %v; the node gives %v", v.name, variable{v.form, v.typ}, given[i])
		}
		id, err := b.add(value{name: v.name, form: given[i].form, typ: given[i].typ, fromData: true, buffer: foreign})
		if err != nil {
			return err
		}
		b.g.given = append(b.g.given, id)
	}
	if err := b.allNodes(p.nodes); err != nil {
		return err
	}
	wanted, err := b.named(p.outputs)
	if err != nil {
		return err
	}
	for _, id := range wanted {
		b.g.keep(id)
	}
	b.g.wanted = wanted
	b.g.finish()
	return nil
}

// named finds the values of a graph's outputs.
func (b *builder) named(outputs []valueProto) ([]int, error) {
	ids := make([]int, len(outputs))
	for i, v := range outputs {
		id, ok, err := b.find(v.name)
		if err != nil {
			return nil, err
		}
		if !ok || id == absent {
			return nil, fmt.Errorf("no node computes its output %q", v.name)
		}
		ids[i] = id
	}
	return ids, nil
}

// find is the value of a name, of this graph or of those around. One of another graph becomes a value here.
func (b *builder) find(name string) (id int, ok bool, err error) {
	if id, ok := b.byName[name]; ok {
		return id, true, nil
	}
	if b.outer == nil {
		return 0, false, nil
	}
	id, ok, err = b.outer.find(name)
	if !ok || err != nil || b.outer.g == b.g || id == absent {
		return id, ok, err
	}
	from := &b.outer.g.values[id]
	here, err := b.add(value{name: name, form: from.form, typ: from.typ, constant: from.constant, labels: from.labels, fromData: from.fromData, buffer: foreign})
	if err == nil && from.constant == nil {
		b.body.outer, b.body.inner = append(b.body.outer, id), append(b.body.inner, here)
	}
	return here, true, err
}

// output is what is known of the body's output i.
func (b *body) output(i int) variable {
	v := &b.values[b.wanted[i]]
	return variable{v.form, v.typ}
}

// enter gives a frame for runs within a step.
func (b *body) enter(c *call) *frame {
	f, _ := b.frames.Get().(*frame)
	if f == nil {
		f = b.newFrame()
	}
	f.limits = c.f.limits
	f.held.buffers += f.kept // which the next check takes
	for i, id := range b.inner {
		f.set(id, c.datum(b.at+i))
	}
	return f
}

func (b *body) leave(f *frame) {
	f.held.buffers -= f.kept
	f.release()
	if f.kept <= keptBytes {
		b.frames.Put(f)
	}
}

// rounds are the iterations of a loop within a step.
type rounds struct {
	c             *call
	b             *body
	f             *frame
	given, wanted int     // the body's first inputs and outputs that are state
	state         []datum // what goes from one iteration to the next
	own           []bool  // the state is no memory of the graph around
	kept          []pile  // of the outputs after the state
	base, values  int64   // the budget, and what the run held, before
}

// begin starts a loop, whose first state are so many of the step's inputs from one on.
func (b *body) begin(c *call, from, count, given, wanted int) *rounds {
	r := &rounds{
		c: c, b: b, f: b.enter(c), given: given, wanted: wanted, state: make([]datum, count), own: make([]bool, count),
		kept: make([]pile, len(b.wanted)-wanted-count), base: c.f.budget, values: c.f.held.values,
	}
	for k := range r.state {
		r.state[k] = c.datum(from + k)
		r.f.set(b.given[given+k], r.state[k])
	}
	return r
}

// run is one iteration.
func (r *rounds) run() error {
	f := r.f
	before := f.budget
	if err := f.iterate(len(r.b.steps)); err != nil {
		return err
	}
	if err := f.performAll(); err != nil {
		return err
	}
	if err := f.charge(before - f.budget); err != nil {
		return err
	}
	return r.carry()
}

// iterate counts an iteration of a loop of so many steps, and asks whether the run may go on.
func (f *frame) iterate(steps int) error {
	if f.iterations--; f.iterations < 0 {
		return fmt.Errorf("the loops of one run make more than %d iterations", maxIterations)
	}
	return f.charge(stepWork * int64(1+steps))
}

// carry takes the iteration's outputs: the state of the next one, and what is kept.
func (r *rounds) carry() error {
	next := make([]datum, len(r.state)) // all are taken before one is set
	for k := range r.state {
		if !r.passes(k) {
			next[k] = r.f.take(r.b.wanted[r.wanted+k])
		}
	}
	held := int64(0)
	for k := range r.kept { // before the next state is set, which may be one of them
		if err := r.kept[k].push(&r.f.tensors[r.b.wanted[r.wanted+len(r.state)+k]]); err != nil {
			return fmt.Errorf("output %d: %w", len(r.state)+k, err)
		}
		held += 2 * r.kept[k].bytes()
	}
	for k := range r.state {
		if !r.passes(k) {
			r.state[k], r.own[k] = next[k], true
			r.f.set(r.b.given[r.given+k], next[k])
			held += next[k].bytes()
		}
	}
	if r.f.budget = r.base - held; r.f.budget < 0 {
		return errors.New("a loop's values take more memory than a run may have")
	}
	r.f.held.values = r.values + held
	return r.f.held.check()
}

// passes reports whether the body hands state k on as it is.
func (r *rounds) passes(k int) bool { return r.b.passes(r.wanted+k, r.given+k) }

// passes reports whether an output of the body is an input of it.
func (b *body) passes(output, input int) bool { return b.wanted[output] == b.given[input] }

// end gives the step its outputs: the state, then what was kept, which lay writes.
func (r *rounds) end(lay func(i int, s *pile, declared []int64) error) error {
	for k, d := range r.state {
		if !r.c.wants(k) {
			continue
		}
		if !r.own[k] {
			var err error
			if d.t, err = r.c.copyOf(&d.t); err != nil {
				return err
			}
		}
		r.c.give(k, d)
	}
	for k := range r.kept {
		i := len(r.state) + k
		if !r.c.wants(i) {
			continue
		}
		if err := lay(i, &r.kept[k], r.b.declared[r.wanted+i].shape); err != nil {
			return err
		}
	}
	return nil
}

// pile gathers tensors of one shape.
type pile struct {
	shape   []int64
	count   int64
	data    []byte
	strings [][]byte
}

func (s *pile) bytes() int64 { return int64(len(s.data)) + 24*int64(len(s.strings)) }

func (s *pile) push(t *tensor.Tensor) error {
	if s.count == 0 {
		s.shape = append([]int64{}, t.Shape...)
	} else if !slices.Equal(s.shape, t.Shape) {
		return fmt.Errorf("shape %v after one of %v", t.Shape, s.shape)
	}
	s.count++
	s.data, s.strings = append(s.data, t.Data...), append(s.strings, t.Strings...)
	return nil
}

// lay writes the gathered tensors to output i of a step, along a new first axis. Without any, their shape is
// the declared one, with 0 for what is not known.
func (s *pile) lay(c *call, i int, declared []int64, reversed bool) error {
	shape := s.shape
	if s.count == 0 {
		shape = make([]int64, len(declared))
		for d, size := range declared {
			shape[d] = max(size, 0)
		}
	}
	out, err := c.out(i, append([]int64{s.count}, shape...)...)
	if err != nil || s.count == 0 {
		return err
	}
	if !reversed {
		copy(out.Data, s.data)
		copy(out.Strings, s.strings)
		return nil
	}
	width, words := len(s.data)/int(s.count), len(s.strings)/int(s.count)
	for k := range int(s.count) {
		from := int(s.count) - 1 - k
		copy(out.Data[k*width:(k+1)*width], s.data[from*width:])
		copy(out.Strings[k*words:(k+1)*words], s.strings[from*words:])
	}
	return nil
}
