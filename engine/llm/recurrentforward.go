package llm

import (
	"weir/engine/kernel"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// recurring is the memory of a block's rows in a recurrent layer.
type recurring struct {
	mixed, gate, time, gain, out []float32
	rows                         recurrence.Rows
	norms                        groupNormJob
	stateSpans                   []recurrence.Span
}

func (s *recurring) reserve(m *model, rows int) {
	channels, width, heads := 0, 0, 0
	for i := range m.layers {
		if r := &m.layers[i].recurrent; r.exists() {
			channels, width, heads = max(channels, r.Channels), max(width, r.Width()), max(heads, r.Heads)
		}
	}
	grow(&s.mixed, rows*channels)
	grow(&s.gate, rows*width)
	grow(&s.out, rows*width)
	grow(&s.time, rows*heads)
	grow(&s.gain, rows*heads)
}

// recur takes a block's rows through the layer, and leaves what closes the branch with b.given.
func (y *recurrent) recur(m *model, c *kernel.CPU, b *batch, r block) {
	x, before := r.of(b.x, m.width), y.norms.before
	rows := &b.rows
	*rows = recurrence.Rows{X: b.mixed, Time: b.time, Gain: b.gain, Out: b.out}
	given := b.given(y, r)
	switch y.Kind {
	case recurrence.Convolution:
		m.products(c, b, r, x, before, y.mixed.into(b.mixed, false), y.gate.into(b.gate, false), y.after.into(given, false))
		multiplyBy(b.mixed[:len(given)], b.gate)
	case recurrence.Delta:
		m.products(c, b, r, x, before, y.mixed.into(b.mixed, false), y.gate.into(given, false), y.time.into(b.time, false), y.gain.into(b.gain, false))
	default:
		m.products(c, b, r, x, before, y.mixed.into(b.mixed, false), y.gate.into(given, false), y.time.into(b.time, false))
	}
	b.awaitTurn()
	for round := range max(b.rounds, 1) {
		if rows.Spans = b.statesOf(y, r, round); len(rows.Spans) > 0 {
			c.Recur(&y.Layer, rows)
		}
	}
	switch y.Kind {
	case recurrence.Convolution:
		multiplyBy(given, b.mixed)
	case recurrence.Delta:
		c.Norm(b.out, b.out, y.norm, r.rows()*y.Heads)
		c.Gate(vector.SiLU, given, b.out, r.rows(), y.Width())
	default:
		c.Gate(vector.SiLU, given, b.out, r.rows(), y.Width())
		if y.groupNorms == nil {
			return
		}
		b.norms = groupNormJob{x: given, weights: y.groupNorms, groups: y.Groups, eps: y.norm.Eps, level: c.Level()}
		c.Run(&b.norms, r.rows(), 8)
	}
}

// given is what the heads of a block gave in a recurrent layer, in the place of queries or behind them.
func (b *batch) given(y *recurrent, r block) []float32 {
	return b.q[r.lo*b.widest+r.rows()*y.plan.behind:][:r.rows()*y.Width()]
}

// multiplyBy multiplies x by y, element by element.
func multiplyBy(x, y []float32) {
	y = y[:len(x)]
	for i, v := range y {
		x[i] *= v
	}
}

// groupNormJob norms each group of a row's values for itself, by weights of its own.
type groupNormJob struct {
	x, weights []float32 // [rows][groups][...], [groups][...]
	groups     int
	eps        float32
	level      isa.Level
}

// Do norms a row.
func (j *groupNormJob) Do(_, row int) {
	n := len(j.weights) / j.groups
	for g := range j.groups {
		x := j.x[row*len(j.weights)+g*n:][:n]
		norm := weight.Norm{Weight: j.weights[g*n:][:n], Eps: j.eps}
		norm.Apply(j.level, x, x)
	}
}
