package rollout

import (
	"fmt"
)

// verdict is what gates say of what was seen.
type verdict uint8

const (
	unclear verdict = iota // more must be seen
	good
	bad
)

const (
	// sure is how much must speak against a candidate to take it back, as evidence: that
	// chance alone does so much has a probability of one in a thousand for each gate and
	// step.
	sure = 6.9
	// surer is the same of the last moments, of which there are many in a step.
	surer = 9.2
	// sureOfCopies is the same of copies and checks, which no user sees: one in a hundred.
	sureOfCopies = 4.6
	// leastJudged is how many answers of an arm there must be before a gate is passed.
	leastJudged = 10
	// burnt is how many bad answers there must be before the burn rate counts.
	burnt = 5
)

// verdictReason is what the gates say, and the words for it.
type verdictReason struct {
	verdict verdict
	why     string
}

// take keeps the worse of two judgements.
func (j *verdictReason) take(other verdictReason) {
	if j.verdict != bad && other.verdict != good {
		*j = other
	}
}

// comparison is what is compared: the stable version's answers and the candidate's.
type comparison struct {
	stable, candidate *window
	need              float64 // evidence to take the candidate back
	level             bool    // the candidate has as many requests at once as the stable version, or more
}

// judge compares the candidate with the stable version. Budget is the share of bad answers
// that the objectives allow.
func (g *Gates) judge(p comparison, budget float64) verdictReason {
	s, c := p.stable, p.candidate
	all := verdictReason{verdict: good}
	for _, rate := range []struct {
		name string
		gate float64
		s, c int
	}{
		{"share of failed answers", g.ErrorRate, s.Failed, c.Failed},
		{"share of requests answered 4xx", g.DeniedRate, s.Denied, c.Denied},
		{"share of requests answered 429 or 503", g.ThrottledRate, s.Throttled, c.Throttled},
		{"share of empty answers", g.EmptyRate, s.Empty, c.Empty},
		{"share of answers cut at their limit", g.LengthRate, s.Length, c.Length},
		{"share of refusals", g.RefusalRate, s.Refused, c.Refused},
	} {
		all.take(judgeRate(rate.name, rate.gate, boundedStats{s.N, float64(rate.s)}, boundedStats{c.N, float64(rate.c)}, p.need))
	}
	for _, t := range []struct {
		name string
		s, c *histogram
		gate float64
	}{
		{"time to first token", &s.TTFT, &c.TTFT, g.TTFTRatio},
		{"time to a whole answer", &s.Whole, &c.Whole, g.TTFTRatio},
		{"gap between tokens", &s.ITL, &c.ITL, g.ITLRatio},
	} {
		all.take(judgeTimes(t.name, t.gate, g.P99Ratio, t.s, t.c, p.need))
	}
	if p.level {
		all.take(judgeTypical("computing time of a token, median", g.ComputeRatio, &s.Compute, &c.Compute, p.need))
	}
	all.take(judgeMeans("mean length of answers", g.OutputRatio, true, s.Output, c.Output, p.need))
	all.take(judgeMeans("mean cost", g.CostRatio, false, s.Cost, c.Cost, p.need))
	all.take(g.judgeBurn(s, c, budget))
	return all
}

// judgeRate compares two shares: the candidate's may be gate above the stable version's.
func judgeRate(name string, gate float64, s, c boundedStats, need float64) verdictReason {
	if gate < 0 {
		return verdictReason{verdict: good}
	}
	above := c.mean()-s.mean() > gate
	switch {
	case !above && c.N >= leastJudged:
		return verdictReason{verdict: good}
	case !above:
		return verdictReason{why: "too few answers"}
	}
	j := verdictReason{why: fmt.Sprintf("%s is %.3g of %d, and %.3g of %d for the stable version; the gate is %g above it", name, c.mean(), c.N, s.mean(), s.N, gate)}
	if evidence(s, c, gate) >= need {
		j.verdict = bad
	}
	return j
}

// leastTail is how many times there must be before the 99th percentile says anything.
const leastTail = 100

// judgeTimes compares percentiles, and the median where a whole version is slower.
func judgeTimes(name string, gate, tail float64, s, c *histogram, need float64) verdictReason {
	all := verdictReason{verdict: good}
	if c.N == 0 || gate < 0 && tail < 0 {
		return all // such requests have no such time
	}
	if s.N < leastJudged || c.N < leastJudged {
		return verdictReason{why: name + ": too few answers"}
	}
	if gate > 0 {
		all.take(judgeQuantile(name+", p95", 0.95, gate, s, c, need))
		if j := judgeQuantile(name+", median", 0.5, gate, s, c, need); j.verdict == bad {
			all.take(j)
		}
	}
	if tail > 0 && s.N >= leastTail && c.N >= leastTail {
		all.take(judgeQuantile(name+", p99", 0.99, tail, s, c, need))
	}
	return all
}

// judgeTypical compares medians.
func judgeTypical(name string, gate float64, s, c *histogram, need float64) verdictReason {
	if gate < 0 || s.N < leastPairs || c.N < leastPairs {
		return verdictReason{verdict: good}
	}
	return judgeQuantile(name, 0.5, gate, s, c, need)
}

// leastPairs is of how many a median is taken.
const leastPairs = 6

func judgeQuantile(name string, share, gate float64, s, c *histogram, need float64) verdictReason {
	usual, other := s.quantile(share), c.quantile(share)
	if other <= gate*usual {
		return verdictReason{verdict: good}
	}
	j := verdictReason{why: fmt.Sprintf("%s is %.3g s of %d, and %.3g s of %d for the stable version; the gate is %g times that", name, other, c.N, usual, s.N, gate)}
	if evidenceOfTimes(s, c, share, gate) >= need {
		j.verdict = bad
	}
	return j
}

// judgeMeans compares means; both says that less is as wrong as more.
func judgeMeans(name string, gate float64, both bool, s, c momentSums, need float64) verdictReason {
	if gate < 0 || s.Sum == 0 && c.Sum == 0 || s.N < leastJudged || c.N < leastJudged {
		return verdictReason{verdict: good} // other gates ask for enough answers
	}
	more, less := c.mean() > gate*s.mean(), both && c.mean()*gate < s.mean()
	if !more && !less {
		return verdictReason{verdict: good}
	}
	j := verdictReason{why: fmt.Sprintf("%s is %.4g of %d, and %.4g of %d for the stable version; the gate is %g times that", name, c.mean(), c.N, s.mean(), s.N, gate)}
	if more && evidenceOfMeans(s, c, gate) >= need || less && evidenceOfMeans(c, s, gate) >= need {
		j.verdict = bad
	}
	return j
}

// judgeBurn looks at how fast the candidate uses up the error budget. Where the stable
// version burns it, too, the server is in trouble and nothing can be told.
func (g *Gates) judgeBurn(stable, candidate *window, budget float64) verdictReason {
	if g.BurnRate < 0 || budget <= 0 || candidate.N < leastJudged || candidate.Missed < burnt {
		return verdictReason{verdict: good}
	}
	burn := func(w *window) float64 { return float64(w.Missed) / float64(max(w.N, 1)) / budget }
	c, s := burn(candidate), burn(stable)
	if c < g.BurnRate {
		return verdictReason{verdict: good}
	}
	why := fmt.Sprintf("the error budget burns at %.3g times its rate, and at %.3g times with the stable version; the gate is %g", c, s, g.BurnRate)
	if s >= g.BurnRate/2 && s > c/2 {
		return verdictReason{why: why}
	}
	return verdictReason{bad, why}
}
