package cost

// Prices are what the parts of one step cost, in nanoseconds: the step itself,
// a row on average over the step's, an output, a position that a row of a
// prompt, or of an output, attends to.
type Prices struct {
	Step, Row, Output, Prompt, Decode float64
}

// Prices splits the estimate of a step into its parts. Before anything was
// observed they keep the prior's relations, and a row costs a millisecond.
func (m *Model) Prices(l Load) Prices {
	theta := m.theta
	if !m.Ready() {
		theta = m.prior.times(1e6 / m.prior[1])
	}
	p := Prices{Step: theta[0], Row: theta[1], Output: theta[5], Prompt: theta[6], Decode: theta[7]}
	if v := l.vector(); l.Rows > 0 {
		p.Row = (theta[1]*v[1] + theta[2]*v[2] + theta[3]*v[3] + theta[4]*v[4]) / float64(l.Rows)
	}
	return p
}

// Of is what a part of the step costs, the step itself left aside.
func (p Prices) Of(l Load) float64 {
	return p.Row*float64(l.Rows) + p.Output*float64(l.Outputs) + p.Prompt*float64(l.Prompt) + p.Decode*float64(l.Decode)
}
