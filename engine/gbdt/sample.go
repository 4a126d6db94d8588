package gbdt

import (
	"math"
	"math/rand/v2"
)

// Sample makes n rows whose values are thresholds of the trees, or categories of their sets, so that the rows go
// everywhere in the trees. A column that no node tests is 0.
func (e *Ensemble) Sample(n int, random *rand.Rand) []float64 {
	const most = 4096 // nodes of a feature that values are taken from
	nodes := make([][]int32, e.Features)
	for node, f := range e.Feature {
		if len(nodes[f]) < most {
			nodes[f] = append(nodes[f], int32(node)) //nolint:gosec // nodes are counted in 32 bits
		}
	}
	rows := make([]float64, n*e.Features)
	for i := range rows {
		own := nodes[i%e.Features]
		if len(own) == 0 {
			continue
		}
		node := own[random.IntN(len(own))]
		x := e.Threshold[node]
		if e.Rules[node]&Member != 0 {
			x = float64(random.IntN(32*len(e.Sets[int(x)]) + 1))
		}
		if !math.IsInf(x, 0) {
			rows[i] = x
		}
	}
	return rows
}
