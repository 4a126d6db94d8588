package rollout

import (
	"fmt"
	"time"
)

// Copied is what happened to a copy, beside the answer that the stable version gave: both
// answer as if alone, and with the likeliest tokens.
type Copied struct {
	Rollout  string // as of outcomes
	Failed   bool
	Why      string        // it failed
	Empty    bool          // there is no text
	WasEmpty bool          // as above, of the stable version's answer
	Distance float64       // of the texts, 0 to 1; 0 is the same text
	Again    Distances     // of the stable version's own answer from its answer, where it was asked twice
	ITL      time.Duration // of the candidate's answer; 0: not measured
	Stable   time.Duration // as above, of the stable version's
	Compute  Computed      // for a token
	Output   int
	Before   int // tokens of the stable version's answer

	Texts CheckedTexts // of a check
}

// CheckedTexts are a question and the answers to it.
type CheckedTexts struct{ Question, Stable, Candidate string }

// Distances is a distance that may not have been measured.
type Distances struct {
	Measured bool
	Distance float64
}

// Computed are the times that a token of the two answers took to compute; 0: not measured.
type Computed struct{ Candidate, Stable time.Duration }

// copies are the comparisons of a step.
type copies struct {
	N           int          `json:"n"`
	Failed      int          `json:"failed,omitempty"`
	Empty       int          `json:"empty,omitempty"`
	EmptyBefore int          `json:"empty_before,omitempty"`
	Distance    boundedStats `json:"distance"`
	Same        boundedStats `json:"same"` // how many have the same text
	Again       boundedStats `json:"again"`
	SameAgain   boundedStats `json:"same_again"`
	Output      momentSums   `json:"output"`
	Before      momentSums   `json:"before"`
	ITL         histogram    `json:"itl"`
	Stable      histogram    `json:"stable"`
	Compute     histogram    `json:"compute"`
	Usual       histogram    `json:"usual"`  // computing time of the stable version
	Reason      string       `json:"reason"` // of the last failure

	ITLTimes     histogram `json:"itl_times"`     // how many times the stable version's gap an answer's is, as times of timesUnit
	ComputeTimes histogram `json:"compute_times"` // as above of the computing time of a token
}

// timesUnit stands for one time as much in a histogram.
const timesUnit = time.Millisecond

func (h *histogram) addTimes(candidate, stable time.Duration) {
	h.add(time.Duration(float64(candidate) / float64(stable) * float64(timesUnit)))
}

func (c *copies) add(o *Copied) {
	c.N++
	if o.Failed {
		c.Failed++
		c.Reason = o.Why
		o.Distance = 1
	}
	if o.Empty && !o.Failed {
		c.Empty++
	}
	if o.WasEmpty {
		c.EmptyBefore++
	}
	same := func(t *boundedStats, distance float64) {
		t.N++
		if distance == 0 {
			t.Sum++
		}
	}
	c.Distance.add(o.Distance)
	same(&c.Same, o.Distance)
	if o.Again.Measured {
		c.Again.add(o.Again.Distance)
		same(&c.SameAgain, o.Again.Distance)
	}
	if !o.Failed {
		c.Output.add(float64(o.Output))
		c.Before.add(float64(o.Before))
	}
	if o.ITL > 0 && o.Stable > 0 {
		c.ITL.add(o.ITL)
		c.Stable.add(o.Stable)
		c.ITLTimes.addTimes(o.ITL, o.Stable)
	}
	if o.Compute.Candidate > 0 && o.Compute.Stable > 0 {
		c.Compute.add(o.Compute.Candidate)
		c.Usual.add(o.Compute.Stable)
		c.ComputeTimes.addTimes(o.Compute.Candidate, o.Compute.Stable)
	}
}

// judgeCopies looks at the candidate's answers to copies.
func (g *Gates) judgeCopies(c *copies) verdictReason {
	all := verdictReason{verdict: good}
	if c.N < leastPairs {
		all.take(verdictReason{why: "too few copies"})
	}
	failed := judgeRate("share of copies that failed", g.ErrorRate, boundedStats{N: c.N}, boundedStats{c.N, float64(c.Failed)}, sureOfCopies)
	if failed.verdict == bad && c.Reason != "" {
		failed.why += "; the last one: " + c.Reason
	}
	all.take(failed)
	all.take(judgeRate("share of copies with an empty answer", g.EmptyRate, boundedStats{c.N, float64(c.EmptyBefore)}, boundedStats{c.N, float64(c.Empty)}, sureOfCopies))
	all.take(judgePairs("gap between tokens of copies", g.ITLRatio, &c.Stable, &c.ITL, &c.ITLTimes))
	all.take(judgePairs("computing time of a token of copies", g.ComputeRatio, &c.Usual, &c.Compute, &c.ComputeTimes))
	all.take(judgeMeans("mean length of copies' answers", g.OutputRatio, true, c.Before, c.Output, sureOfCopies))
	all.take(g.judgeDistance(c))
	all.take(g.judgeSame(c))
	return all
}

