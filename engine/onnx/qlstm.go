package onnx

import (
	"fmt"

	"weir/internal/tensor"
)

// byteLSTM is DynamicQuantizeLSTM: an LSTM whose weights are bytes. The whole input, and the states of all rows at each step, are quantized
// by one scale that is found in them.
type byteLSTM struct {
	*recurrence
	lstm                   *lstm
	inputBytes, stateBytes [][]float32 // W and R by direction less their zero points, where they are known at load
}

// The node's inputs beside those of LSTM.
const (
	inputScale = 8 + iota
	inputZero
	stateScale
	stateZero
)

func quantizedLSTM(n *node) (kernel, error) {
	if err := n.takes(3, 12); err != nil {
		return nil, err
	}
	for _, i := range []int{inputScale, inputZero, stateScale, stateZero} {
		if !n.has(i) {
			return nil, fmt.Errorf("input %d is left out", i)
		}
	}
	if n.has(4) {
		return nil, fmt.Errorf("sequences of several lengths (input 4) are not supported; %s", wayOut)
	}
	if err := byteTypes(&n.operands, 1, 2, inputZero, stateZero); err != nil {
		return nil, err
	}
	for _, i := range []int{0, 3, 5, 6, 7, inputScale, stateScale} {
		if n.has(i) {
			if err := n.oneOf(i, tensor.Float32); err != nil {
				return nil, err
			}
		}
	}
	r, err := recurrenceOf(n)
	if err != nil {
		return nil, err
	}
	q := &byteLSTM{recurrence: r, lstm: r.cell.(*lstm)}
	for i := range n.types {
		n.types[i] = tensor.Float32
	}
	n.b.m.mixes = true
	for i, known := range []*[][]float32{&q.inputBytes, &q.stateBytes} {
		if w, zero := n.constant(1+i), n.constant(inputZero+2*i); w != nil && zero != nil {
			if *known, err = byDirection(w, zero); err != nil {
				return nil, err
			}
		}
	}
	return q.run, nil
}

// byDirection are the matrices of a tensor of bytes less their zero points: one for each direction, or for each column of it.
func byDirection(w, zero *tensor.Tensor) ([][]float32, error) {
	if len(w.Shape) != 3 || w.Shape[0] < 1 {
		return nil, fmt.Errorf("weights of shape %v", w.Shape)
	}
	directions, columns := int(w.Shape[0]), int(w.Shape[2])
	codes, zeros := wholes(w), wholes(zero)
	size := len(codes) / directions
	each, err := perColumn(len(zeros), directions, columns)
	if err != nil {
		return nil, err
	}
	to := make([][]float32, directions)
	for d := range to {
		to[d] = make([]float32, size)
		for i, v := range codes[d*size : (d+1)*size] {
			to[d][i] = float32(v - zeros[d*each+i%columns%each])
		}
	}
	return to, nil
}

// perColumn is how many of n scales or zero points belong to a direction: one, or as many as columns.
func perColumn(n, directions, columns int) (int, error) {
	switch n {
	case directions:
		return 1, nil
	case directions * columns:
		return columns, nil
	}
	return 0, fmt.Errorf("%d scales or zero points for %d directions of %d columns", n, directions, columns)
}

// byteFactors multiply rows of floats, which they quantize, by a matrix of bytes.
type byteFactors struct {
	codes  []float32 // [terms, columns]
	scales []float32 // of all columns, or of each
	exact  exact
	sums   []int32
	row    []float32
}

// of are a direction's.
func (q *byteLSTM) of(c *call, known [][]float32, weights, scale, d int) (*byteFactors, error) {
	if known == nil {
		var err error
		if known, err = byDirection(c.in(weights), c.in(scale+1)); err != nil {
			return nil, err
		}
	}
	scales, columns := tensor.Values[float32](c.in(scale)), q.gates*q.hidden
	each, err := perColumn(len(scales), len(q.backward), columns)
	if err != nil {
		return nil, err
	}
	f := &byteFactors{codes: known[d], scales: scales[d*each : (d+1)*each], sums: make([]int32, columns)}
	f.row = make([]float32, len(f.codes)/max(1, columns))
	return f, nil
}

// product writes x, quantized by a scale and a zero point, times the bytes.
func (f *byteFactors) product(to, x []float32, scale float32, zero int32) {
	for i, v := range x {
		f.row[i] = float32(quantize(v, scale, zero, 0, 255) - zero)
	}
	f.exact.row(f.sums, f.row, f.codes)
	for i, s := range f.sums {
		to[i] = float32(s) * (scale * f.scales[i%len(f.scales)])
	}
}

func (q *byteLSTM) run(c *call) error {
	w, u := c.in(1).Shape, c.in(2).Shape
	if len(w) != 3 || len(u) != 3 {
		return fmt.Errorf("weights of shapes %v and %v", w, u)
	}
	s, err := q.sequence(c, []int64{w[0], w[2], w[1]}, []int64{u[0], u[2], u[1]})
	if err != nil {
		return err
	}
	known := *q
	known.recurrence = s.recurrence // with the hidden size
	out, err := s.output(c)
	if err != nil {
		return err
	}
	size, width := s.batch*s.hidden, s.gates*s.hidden
	if err := c.f.charge(int64(s.steps) * int64(s.batch) * int64(width) * int64(s.width+s.hidden) * int64(len(s.backward)) / 4); err != nil {
		return err
	}
	memory, err := scratch[float32](c, s.steps*s.batch*width+width+2*size*len(s.backward))
	if err != nil {
		return err
	}
	products, memory := memory[:s.steps*s.batch*width], memory[s.steps*s.batch*width:]
	work, memory := memory[:width], memory[width:]
	h, cells := memory[:size*len(s.backward)], memory[size*len(s.backward):]
	s.initial(h, c.in(5))
	s.initial(cells, c.in(6))
	for d := range s.backward {
		at, end := d*size, (d+1)*size
		if err := known.direction(c, s, d, products, work, h[at:end], cells[at:end], out); err != nil {
			return err
		}
	}
	if err := s.last(c, 1, h); err != nil {
		return err
	}
	return s.last(c, 2, cells)
}

// direction runs all rows through all steps of one direction.
func (q *byteLSTM) direction(c *call, s *unrolled, d int, products, work, h, cells, y []float32) error {
	inputs, err := q.of(c, q.inputBytes, 1, inputScale, d)
	if err != nil {
		return err
	}
	states, err := q.of(c, q.stateBytes, 2, stateScale, d)
	if err != nil {
		return err
	}
	x, width := tensor.Values[float32](c.in(0)), s.gates*s.hidden
	w := s.extras(c, d)
	scale, zero := dynamicScale(x)
	for i := 0; i*width < len(products); i++ {
		row := products[i*width : (i+1)*width]
		inputs.product(row, x[i*s.width:(i+1)*s.width], scale, zero)
		if w.bias != nil {
			s.cell.biased(row, w.bias)
		}
	}
	for i := range s.steps {
		t := i
		if s.backward[d] {
			t = s.steps - 1 - i
		}
		scale, zero := dynamicScale(h)
		for b := range s.batch {
			state := h[b*s.hidden : (b+1)*s.hidden]
			at, to := s.place(t, d, b)
			states.product(work, state, scale, zero)
			q.lstm.advance(w, products[at*width:(at+1)*width], state, cells[b*s.hidden:(b+1)*s.hidden], work)
			if y != nil {
				copy(y[to:to+s.hidden], state)
			}
		}
	}
	return nil
}
