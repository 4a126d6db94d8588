package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// recurrent makes LSTM, GRU and RNN, in float32.
func recurrent(n *node) (kernel, error) {
	least, most := 3, 6
	if n.op == "LSTM" {
		most = 8
	}
	if err := n.takes(least, most); err != nil {
		return nil, err
	}
	for i := range n.in {
		switch {
		case i == 4 && n.has(i):
			if err := n.oneOf(i, tensor.Int32); err != nil {
				return nil, err
			}
		case n.has(i):
			if err := n.oneOf(i, tensor.Float32); err != nil {
				return nil, err
			}
		}
	}
	r, err := recurrenceOf(n)
	if err != nil {
		return nil, err
	}
	for i := range n.types {
		n.types[i] = tensor.Float32
	}
	for i, matrices := range []*[][]float32{&r.inputs, &r.states} {
		if t := n.constant(i + 1); t != nil && len(t.Shape) == 3 {
			*matrices = turnedEach(t)
		}
	}
	return r.run, nil
}

// recurrence is what a node says of its network, and its weights where they are known.
type recurrence struct {
	cell       cell
	gates      int // of a cell
	hidden     int
	backward   []bool // by direction
	batchFirst bool   // layout 1

	inputs, states [][]float32 // W and R by direction, turned: [inputs, gates*hidden], [hidden, gates*hidden]
}

// cell computes a step of one row.
type cell interface {
	// step replaces h, and c of an LSTM, by those after a step. x is the step's input times its weights with the biases
	// that may be added to it, as long as the gates; work is as long.
	step(w *cellWeights, x, h, c, work []float32)
	// biased adds what of the biases belongs to the products of the input.
	biased(to, bias []float32)
}

// cellWeights are one direction's. Biases and peepholes are nil where there are none.
type cellWeights struct {
	states    []float32 // [hidden, gates*hidden]
	bias      []float32 // of the inputs, then of the states
	peepholes []float32 // of the gates i, o, f
}

func recurrenceOf(n *node) (*recurrence, error) {
	r := &recurrence{hidden: int(n.integer("hidden_size", 0)), batchFirst: n.integer("layout", 0) != 0}
	switch d := n.str("direction", "forward"); d {
	case "forward":
		r.backward = []bool{false}
	case "reverse":
		r.backward = []bool{true}
	case "bidirectional":
		r.backward = []bool{false, true}
	default:
		return nil, fmt.Errorf("direction %q is unknown", d)
	}
	clip := float64(n.float("clip", 0))
	if clip < 0 {
		return nil, fmt.Errorf("clip is %g", clip)
	}
	functions, err := cellFunctions(n, len(r.backward))
	if err != nil {
		return nil, err
	}
	switch n.op {
	case "LSTM", "DynamicQuantizeLSTM":
		r.gates = 4
		r.cell = &lstm{functions, clip, n.integer("input_forget", 0) != 0}
	case "GRU":
		r.gates = 3
		r.cell = &gru{functions, clip, n.integer("linear_before_reset", 0) != 0}
	default:
		r.gates = 1
		r.cell = &rnn{functions, clip}
	}
	return r, nil
}

