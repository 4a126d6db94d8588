package bench

import (
	"time"

	"weir/scheduler"
	"weir/scheduler/cost"
)

// Machine is how long a simulated machine takes for a step: at least what
// reading the weights takes, with arithmetic of its rows on top, and at least what
// arithmetic alone takes, during which the weights are read.
type Machine struct {
	Step     time.Duration // of every step: the weights are read, for a panel of rows
	Row      time.Duration // of a further row through the layers
	Output   time.Duration // of a further row through the output matrix
	Position time.Duration // of 1024 positions that rows attend to
	Panel    int           // rows that the kernels take at a time; a part of a panel costs a whole one
	Bound    time.Duration // of every row through the layers, where arithmetic alone decides

	Learned *cost.Model // from steps of a real engine, by Measure; where it is there, it alone tells the times
}

// Prior is the shape that an engine would compute from such a model.
func (m Machine) Prior() cost.Prior {
	if m.Learned != nil {
		p := m.Learned.Prices(cost.Load{Rows: 64})
		return cost.Prior{Step: p.Step, Row: p.Row, Output: p.Output, Position: p.Prompt}
	}
	return cost.Prior{Step: float64(m.Step), Row: float64(m.Row), Output: float64(m.Output), Position: float64(m.Position) / 1024}
}

// Time is how long a plan takes without noise.
func (m Machine) Time(p *scheduler.Plan) time.Duration {
	if m.Learned != nil {
		return m.Learned.Estimate(loadOf(p))
	}
	outputs, attended := 0, 0
	for i := range p.Chunks {
		c := &p.Chunks[i]
		outputs += c.LogitRows
		attended += cost.Attended(c.Start, c.Count)
	}
	rows := time.Duration(whole(p.Rows, m.Panel))
	return max(m.Step+(rows-time.Duration(m.Panel))*m.Row, rows*m.Bound) +
		time.Duration(max(0, whole(outputs, m.Panel)-m.Panel))*m.Output +
		time.Duration(float64(attended)/1024*float64(m.Position))
}

// loadOf is what a plan computes.
func loadOf(p *scheduler.Plan) cost.Load {
	var l cost.Load
	for i := range p.Chunks {
		c := &p.Chunks[i]
		l.Rows, l.Outputs = l.Rows+c.Count, l.Outputs+c.LogitRows
		if attended := cost.Attended(c.Start, c.Count); c.Count == 1 && c.LogitRows > 0 {
			l.Decode += attended
		} else {
			l.Prompt += attended
		}
	}
	return l
}

// whole rounds rows up to whole panels.
func whole(rows, panel int) int {
	if panel < 2 {
		return rows
	}
	return (rows + panel - 1) / panel * panel
}

// Noise makes steps take longer or shorter than the machine's time.
type Noise struct {
	Deviation   float64 // standard deviation of a step's time, as a share of it
	SpikeShare  float64 // of all steps, these take SpikeFactor times as long
	SpikeFactor float64
}
