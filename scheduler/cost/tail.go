package cost

import "math"

// tail is a histogram of how many times its estimate a step took, of recent
// steps. Its bins are equally wide in the logarithm.
type tail struct {
	bins   [tailBins]float64
	total  float64
	weight float64 // of the next observation: grows, so that older ones fade
}

const (
	tailBins  = 128
	tailLeast = 0.75               // ratio of the first bin
	tailStep  = 0.02               // of the logarithm, from bin to bin: the last one is 9.5
	tailFade  = 1 + 1.0/tailMemory // of the weight
	// tailMemory is how many steps are remembered, with fading weight: enough
	// that one in a hundred is a handful of them.
	tailMemory = 1000
	// tailStart is what is believed of the slowest step in a hundred until a
	// hundred were seen.
	tailStart = 1.33
)

func newTail() tail {
	t := tail{weight: 1}
	t.add(tailStart)
	return t
}

func (t *tail) add(ratio float64) {
	bin := math.Ceil(math.Log(max(ratio, tailLeast)/tailLeast) / tailStep)
	t.bins[int(min(bin, tailBins-1))] += t.weight
	t.total += t.weight
	if t.weight *= tailFade; t.weight > 1e100 {
		for i := range t.bins {
			t.bins[i] /= t.weight
		}
		t.total /= t.weight
		t.weight = 1
	}
}

// slowest is the ratio that all but one step in a hundred stay within.
func (t *tail) slowest() float64 {
	above := 0.0
	for i := tailBins - 1; i > 0; i-- {
		if above += t.bins[i]; above > t.total/100 {
			return tailLeast * math.Exp(float64(i)*tailStep)
		}
	}
	return tailLeast
}

// Share's bounds: a step is always planned to less than its bound, since
// machines have slow moments, and an unsteady machine still does some work.
const (
	leastShare = 0.4
	mostShare  = 0.95
)

// Share is the part of a bound that a step beside outputs may be estimated to
// take, so that all but one in a hundred keep the bound.
func (m *Model) Share() float64 {
	return min(max(1/m.tail.slowest(), leastShare), mostShare)
}