// cellFunctions are the activations of one direction; those of two directions are the same.
func cellFunctions(n *node, directions int) ([]func(x float32) float32, error) {
	usual := map[string][]string{"LSTM": {"Sigmoid", "Tanh", "Tanh"}, "DynamicQuantizeLSTM": {"Sigmoid", "Tanh", "Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "RNN": {"Tanh"}}[n.op]
	names := make([]string, 0, len(usual)*directions)
	for _, s := range n.strings("activations") {
		names = append(names, string(s))
	}
	if len(names) == 0 {
		for range directions {
			names = append(names, usual...)
		}
	}
	if len(names) != len(usual)*directions {
		return nil, fmt.Errorf("%d activations for %d directions", len(names), directions)
	}
	alphas, betas := n.floats("activation_alpha"), n.floats("activation_beta")
	var made []func(x float32) float32
	for i, name := range names {
		a, ok := activations[name]
		if !ok || !a.recurrently {
			return nil, fmt.Errorf("activation %q is not supported; %s", name, wayOut)
		}
		by := a.by
		if a.by[0] != 0 && len(alphas) > 0 { // lists have what the activations that take one take, in order
			by[0], alphas = alphas[0], alphas[1:]
		}
		if a.by[1] != 0 && len(betas) > 0 {
			by[1], betas = betas[0], betas[1:]
		}
		if i >= len(usual) {
			if name != names[i-len(usual)] {
				return nil, fmt.Errorf("activations %q of two directions differ, which is not supported; %s", names, wayOut)
			}
			continue
		}
		made = append(made, a.single(by))
	}
	return made, nil
}

// single is the activation of float32.
func (a *activation) single(by [2]float32) func(x float32) float32 {
	p, q := float64(by[0]), float64(by[1])
	return func(x float32) float32 { return float32(a.of(float64(x), p, q)) }
}

// turnedEach are the matrices of a tensor, turned.
func turnedEach(t *tensor.Tensor) [][]float32 {
	rows, columns := int(t.Shape[1]), int(t.Shape[2])
	values := tensor.Values[float32](t)
	var to [][]float32
	if len(values) == 0 {
		return nil
	}
	for d := range int(t.Shape[0]) {
		to = append(to, transposed(values[d*rows*columns:(d+1)*rows*columns], rows, columns))
	}
	return to
}

// unrolled is a recurrence over tensors of known shapes. States are in the order
// [directions, batch, hidden], whatever the layout.
type unrolled struct {
	*recurrence
	steps, batch, width int
	lengths             []int32 // by row of the batch; nil: all steps
}

func (r *recurrence) run(c *call) error {
	s, err := r.sequence(c, c.in(1).Shape, c.in(2).Shape)
	if err != nil {
		return err
	}
	y, err := s.output(c)
	if err != nil {
		return err
	}
	x := tensor.Values[float32](c.in(0))
	size := s.batch * s.hidden
	width := s.gates * s.hidden
	work := int64(s.steps) * int64(s.batch) * int64(width) * int64(s.width+s.hidden) * int64(len(s.backward))
	if err := c.f.charge(work / 4); err != nil {
		return err
	}
	// The products of the input of one direction, a row of gates to work with, and the states of all directions.
	memory, err := scratch[float32](c, s.steps*s.batch*width+width+2*size*len(s.backward))
	if err != nil {
		return err
	}
	products, memory := memory[:s.steps*s.batch*width], memory[s.steps*s.batch*width:]
	row, memory := memory[:width], memory[width:]
	h, cells := memory[:size*len(s.backward)], memory[size*len(s.backward):]
	s.initial(h, c.in(5))
	s.initial(cells, c.in(6))
	for d := range s.backward {
		w, inputs := s.weights(c, d)
		multiply32(products, x, inputs, s.steps*s.batch, s.width, width)
		for i := 0; w.bias != nil && i < len(products); i += width {
			s.cell.biased(products[i:i+width], w.bias)
		}
		for b := range s.batch {
			at := (d*s.batch + b) * s.hidden
			s.row(d, b, w, products, row, h[at:at+s.hidden], cells[at:at+s.hidden], y)
		}
	}
	if err := s.last(c, 1, h); err != nil {
		return err
	}
	return s.last(c, 2, cells)
}

// output is output 0, the states after all steps, where the graph names it.
func (s *unrolled) output(c *call) ([]float32, error) {
	if !c.wants(0) {
		return nil, nil
	}
	shape := []int64{int64(s.steps), int64(len(s.backward)), int64(s.batch), int64(s.hidden)}
	if s.batchFirst {
		shape = []int64{int64(s.batch), int64(s.steps), int64(len(s.backward)), int64(s.hidden)}
	}
	out, err := c.out(0, shape...)
	if err != nil {
		return nil, err
	}
	y := tensor.Values[float32](out)
	clear(y)
	return y, nil
}

// sequence checks the shapes of the inputs; w and u are those of the weights as LSTM has them.
func (r *recurrence) sequence(c *call, w, u []int64) (*unrolled, error) {
	x := c.in(0).Shape
	directions, rows := int64(len(r.backward)), int64(r.gates*r.hidden)
	if len(x) != 3 || len(w) != 3 || w[0] != directions || w[2] != x[2] || w[2] == 0 || w[1] == 0 || w[1]%int64(r.gates) != 0 {
		return nil, fmt.Errorf("weights of shape %v for an input of shape %v", w, x)
	}
	if rows == 0 { // hidden_size is left out
		known := *r
		known.hidden = int(w[1]) / r.gates
		return known.sequence(c, w, u)
	}
	if len(u) != 3 || w[1] != rows || u[0] != directions || u[1] != rows || u[2] != int64(r.hidden) {
		return nil, fmt.Errorf("weights of shapes %v and %v for a hidden size of %d", w, u, r.hidden)
	}
	s := &unrolled{recurrence: r, steps: int(x[0]), batch: int(x[1]), width: int(x[2])}
	if r.batchFirst {
		s.steps, s.batch = s.batch, s.steps
	}
	if _, err := tensor.Elements([]int64{max(1, x[0]), max(1, x[1]), rows}, c.f.budget/4); err != nil {
		return nil, fmt.Errorf("%d gates for each step of shape %v are too many: %w", rows, x, err)
	}
	states := []int64{directions, int64(s.batch), int64(r.hidden)}
	if r.batchFirst {
		states[0], states[1] = states[1], states[0]
	}
	for i, want := range map[int][]int64{3: {directions, 2 * rows}, 4: {int64(s.batch)}, 5: states, 6: states, 7: {directions, 3 * int64(r.hidden)}} {
		if t := c.in(i); t != nil && !slices.Equal(t.Shape, want) {
			return nil, fmt.Errorf("input %d has shape %v; %v is expected", i, t.Shape, want)
		}
	}
	if t := c.in(4); t != nil {
		s.lengths = tensor.Values[int32](t)
		for _, n := range s.lengths {
			if n < 0 || int(n) > s.steps {
				return nil, fmt.Errorf("a sequence of %d steps of %d", n, s.steps)
			}
		}
	}
	return s, nil
}

// initial fills states with what an input gives, or zeros.
func (s *unrolled) initial(to []float32, t *tensor.Tensor) {
	clear(to)
	if t == nil {
		return
	}
	from := tensor.Values[float32](t)
	for d := range s.backward {
		for b := range s.batch {
			copy(to[s.state(d, b, false):][:s.hidden], from[s.state(d, b, s.batchFirst):])
		}
	}
}

// state is where a state begins.
func (s *unrolled) state(d, b int, batchFirst bool) int {
	if batchFirst {
		return (b*len(s.backward) + d) * s.hidden
	}
	return (d*s.batch + b) * s.hidden
}

// last gives an output the states after the last step.
func (s *unrolled) last(c *call, i int, states []float32) error {
	if !c.wants(i) {
		return nil
	}
	shape := []int64{int64(len(s.backward)), int64(s.batch), int64(s.hidden)}
	if s.batchFirst {
		shape[0], shape[1] = shape[1], shape[0]
	}
	out, err := c.out(i, shape...)
	if err != nil {
		return err
	}
	to := tensor.Values[float32](out)
	for d := range s.backward {
		for b := range s.batch {
			copy(to[s.state(d, b, s.batchFirst):][:s.hidden], states[s.state(d, b, false):])
		}
	}
	return nil
}

// weights are those of a direction, and those of its input.
func (s *unrolled) weights(c *call, d int) (w *cellWeights, inputs []float32) {
	of := func(known [][]float32, i int) []float32 {
		if known == nil {
			known = turnedEach(c.in(i))
		}
		return known[d]
	}
	w = s.extras(c, d)
	w.states = of(s.states, 2)
	return w, of(s.inputs, 1)
}

// extras are the biases and peepholes of a direction.
func (s *unrolled) extras(c *call, d int) *cellWeights {
	w := new(cellWeights)
	if t := c.in(3); t != nil {
		width := 2 * s.gates * s.hidden
		w.bias = tensor.Values[float32](t)[d*width : (d+1)*width]
	}
	if t := c.in(7); t != nil {
		w.peepholes = tensor.Values[float32](t)[d*3*s.hidden : (d+1)*3*s.hidden]
	}
	return w
}

// place is where step t of a row stands among the products, and among what output 0 has of a direction.
func (s *unrolled) place(t, d, b int) (at, to int) {
	if s.batchFirst {
		return b*s.steps + t, ((b*s.steps+t)*len(s.backward) + d) * s.hidden
	}
	return t*s.batch + b, ((t*len(s.backward)+d)*s.batch + b) * s.hidden
}

// row runs the steps of one row of the batch in one direction.
func (s *unrolled) row(d, b int, w *cellWeights, products, work, h, c, y []float32) {
	steps, width := s.steps, s.gates*s.hidden
	if s.lengths != nil {
		steps = int(s.lengths[b])
		if steps == 0 { // as ONNX Runtime has it
			clear(h)
			clear(c)
		}
	}
	for i := range steps {
		t := i
		if s.backward[d] {
			t = steps - 1 - i
		}
		at, to := s.place(t, d, b)
		s.cell.step(w, products[at*width:(at+1)*width], h, c, work)
		if y != nil {
			copy(y[to:to+s.hidden], h)
		}
	}
}
