package rollout

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// relation is whether a candidate answers the questions that it was asked: then its answer to one has more rare words in common with
// that question, and with the stable version's answer to it, than with others. Fluent garbage of any length has not, in whatever words it
// is written, and another model that answers in words of its own has.
type relation struct {
	about     []string // the questions, each with the stable version's answer
	stable    []string
	candidate []string
}

func (r *relation) add(t *CheckedTexts) {
	if t.Stable == "" {
		return // it says nothing
	}
	r.about = append(r.about, t.Question+"\n"+t.Stable)
	r.stable, r.candidate = append(r.stable, t.Stable), append(r.candidate, t.Candidate)
}

const (
	// sureOfRelation is how many standard deviations the answers have to be nearer to their own questions than by chance. Answers of
	// real models are 9 to 22 nearer.
	sureOfRelation = 4
	// mostAlike is the share of the stable version's answers that may be alike: where it answers everything with the same words,
	// it does not show which question an answer belongs to.
	mostAlike = 0.5
	// leastVariance is above what rounding leaves of none.
	leastVariance = 1e-12
)

// score is by how many standard deviations the candidate's answers are nearer to their questions than they would be if they were handed out
// among the questions at random, every order as likely. It is false where that cannot be told.
func (r *relation) score() (z float64, told bool) {
	n := len(r.stable)
	if n < enoughChecked || r.alike() > mostAlike {
		return 0, false
	}
	near := r.near()
	rows, columns := make([]float64, n), make([]float64, n)
	own, all := 0.0, 0.0
	for i := range near {
		own += near[i][i]
		for k, s := range near[i] {
			rows[i] += s / float64(n)
			columns[k] += s / float64(n)
			all += s / float64(n*n)
		}
	}
	// The variance of a sum along a random permutation (Hoeffding 1951).
	variance := 0.0
	for i := range near {
		for k, s := range near[i] {
			d := s - rows[i] - columns[k] + all
			variance += d * d / float64(n-1)
		}
	}
	if variance < leastVariance {
		return 0, true // all its answers are as far from everything
	}
	return (own - float64(n)*all) / math.Sqrt(variance), true
}

// alike is the share of pairs of the stable version's answers that are the same.
func (r *relation) alike() float64 {
	n, same := len(r.stable), 0
	for i := range n {
		for k := range i {
			if r.stable[i] == r.stable[k] {
				same++
			}
		}
	}
	return 2 * float64(same) / float64(n*(n-1))
}

// near is which part of the words of answer i are about question k, each word by how rare it is among the questions.
func (r *relation) near() [][]float64 {
	n := len(r.about)
	about, seen := make([]map[string]bool, n), make(map[string]int)
	for k := range about {
		about[k] = wordSet(r.about[k])
		for w := range about[k] {
			seen[w]++
		}
	}
	near := make([][]float64, n)
	for i := range near {
		near[i] = make([]float64, n)
		whole := 1.0
		for w := range wordSet(r.candidate[i]) {
			if seen[w] == 0 {
				continue
			}
			rare := math.Log(float64(n) / float64(seen[w]))
			whole += rare
			for k := range about {
				if about[k][w] {
					near[i][k] += rare
				}
			}
		}
		for k := range near[i] {
			near[i][k] /= whole
		}
	}
	return near
}

// wordSet are the words of a text, whatever stands around them.
func wordSet(text string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		set[w] = true
	}
	return set
}

// judge says whether the candidate answers its questions.
func (r *relation) judge() verdictReason {
	z, told := r.score()
	if !told || z >= sureOfRelation {
		return verdictReason{verdict: good}
	}
	return verdictReason{bad, fmt.Sprintf("its answers to %d questions have no more to do with these than with other ones (%.1f standard deviations, at least %d are needed), as garbage has: "+
		"its answer is %.60q where that of the stable version is %.60q. If it is to answer otherwise, say with golden what its answers must hold",
		len(r.stable), z, sureOfRelation, r.candidate[len(r.candidate)-1], r.stable[len(r.stable)-1])}
}
