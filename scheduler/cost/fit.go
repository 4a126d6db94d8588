package cost

import (
	"math"
	"math/bits"
)

// memory is how many steps of a class are remembered, with fading weight.
const memory = 16

// classes is the number of classes of steps: by powers of two of their rows.
// A class fades only as its own steps come in: hours of decoding do not wear
// out what was learned of prompts, nor outweigh it.
const classes = 12

func class(rows int) int { return min(bits.Len(uint(rows)), classes) - 1 }

// window sums the normal equations of recent steps of one class.
type window struct {
	products [terms][terms]float64 // of the terms; only j <= i is kept
	targets  vector                // of terms and times
	power    float64               // of the times
	seen     int                   // number of the last step
	errorEstimate
}

// errorEstimate bounds what is believed of one observation.
type errorEstimate struct {
	error float64 // typical distance from the estimate, as a logarithm
}

func (w *window) add(x vector, y float64, number int) {
	const keep = 1 - 1.0/memory
	w.seen = number
	w.power = w.power*keep + y*y
	for i := range terms {
		w.targets[i] = w.targets[i]*keep + x[i]*y
		for j := range i + 1 {
			w.products[i][j] = w.products[i][j]*keep + x[i]*x[j]
		}
	}
}

// Where classes contradict each other, those seen of late are believed: a
// class counts less the more steps of others have come since its own, but never
// so little that what it alone knows is lost.
const (
	fresh = 32 // steps
	stale = 0.05
)

// weight makes errors of a class count as shares of its typical time.
func (w *window) weight(now int) float64 {
	if w.power == 0 {
		return 0
	}
	age := float64(now-w.seen) / fresh
	return max(math.Exp(-age), stale) * w.products[0][0] / w.power
}

// How much is believed of a step that is far from its estimate: at most spread
// times the class's typical error, which is learned over patience steps. A
// machine that was busy elsewhere for a moment hardly moves the estimate; one
// that stays slower widens the error, and is believed some dozen steps later.
const (
	spread     = 3
	patience   = 8
	leastError = 0.03
	firstError = 0.25
)

// believe bounds an observation, learns the typical error and returns by what
// share the observation was off, as far as it is believed.
func (w *errorEstimate) believe(expected, y float64) (believed, off float64) {
	expected = max(expected, 1)
	far := spread * w.error
	log := min(max(math.Log(y/expected), -far), far)
	w.error = max(w.error+(math.Abs(log)-w.error)/patience, leastError)
	believed = expected * math.Exp(log)
	return believed, math.Abs(believed/expected - 1)
}

// trust is how many remembered steps the prior outweighs: few, it decides only
// what the steps leave open.
const trust = 0.003

// sweeps of coordinate descent per observation. Each starts where the last one
// ended, so a handful is enough.
const sweeps = 6

// fit finds the non-negative costs that come nearest to the remembered steps
// and, faintly, to the prior: least squares by coordinate descent, which stays
// stable however alike the steps are.
func (m *Model) fit() {
	var g [terms][terms]float64
	var h vector
	for i := range terms {
		prior := m.prior[i] * m.scale
		far := max(prior, m.theta[i]) // a prior that is far too low must not hold on
		g[i][i], h[i] = trust/(far*far), trust*prior/(far*far)
	}
	for c := range m.classes {
		w := &m.classes[c]
		f := w.weight(m.observed)
		if f == 0 {
			continue
		}
		for i := range terms {
			h[i] += f * w.targets[i]
			for j := range i + 1 {
				g[i][j] += f * w.products[i][j]
			}
		}
	}
	for i := range terms {
		for j := range i {
			g[j][i] = g[i][j]
		}
	}
	for range sweeps {
		for i := range terms {
			rest := h[i] - dot(g[i], m.theta) + g[i][i]*m.theta[i]
			m.theta[i] = max(0, rest/g[i][i])
		}
	}
}
