package llm

import (
	"math"

	"weir/engine/kernel/vector"
)

// rope holds the rotary frequencies after scaling.
type rope struct {
	style     vector.RopeStyle
	half      int // rotated pairs per head
	base      float64
	scaling   string  // "", "linear", "yarn", "longrope"
	factor    float64 // by which the context was stretched
	original  int     // context before stretching (yarn, longrope)
	attention float64 // extra factor on the magnitude
	undivided bool    // rope_freqs.weight is not of this rotation
	undone    float64 // part of what yarn makes the magnitude larger by that is taken back
	betaFast  float64
	betaSlow  float64

	freq      []float64 // [half] radians per position
	magnitude float64   // of cos and sin
}

// readRope reads the keys; frequencies follow in prepare, when the divisors of
// rope_freqs.weight are known.
func readRope(m *metadata, headDim, context int) rope {
	r := rope{
		base:      m.number("rope.freq_base", 10000),
		scaling:   m.text("rope.scaling.type"),
		factor:    m.number("rope.scaling.factor", 0),
		original:  m.size("rope.scaling.original_context_length", max(context, 1)),
		attention: m.number("rope.scaling.attn_factor", 1),
		undone:    m.number("rope.scaling.yarn_log_multiplier", 0),
		betaFast:  m.number("rope.scaling.yarn_beta_fast", 32),
		betaSlow:  m.number("rope.scaling.yarn_beta_slow", 1),
	}
	if r.factor == 0 { // the key of older files, a plain divisor of positions
		r.factor = m.number("rope.scale_linear", 1)
	}
	dims := m.size("rope.dimension_count", max(headDim, 1))
	if dims > headDim || dims%2 != 0 {
		m.fail("rope.dimension_count", "is %d, must be even and at most the head size %d", dims, headDim)
	}
	r.half = dims / 2
	if r.base <= 0 || r.factor <= 0 {
		m.fail("rope.freq_base", "is %v with scaling factor %v; both must be positive", r.base, r.factor)
	}
	if r.undone < 0 || 1+0.1*r.undone*math.Log(r.factor) <= 0 {
		m.fail("rope.scaling.yarn_log_multiplier", "is %v, must not be negative", r.undone)
	}
	if v := m.number("rope.scaling.yarn_ext_factor", 1); r.scaling == "yarn" && v != 1 {
		m.fail("rope.scaling.yarn_ext_factor", "is %v; built is 1", v)
	}
	if v := m.number("rope.scaling.alpha", 0); v != 0 {
		m.fail("rope.scaling.alpha", "is %v; built is a base that contains it", v)
	}
	switch r.scaling {
	case "", "none":
		r.scaling = ""
		if r.factor != 1 {
			r.scaling = "linear"
		}
	case "linear", "yarn", "longrope":
	default:
		m.fail("rope.scaling.type", "is %q; supported are none, linear, yarn", r.scaling)
	}
	return r
}

// prepare computes the frequencies; divisors is [half], see loader.divisors, or
// nil. YaRN (Peng et al. 2023) blends interpolated and original frequencies by
// how often a pair turns within the original context.
func (r *rope) prepare(divisors []float32) {
	r.freq = make([]float64, r.half)
	r.magnitude = r.attention
	lo, hi := 0.0, 0.0
	if r.scaling == "yarn" {
		r.magnitude *= (1 + 0.1*math.Log(r.factor)) / (1 + 0.1*r.undone*math.Log(r.factor))
		lo = math.Max(0, math.Floor(r.turns(r.betaFast)))
		hi = math.Min(float64(2*r.half-1), math.Ceil(r.turns(r.betaSlow)))
	}
	for i := range r.freq {
		f := math.Pow(r.base, -float64(i)/float64(r.half))
		if divisors != nil && !r.undivided {
			f /= float64(divisors[i])
		}
		switch r.scaling {
		case "linear":
			f /= r.factor
		case "yarn":
			keep := 1 - math.Min(1, math.Max(0, (float64(i)-lo)/math.Max(0.001, hi-lo)))
			f = f/r.factor*(1-keep) + f*keep
		}
		r.freq[i] = f
	}
}

// turns is the pair that makes beta turns within the original context.
func (r *rope) turns(beta float64) float64 {
	return float64(2*r.half) * math.Log(float64(r.original)/(beta*2*math.Pi)) / (2 * math.Log(r.base))
}

// unscaled is the rotation before the context was stretched.
func (r rope) unscaled() rope {
	r.undivided = true
	r.scaling, r.factor, r.attention, r.undone = "", 1, 1, 0
	return r
}

// angles writes the cosine and sine, times the magnitude, of every pair at a
// position; cos and sin are [half].
func (r *rope) angles(cos, sin []float32, position int) {
	for i, f := range r.freq {
		s, c := math.Sincos(float64(position) * f)
		cos[i], sin[i] = float32(c*r.magnitude), float32(s*r.magnitude)
	}
}
