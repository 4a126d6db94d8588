package cost

import "math"

// Experts are networks of which each row of a step passes through some: what a step reads of them grows with its rows.
type Experts struct {
	Count int // in a layer; 0 is none
	Use   int // of a row
}

// Touched is how many of the experts rows meet in all, on average where each is as likely as the others: Count*(1-(1-Use/Count)^rows).
func (e Experts) Touched(rows int) float64 {
	if e.Count == 0 || rows <= 0 {
		return 0
	}
	n := float64(e.Count)
	return n * (1 - math.Pow(1-float64(e.Use)/n, float64(rows)))
}

// Share is what part of all experts rows meet; 1 of none.
func (e Experts) Share(rows int) float64 {
	if e.Count == 0 {
		return 1
	}
	return e.Touched(rows) / float64(e.Count)
}
