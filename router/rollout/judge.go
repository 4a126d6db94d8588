package rollout

import (
	"fmt"
	"math"
	"time"
)

// verdict is what gates say of what was seen.
type verdict uint8

const (
	unclear verdict = iota // more must be seen
	good
	bad
)

const (
	// sure is how many standard deviations a difference must be beyond its gate to take a
	// version back: gates are looked at after each outcome, and chance gets many tries.
	sure = 3.0
	// leastJudged is how many answers of an arm there must be before a gate can fail.
	leastJudged = 10
	// burnt is how many bad answers there must be before the burn rate counts.
	burnt = 5
)

// judgement is what the gates say, and the words for it.
type judgement struct {
	verdict verdict
	why     string
	harmful bool // bad for clients now, whatever the stable version does
}

// judge compares the candidate with the stable version. Budget is the share of bad answers
// that the objectives allow.
func (g *Gates) judge(stable, candidate *window, budget float64) judgement {
	all := judgement{verdict: good}
	take := func(j judgement) {
		switch {
		case all.verdict == bad:
		case j.verdict == bad, j.verdict == unclear:
			all = j
		}
	}
	for _, rate := range []struct {
		name string
		gate float64
		s, c int
	}{
		{"share of failed answers", g.ErrorRate, stable.failed, candidate.failed},
		{"share of empty answers", g.EmptyRate, stable.empty, candidate.empty},
		{"share of answers cut at their limit", g.LengthRate, stable.length, candidate.length},
		{"share of refusals", g.RefusalRate, stable.refused, candidate.refused},
	} {
		take(judgeRate(rate.name, rate.gate, rate.s, stable.n, rate.c, candidate.n))
	}
	take(judgeTimes("time to first token, p95", g.TTFTRatio, &stable.ttft, &candidate.ttft))
	take(judgeTimes("time to a whole answer, p95", g.TTFTRatio, &stable.whole, &candidate.whole))
	take(judgeTimes("gap between tokens, p95", g.ITLRatio, &stable.itl, &candidate.itl))
	take(judgeMeans("mean length of answers", g.OutputRatio, true, stable.output, stable.answered, candidate.output, candidate.answered))
	take(judgeMeans("mean cost", g.CostRatio, false, stable.cost, stable.answered, candidate.cost, candidate.answered))
	take(g.judgeBurn(stable, candidate, budget))
	return all
}

// judgeRate compares two shares: the candidate's may be gate above the stable version's.
func judgeRate(name string, gate float64, s, sn, c, cn int) judgement {
	if gate < 0 {
		return judgement{verdict: good}
	}
	if cn < leastJudged {
		return judgement{verdict: unclear, why: "too few answers"}
	}
	// One answer of each kind is added, so that a share of 0 or 1 is not taken as certain.
	ps, pc := (float64(s)+0.5)/(float64(sn)+1), (float64(c)+0.5)/(float64(cn)+1)
	ds, dc := ps*(1-ps)/(float64(sn)+1), pc*(1-pc)/(float64(cn)+1)
	rate := func(k, n int) float64 { return float64(k) / float64(max(n, 1)) }
	why := fmt.Sprintf("%s is %.3g of %d, and %.3g of %d for the stable version; the gate is %g above it", name, rate(c, cn), cn, rate(s, sn), sn, gate)
	switch above := pc - ps - gate; {
	case above > sure*math.Sqrt(ds+dc):
		return judgement{bad, why, false}
	case rate(c, cn)-rate(s, sn) > gate:
		return judgement{unclear, why, false}
	}
	return judgement{verdict: good}
}

// judgeTimes compares the 95th percentiles.
func judgeTimes(name string, gate float64, s, c *histogram) judgement {
	if gate < 0 || s.n == 0 && c.n == 0 {
		return judgement{verdict: good}
	}
	if s.n < leastJudged || c.n < leastJudged {
		if c.n == 0 {
			return judgement{verdict: good} // such requests have no such time
		}
		return judgement{verdict: unclear, why: name + ": too few answers"}
	}
	const share = 0.95
	why := fmt.Sprintf("%s is %.3g s of %d, and %.3g s of %d for the stable version; the gate is %g times that",
		name, c.quantile(share, 0), c.n, s.quantile(share, 0), s.n, gate)
	switch {
	case c.quantile(share, -sure) > gate*s.quantile(share, sure), c.n >= 2*leastJudged && c.quantile(0.5, -sure) > gate*s.quantile(0.5, sure):
		return judgement{bad, why, false}
	case c.quantile(share, 0) > gate*s.quantile(share, 0):
		return judgement{unclear, why, false}
	}
	return judgement{verdict: good}
}

