package cost

import "time"

// Observation is a step and how long it took.
type Observation struct {
	Load
	Took time.Duration
}

// batchRounds of batchSweeps of coordinate descent are enough from a start that knows nothing; each round holds the prior less where it is
// far too low.
const (
	batchRounds = 20
	batchSweeps = 200
)

// Fit returns a model of steps that were all observed on one unchanging machine, in no order: each counts alike, by the share that the
// estimate is off. Steps that took no time or had no rows are left out; without any other the model is not Ready.
func Fit(p Prior, seen []Observation) *Model {
	m := New(p)
	var g [terms][terms]float64
	var h vector
	ratio, power := 0.0, 0.0
	for _, o := range seen {
		if o.Took <= 0 || o.Rows <= 0 {
			continue
		}
		x, y := o.vector(), float64(o.Took)
		m.observed, m.rows = m.observed+1, max(m.rows, o.Rows)
		for i := range terms {
			h[i] += x[i] / y
			for j := range terms {
				g[i][j] += x[i] * x[j] / (y * y)
			}
		}
		e := dot(m.prior, x) / y
		ratio, power = ratio+e, power+e*e
	}
	if m.observed == 0 {
		return m
	}
	m.scale = ratio / power
	m.theta = m.prior.times(m.scale)
	for range batchRounds {
		m.descend(g, h)
	}
	m.error = 0
	for _, o := range seen {
		if o.Took > 0 && o.Rows > 0 {
			off := m.nanoseconds(o.Load)/float64(o.Took) - 1
			m.error += max(off, -off) / float64(m.observed)
		}
	}
	return m
}

// descend goes towards the costs of the least squares g and h; what they leave open is as the prior says.
func (m *Model) descend(g [terms][terms]float64, h vector) {
	for i := range terms {
		prior := m.prior[i] * m.scale
		far := max(prior, m.theta[i])
		g[i][i] += batchTrust / (far * far)
		h[i] += batchTrust * prior / (far * far)
	}
	for range batchSweeps {
		for i := range terms {
			rest := h[i] - dot(g[i], m.theta) + g[i][i]*m.theta[i]
			m.theta[i] = max(0, rest/g[i][i])
		}
	}
}

// batchTrust is how many steps the prior outweighs.
const batchTrust = 1e-5
