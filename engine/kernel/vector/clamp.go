package vector

import "weir/engine/kernel/isa"

// Clamp is a gated activation that large values do not drive beyond a limit, which gpt-oss has: with g = min(gate, Limit) and
// u = up within [-Limit,Limit] it is g/(1+exp(-Slope*g)) * (u+1). The zero value is none.
type Clamp struct{ Slope, Limit float32 }

// Gate computes dst = c(gate, up); dst may be either. A NaN stays one.
func (c Clamp) Gate(level isa.Level, dst, gate, up []float32) {
	clampedGLU(level, dst, gate[:len(dst)], up[:len(dst)], c)
}

func clampedGLUPortable(dst, gate, up []float32, c Clamp) {
	for i := range dst {
		g, u := min(gate[i], c.Limit), max(-c.Limit, min(up[i], c.Limit))
		dst[i] = g / (1 + Exp(-c.Slope*g)) * (u + 1)
	}
}

// AddScaled adds x times f to dst; x is at least as long as dst.
func AddScaled(level isa.Level, dst, x []float32, f float32) { addScaled(level, dst, x[:len(dst)], f) }

func addScaledPortable(dst, x []float32, f float32) {
	for i := range dst {
		dst[i] += x[i] * f
	}
}
