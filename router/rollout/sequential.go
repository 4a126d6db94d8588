package rollout

import "math"

// The gates are looked at after each answer, so that a test which holds at one size of a
// sample would find differences by chance sooner or later. The tests of this file hold
// whenever they are looked at: each is a bet on the answers that cannot be expected to win
// while the candidate is no worse than its gate, so that by Ville's inequality it grows
// e^x times with a probability of e^-x at most, at whatever moment (Robbins, Statistical
// Methods Related to the Law of the Iterated Logarithm, 1970; Johari, Koomen, Pekelis and
// Walsh, Always Valid Inference: Continuous Monitoring of A/B Tests, 2022; of quantiles
// Howard and Ramdas, Sequential Estimation of Quantiles, 2022).

// boundedStats is what was seen of something that each answer has between 0 and 1.
type boundedStats struct {
	N   int     `json:"n"`
	Sum float64 `json:"sum"`
}

func (t *boundedStats) add(x float64) { t.N, t.Sum = t.N+1, t.Sum+x }

func (t *boundedStats) merge(o boundedStats) { t.N, t.Sum = t.N+o.N, t.Sum+o.Sum }

func (t boundedStats) mean() float64 { return t.Sum / float64(max(t.N, 1)) }

// evidence is the logarithm of an e-value against the hypothesis that the candidate's mean
// is at most gate above the stable version's; 0 is none. A value between 0 and 1 counts as
// that share of a success, which makes the test slower to reject, never wrong.
func evidence(stable, candidate boundedStats, gate float64) float64 {
	if candidate.N == 0 || candidate.mean() <= stable.mean()+gate {
		return 0
	}
	return apart(stable, candidate, gate, 1)
}

// evidenceOfLess is the evidence against the hypothesis that the candidate's mean is at
// least times the stable version's; evidenceOfMore that against at most times.
func evidenceOfLess(stable, candidate boundedStats, times float64) float64 {
	if candidate.N == 0 || candidate.mean() >= times*stable.mean() {
		return 0
	}
	return apart(stable, candidate, 0, times)
}

func evidenceOfMore(stable, candidate boundedStats, times float64) float64 {
	if candidate.N == 0 || candidate.mean() <= times*stable.mean() {
		return 0
	}
	return apart(stable, candidate, 0, times)
}

// apart is the evidence against every pair of means with candidate = plus + times * stable,
// and so against all pairs beyond them. The alternative mixes both means over a beta
// distribution; the null hypothesis is the pair of means with the highest likelihood.
func apart(stable, candidate boundedStats, plus, times float64) float64 {
	most := math.Min(1, (1-plus)/times)
	if candidate.misses() == 0 {
		most = 1 // a candidate that never misses may have a mean of 1 beside any
	}
	unlikely := func(s float64) float64 {
		return -stable.likelihood(s) - candidate.likelihood(math.Min(plus+times*s, 1))
	}
	return math.Max(0, stable.mixture()+candidate.mixture()+unlikely(least(unlikely, 0, most)))
}

// against is how much better a mixture of all means explains a tally than one mean does.
func (t boundedStats) against(mean float64) float64 { return t.mixture() - t.likelihood(mean) }

func (t boundedStats) misses() float64 { return math.Max(float64(t.N)-t.Sum, 0) }

// likelihood is the logarithm of the probability of what was seen, by one mean.
func (t boundedStats) likelihood(mean float64) float64 {
	return xlogy(math.Max(t.Sum, 0), mean) + xlogy(t.misses(), 1-mean)
}

// mixture is the same by all means, with the prior of Krichevsky and Trofimov.
func (t boundedStats) mixture() float64 {
	return lbeta(math.Max(t.Sum, 0)+0.5, t.misses()+0.5) - lbeta(0.5, 0.5)
}

func lbeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// xlogy is x log y, and 0 of nothing.
func xlogy(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

// least is where a convex function is least.
func least(f func(float64) float64, low, high float64) float64 {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := f(a), f(b)
	for range 48 {
		if fa < fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = f(b)
		}
	}
	return (low + high) / 2
}

// atMost is the evidence against the hypothesis that a tally's mean is at most mean;
// atLeast that against at least mean.
func (t boundedStats) atMost(mean float64) float64 { return t.against(math.Min(mean, t.mean())) }

func (t boundedStats) atLeast(mean float64) float64 { return t.against(math.Max(mean, t.mean())) }

// evidenceOfTimes is the evidence against the hypothesis that a quantile of the candidate's
// times is at most gate times the stable version's. If the stable version's is in a bucket, at
// most its share of the times is below that bucket; and if the candidate's is in one, at
// least its share is not above that. The null hypothesis is the pair of buckets with the
// highest likelihood.
func evidenceOfTimes(stable, candidate *histogram, share, gate float64) float64 {
	if stable.N == 0 || candidate.N == 0 || candidate.quantile(share) <= gate*stable.quantile(share) {
		return 0
	}
	shift := int(math.Ceil(math.Log(gate) / math.Log(growth)))
	upTo := func(h *histogram, from, to int) (n int) {
		for i := from; i <= min(to, numBuckets-1); i++ {
			n += int(h.buckets[i])
		}
		return n
	}
	best, below, notAbove := math.Inf(1), 0, upTo(candidate, 0, shift)
	for i := range numBuckets {
		if i == 0 || stable.buckets[i-1] > 0 || candidate.buckets[min(i+shift, numBuckets-1)] > 0 {
			best = math.Min(best, boundedStats{stable.N, float64(below)}.atMost(share)+boundedStats{candidate.N, float64(notAbove)}.atLeast(share))
		}
		below += int(stable.buckets[i])
		notAbove += upTo(candidate, i+shift+1, i+shift+1)
	}
	return math.Max(0, best)
}

// momentSums are what was seen of something without bounds, such as lengths.
type momentSums struct {
	N       int     `json:"n"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
}

func (m *momentSums) add(x float64) { m.N, m.Sum, m.Squares = m.N+1, m.Sum+x, m.Squares+x*x }

func (m *momentSums) merge(o momentSums) {
	m.N, m.Sum, m.Squares = m.N+o.N, m.Sum+o.Sum, m.Squares+o.Squares
}

func (m momentSums) mean() float64 { return m.Sum / float64(max(m.N, 1)) }

// variance of the mean; that of few which are alike is not taken as known.
func (m momentSums) variance() float64 {
	n, mean := float64(max(m.N, 1)), m.mean()
	const leastSpread = 0.2 // of the mean
	return math.Max(m.Squares/n-mean*mean, leastSpread*leastSpread*mean*mean) / n
}

// evidenceOfMeans is the evidence against the hypothesis that one mean is at most gate times
// the other. It is the mixture test over a normal distribution with the spread that was seen, which
// holds for many answers (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform
// Central Limit Theory and Asymptotic Confidence Sequences, 2024).
func evidenceOfMeans(usual, other momentSums, gate float64) float64 {
	above := other.mean() - gate*usual.mean()
	if usual.N < leastJudged || other.N < leastJudged || above <= 0 {
		return 0
	}
	v := other.variance() + gate*gate*usual.variance()
	t := 0.25 * gate * usual.mean() // differences of this size are found soonest
	t *= t
	if v <= 0 {
		return 0
	}
	return math.Max(0, math.Log(v/(v+t))/2+t*above*above/(2*v*(v+t)))
}
