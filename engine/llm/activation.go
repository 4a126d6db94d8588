package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/vector"
)

// xielu is an activation of two curves that meet at zero (Huang and Schlag 2024): above*x^2 + slope*x for positive x,
// below*(exp(min(x, limit)) - 1 - x) + slope*x for others. The zero value is none.
type xielu struct {
	above, below, slope, limit float32
	cut                        bool // what is not positive becomes 0
}

// relu is max(x, 0).
var relu = xielu{slope: 1, cut: true}

// of is the activation of x.
func (u xielu) of(x float32) float32 {
	switch {
	case x > 0:
		return u.above*x*x + u.slope*x
	case u.cut && x <= 0:
		return 0
	case u.below == 0:
		return u.slope * x
	default:
		return float32(float64(u.below)*(math.Expm1(float64(min(x, u.limit)))-float64(x)) + float64(u.slope)*float64(x))
	}
}

// run replaces the first width values of each row of b.gate.
func (u xielu) run(c *kernel.CPU, b *batch, width, rows int) {
	if u == (xielu{}) {
		return
	}
	b.curve = curveJob{curve: u, x: b.gate, width: width}
	c.Run(&b.curve, rows, 1)
}

// curveJob computes a row.
type curveJob struct {
	curve xielu
	x     []float32
	width int
}

func (j *curveJob) Do(_, row int) {
	x := j.x[row*j.width : (row+1)*j.width]
	for i, v := range x {
		x[i] = j.curve.of(v)
	}
}

// readCurves reads the parameters of layers, which training leaves before the softplus that keeps them positive.
func readCurves(m *metadata, depth int) []xielu {
	values := func(name string) []float32 {
		list, _, err := m.f.Floats("xielu." + name)
		m.keep(err)
		for _, v := range list {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				m.failKey("xielu."+name, "holds %v, must be finite", v)
			}
		}
		if len(list) != depth {
			m.failKey("xielu."+name, "has %d values for %d layers", len(list), depth)
			return make([]float32, depth)
		}
		return list
	}
	above, below, slope, limit := values("alpha_p"), values("alpha_n"), values("beta"), values("eps")
	if m.err != nil {
		return nil
	}
	softplus := func(x float32) float32 { return float32(vector.Softplus(float64(x))) }
	curves := make([]xielu, depth)
	for i := range curves {
		curves[i] = xielu{above: softplus(above[i]), below: slope[i] + softplus(below[i]), slope: slope[i], limit: limit[i]}
	}
	return curves
}
