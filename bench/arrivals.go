package bench

import (
	"math"
	"math/rand/v2"
)

// gammaArrivals are the times, in seconds from the start, at which n requests
// come at rate per second. The gaps are gamma distributed with the given shape:
// 1 is a Poisson process, less is burstier (the gaps' coefficient of variation
// is 1/√burstiness), +Inf makes all gaps equal. As vLLM does, all times are scaled so
// that the last is n/rate. An infinite rate sends everything at once.
func gammaArrivals(r *rand.Rand, n int, rate, burstiness float64) []float64 {
	at := make([]float64, n)
	if math.IsInf(rate, 1) {
		return at
	}
	now := 0.0
	for i := range at {
		gap := 1.0
		if !math.IsInf(burstiness, 1) {
			gap = gamma(r, burstiness)
		}
		now += gap
		at[i] = now
	}
	rescale(at, float64(n)/rate)
	return at
}

// rescale stretches times so that the last is end.
func rescale(at []float64, end float64) {
	if len(at) == 0 || at[len(at)-1] == 0 {
		return
	}
	factor := end / at[len(at)-1]
	for i := range at {
		at[i] *= factor
	}
}

// gamma draws from the gamma distribution of scale 1 (Marsaglia and Tsang,
// "A simple method for generating gamma variables", 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape) // 1-u is never 0
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