// leastMeans is how many answers means are compared of: lengths vary much.
const leastMeans = 30

// judgeMeans compares means; both says that less is as wrong as more.
func judgeMeans(name string, gate float64, both bool, s float64, sn int, c float64, cn int) judgement {
	if gate < 0 || s == 0 && c == 0 {
		return judgement{verdict: good}
	}
	if sn < leastMeans || cn < leastMeans {
		return judgement{verdict: good} // other gates ask for enough answers
	}
	ms, mc := s/float64(sn), c/float64(cn)
	why := fmt.Sprintf("%s is %.4g of %d, and %.4g of %d for the stable version; the gate is %g times that", name, mc, cn, ms, sn, gate)
	// Lengths of answers are about as spread as their mean is large.
	slack := 1 + sure*math.Sqrt(1/float64(sn)+1/float64(cn))
	more, less := mc > gate*ms, both && mc*gate < ms
	switch {
	case more && mc > gate*ms*slack, less && mc*gate*slack < ms:
		return judgement{bad, why, false}
	case more || less:
		return judgement{unclear, why, false}
	}
	return judgement{verdict: good}
}

// judgeBurn looks at how fast the candidate uses up the error budget. Where the stable
// version burns it, too, the server is in trouble and nothing can be told.
func (g *Gates) judgeBurn(stable, candidate *window, budget float64) judgement {
	if g.BurnRate < 0 || budget <= 0 || candidate.n < leastJudged || candidate.missed < burnt {
		return judgement{verdict: good}
	}
	burn := func(w *window) float64 { return float64(w.missed) / float64(max(w.n, 1)) / budget }
	c, s := burn(candidate), burn(stable)
	if c < g.BurnRate {
		return judgement{verdict: good}
	}
	why := fmt.Sprintf("the error budget burns at %.3g times its rate, and at %.3g times with the stable version; the gate is %g", c, s, g.BurnRate)
	if s >= g.BurnRate/2 && s > c/2 {
		return judgement{unclear, why, false}
	}
	return judgement{bad, why, true}
}

// judgeCopies looks at the candidate's answers to copies.
func (g *Gates) judgeCopies(c *copies) judgement {
	if c.n < leastJudged {
		return judgement{verdict: unclear, why: "too few copies"}
	}
	all := judgement{verdict: good}
	for _, j := range []judgement{
		judgeRate("share of copies that failed", g.ErrorRate, 0, c.n, c.failed, c.n),
		judgeRate("share of copies with an empty answer", g.EmptyRate, c.emptyBefore, c.n, c.empty, c.n),
		judgeTimes("gap between tokens of copies, p95", g.ITLRatio, &c.stable, &c.itl),
		judgeMeans("mean length of copies' answers", g.OutputRatio, true, c.before, c.n, c.output, c.n),
		g.judgeDistance(c),
	} {
		if j.verdict == bad {
			return j
		}
		if j.verdict == unclear {
			all = j
		}
	}
	return all
}

func (g *Gates) judgeDistance(c *copies) judgement {
	if g.Distance < 0 {
		return judgement{verdict: good}
	}
	mean := c.distance / float64(c.n)
	if mean <= g.Distance {
		return judgement{verdict: good}
	}
	why := fmt.Sprintf("copies' answers are %.3g from those that clients got, on average of %d; the gate is %g", mean, c.n, g.Distance)
	if spread := math.Max(c.squares/float64(c.n)-mean*mean, 0); mean-sure*math.Sqrt(spread/float64(c.n)) > g.Distance {
		return judgement{bad, why, false}
	}
	return judgement{unclear, why, false}
}

// copies are the comparisons of a step.
type copies struct {
	n, failed, empty, emptyBefore int
	distance, squares             float64
	output, before                float64
	itl, stable                   histogram
}

func (c *copies) add(o *Copied) {
	c.n++
	if o.Failed {
		c.failed++
		o.Distance = 1
	}
	if o.Empty && !o.Failed {
		c.empty++
	}
	if o.Before == 0 {
		c.emptyBefore++
	}
	c.distance += o.Distance
	c.squares += o.Distance * o.Distance
	c.output += float64(o.Output)
	c.before += float64(o.Before)
	c.itl.add(o.ITL)
	c.stable.add(o.Stable)
}

// seconds shows a duration for people.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }
