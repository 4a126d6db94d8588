package rollout

import (
	"fmt"
	"math"
)

// relation is whether a candidate answers the questions that it was asked: then its answer to one has more in common with the stable
// version's answer to it than with those to others. Fluent garbage of any length has not, in whatever words it is written, and another
// model that answers in words of its own has.
type relation struct {
	stable, candidate []string
}

func (r *relation) add(stable, candidate string) {
	if stable == "" {
		return // it says nothing
	}
	r.stable, r.candidate = append(r.stable, stable), append(r.candidate, candidate)
}

const (
	// sureOfRelation is how many standard deviations the answers have to be nearer to their own questions than by chance: one of
	// 700 versions whose answers have nothing to do with the questions is that near.
	sureOfRelation = 3
	// mostAlike is the share of the stable version's answers that may be alike: where it answers everything with the same words,
	// it does not show which question an answer belongs to.
	mostAlike = 0.5
)

// score is by how many standard deviations the candidate's answers are nearer to the stable version's answers to the same questions than they
// would be if they were handed out among the questions at random, every order as likely. It is false where that cannot be told.
func (r *relation) score() (z float64, told bool) {
	n := len(r.stable)
	if n < enoughChecked {
		return 0, false
	}
	near := make([][]float64, n) // of candidate i to stable k
	rows, columns := make([]float64, n), make([]float64, n)
	own, all, alike := 0.0, 0.0, 0
	for i := range near {
		near[i] = make([]float64, n)
		for k := range near[i] {
			s := 1 - Distance(r.stable[k], r.candidate[i])
			near[i][k] = s
			rows[i] += s / float64(n)
			columns[k] += s / float64(n)
			all += s / float64(n*n)
			if i != k && r.stable[i] == r.stable[k] {
				alike++
			}
		}
		own += near[i][i]
	}
	if float64(alike) > mostAlike*float64(n*(n-1)) {
		return 0, false
	}
	// The variance of a sum along a random permutation (Hoeffding 1951).
	variance := 0.0
	for i := range near {
		for k, s := range near[i] {
			d := s - rows[i] - columns[k] + all
			variance += d * d / float64(n-1)
		}
	}
	if variance == 0 {
		return 0, true // all its answers are as far from everything
	}
	return (own - float64(n)*all) / math.Sqrt(variance), true
}

// judge says whether the candidate answers its questions.
func (r *relation) judge() judgement {
	z, told := r.score()
	if !told || z >= sureOfRelation {
		return judgement{verdict: good}
	}
	return judgement{bad, fmt.Sprintf("its answers to %d questions have no more in common with the stable version's answers to the same questions than with those to others "+
		"(%.1f standard deviations, at least %d are needed), as garbage has: its last answer to %.60q of the stable version is %.60q. If it is to answer otherwise, "+
		"say with golden what its answers must hold", len(r.stable), z, sureOfRelation, r.stable[len(r.stable)-1], r.candidate[len(r.candidate)-1])}
}
