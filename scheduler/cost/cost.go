// Package cost learns how long a step takes from how long steps took.
//
// The estimate is a sum of non-negative costs: the step itself (above all,
// reading the weights), each row through the layers, each row through the
// output matrix, each earlier position that a row attends to. Rows are cheap
// while the weights are being read anyway and dear once arithmetic binds, so
// the cost per row has a slope of its own below 4, 16 and 64 rows and above.
// Every cost being non-negative, an estimate never falls when a step grows.
//
// A Model is pure: durations enter as arguments, nothing is drawn at random,
// and the same observations give the same estimates.
package cost

import (
	"math"
	"time"
)

// Load is what one step computes.
type Load struct {
	Rows    int // through the layers
	Outputs int // of these, through the output matrix
	Prompt  int // positions attended to by rows of prompts, summed over the rows
	Decode  int // positions attended to by rows that continue outputs
}

// Add returns the load of both.
func (l Load) Add(m Load) Load {
	return Load{l.Rows + m.Rows, l.Outputs + m.Outputs, l.Prompt + m.Prompt, l.Decode + m.Decode}
}

// Sub returns the load without m.
func (l Load) Sub(m Load) Load {
	return Load{l.Rows - m.Rows, l.Outputs - m.Outputs, l.Prompt - m.Prompt, l.Decode - m.Decode}
}

// Attended is the number of positions that rows [start, start+count) of a
// sequence attend to: each to itself and to all before it.
func Attended(start, count int) int { return count*start + count*(count+1)/2 }

// Attention is what a model's layers see: rows attend to their windows in some of the layers. nil: to everything in all of them.
type Attention []Window

// Window is how far some of the layers see.
type Window struct {
	Positions int     // 0 is all
	Share     float64 // of what a position costs in all layers
}

// Attended is the number of positions that rows [start, start+count) of a sequence attend to, as many as take the same time where
// all layers see all.
func (a Attention) Attended(start, count int) int {
	if a == nil {
		return Attended(start, count)
	}
	sum := 0.0
	for _, w := range a {
		sum += w.Share * float64(w.attended(start, count))
	}
	return int(math.Round(sum))
}

func (w Window) attended(start, count int) int {
	if w.Positions == 0 {
		return Attended(start, count)
	}
	full := min(max(start+count-w.Positions, 0), count) // rows that see a whole window
	return Attended(start, count-full) + full*w.Positions
}

// Prior is the shape of a step's cost before anything was observed, in any
// unit of time: observations set the scale at once, and each ratio as soon as
// steps differ in it. The zero value is a small model on a small machine.
type Prior struct {
	Step     float64 // of every step
	Row      float64 // of a row through the layers
	Output   float64 // of a row through the output matrix
	Position float64 // of one position attended to

	Experts Experts // what rows read beside that; none
	Reading float64 // of all experts once
}

// rows is what a row costs in each of the segments between knees.
func (p Prior) rows() (list [len(knees) - 1]float64) {
	for i := range list {
		lo, hi := knees[i], knees[i+1]
		list[i] = p.Row
		if p.Experts.Count > 0 {
			hi = min(hi, lastKnee)
			list[i] += p.Reading * (p.Experts.Share(hi) - p.Experts.Share(lo)) / float64(hi-lo)
		}
	}
	return list
}

// lastKnee is where the last segment ends for what rows read of experts: the rows of an ordinary step of a prompt.
const lastKnee = 512

func (p Prior) complete() Prior {
	if p.Row <= 0 {
		return Prior{Step: 8, Row: 1, Output: 0.2, Position: 0.0005}
	}
	p.Step, p.Output, p.Position = max(p.Step, p.Row), max(p.Output, p.Row/1000), max(p.Position, p.Row/1e6)
	return p
}

// terms is the number of costs in the sum.
const terms = 8

// vector is one value per term: step, rows of the four segments, outputs,
// prompt positions, decode positions.
type vector [terms]float64

// knees are where the cost per row may change.
var knees = [...]int{0, 4, 16, 64, math.MaxInt}

// vector splits a load into the terms.
func (l Load) vector() vector {
	v := vector{0: 1, 5: float64(l.Outputs), 6: float64(l.Prompt), 7: float64(l.Decode)}
	for i := range len(knees) - 1 {
		v[1+i] = float64(min(max(l.Rows-knees[i], 0), knees[i+1]-knees[i]))
	}
	return v
}

// Model estimates the time of steps. It belongs to one goroutine and comes from
// New.
type Model struct {
	prior    vector  // the shape; times scale, in nanoseconds
	scale    float64 // nanoseconds per unit of the prior, by what was observed
	theta    vector  // the estimate: nanoseconds per unit of each term
	error    float64 // typical distance of a step from its estimate, as a share
	tail     tail    // how slow steps with prompts and outputs were beside their estimates
	observed int
	rows     int // of the largest step observed
	classes  [classes]window
}

// New returns a model that has observed nothing.
func New(p Prior) *Model {
	p = p.complete()
	r := p.rows()
	m := &Model{prior: vector{p.Step, r[0], r[1], r[2], r[3], p.Output, p.Position, p.Position}, error: 1, tail: newTail()}
	for i := range m.classes {
		m.classes[i].error = firstError
	}
	return m
}

// Ready reports whether anything was observed; before, estimates are 0.
func (m *Model) Ready() bool { return m.observed > 0 }

// Rows is how many rows the largest step had that was observed. What is known of the cost of further ones is a guess.
func (m *Model) Rows() int { return m.rows }

// Estimate is how long a step will take. It never falls when any part of the
// load grows.
func (m *Model) Estimate(l Load) time.Duration { return time.Duration(m.nanoseconds(l)) }

func (m *Model) nanoseconds(l Load) float64 { return dot(m.theta, l.vector()) }

// Error is how far steps typically are from their estimates, as a share of the
// estimate, at most 1; 1 before anything was observed.
func (m *Model) Error() float64 { return min(m.error, 1) }

// Observe takes in that a step of this load took so long. Steps that took no
// time, as in a simulation without a clock, say nothing.
func (m *Model) Observe(l Load, took time.Duration) {
	if took <= 0 || l.Rows <= 0 {
		return
	}
	x, y := l.vector(), float64(took)
	if m.observed == 0 {
		m.scale = y / dot(m.prior, x)
		m.theta = m.prior.times(m.scale)
	}
	m.observed++
	m.rows = max(m.rows, l.Rows)
	if l.Prompt > 0 && l.Decode > 0 && m.observed > 1 {
		m.tail.add(y / max(dot(m.theta, x), 1))
	}
	w := &m.classes[class(l.Rows)]
	y, off := w.believe(dot(m.theta, x), y)
	m.error += (off - m.error) / patience
	m.scale *= math.Exp(math.Log(y/(m.scale*dot(m.prior, x))) / memory)
	w.add(x, y, m.observed)
	m.fit()
}

func dot(a, b vector) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func (v vector) times(f float64) vector {
	for i := range v {
		v[i] *= f
	}
	return v
}