// judgePairs compares times of answers to the same question: answers differ more from question to question than the versions do, so that
// of few copies only how many of them took more than gate times the stable version's tells them apart.
func judgePairs(name string, gate float64, s, c, times *histogram) verdictReason {
	if gate < 0 || times.N < leastPairs {
		return verdictReason{verdict: good}
	}
	const half, unit = 0.5, float64(timesUnit) / float64(time.Second)
	median := times.quantile(half) / unit
	if median <= gate {
		return verdictReason{verdict: good}
	}
	j := verdictReason{why: fmt.Sprintf("%s, median, is %.3g s of %d, and %.3g s for the stable version; of the same question it is %.3g times that, and the gate is %g",
		name, c.quantile(half), c.N, s.quantile(half), median, gate)}
	if (boundedStats{times.N, float64(times.above(gate * unit))}).atMost(half) >= sureOfCopies {
		j.verdict = bad
	}
	return j
}

// judgeDistance compares how far the candidate's texts are from the stable version's with
// how far those are from each other, where it was asked twice.
func (g *Gates) judgeDistance(c *copies) verdictReason {
	if g.Distance < 0 {
		return verdictReason{verdict: good}
	}
	why := fmt.Sprintf("copies' answers are %.3g from those of the stable version, on average of %d, and its own %.3g from each other, of %d; the gate is %g above that. "+
		"If the candidate is to answer in other words, allow it with gates.distance (1 is any text) and say with golden what its answers must hold",
		c.Distance.mean(), c.Distance.N, c.Again.mean(), c.Again.N, g.Distance)
	switch {
	case c.Distance.atMost(c.Again.mean()+g.Distance) >= sureOfCopies:
		return verdictReason{bad, why}
	case c.Distance.mean() > c.Again.mean()+g.Distance:
		return verdictReason{why: why}
	}
	return verdictReason{verdict: good}
}

// judgeSame compares how many texts are the same.
func (g *Gates) judgeSame(c *copies) verdictReason {
	if g.MatchDrop < 0 || c.SameAgain.N == 0 {
		return verdictReason{verdict: good}
	}
	differ := func(t boundedStats) boundedStats { return boundedStats{t.N, float64(t.N) - t.Sum} }
	return judgeRate("share of copies with another text than the stable version's", g.MatchDrop, differ(c.SameAgain), differ(c.Same), sureOfCopies)
}

// Check is what a candidate answered before its first user, beside the stable version.
type Check struct {
	gates    *Gates
	copies   copies
	relation relation
	golden   bool // what its answers must hold was said, and they do
}

// NewCheck has seen nothing yet. The plan has its defaults.
func (p *Plan) NewCheck() *Check { return &Check{gates: &p.Gates, golden: len(p.Golden) > 0} }

const (
	// leastFailed is after how many answers of which none came a candidate answers nothing.
	leastFailed = 3
	// enoughChecked is after how many answers that are alike a candidate may have users.
	enoughChecked = 12
)

// Add takes in another answer. The error says why the candidate is not tried; enough, that
// it may be without another one.
func (c *Check) Add(o *Copied) (enough bool, err error) {
	c.copies.add(o)
	n := c.copies.N
	if n >= leastFailed && c.copies.Failed == n {
		return true, fmt.Errorf("%w: it answers none of %d requests: %s", ErrCheck, n, c.copies.Reason)
	}
	j := c.gates.judgeCopies(&c.copies)
	if j.verdict == bad {
		return true, fmt.Errorf("%w: %s", ErrCheck, j.why)
	}
	if !o.Failed {
		c.relation.add(&o.Texts)
	}
	return j.verdict == good && n >= enoughChecked && c.End() == nil, nil
}

// End judges the candidate by all that it has answered.
func (c *Check) End() error {
	if j := c.relation.judge(); j.verdict == bad && !c.golden {
		return fmt.Errorf("%w: %s", ErrCheck, j.why)
	}
	return nil
}
