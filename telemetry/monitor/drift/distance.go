package drift

import "math"

// Distance is how far two distributions over the same bins are apart.
type Distance struct {
	// PSI is the population stability index; below 0.1 is taken as stable, above 0.2 or
	// 0.25 as a shift. A sample of n rows in B bins has about (B-1)/n by chance.
	PSI float64 `json:"psi"`
	// JS is the Jensen-Shannon distance to the base 2: 0 where they are equal, 1 where they
	// share nothing.
	JS float64 `json:"js"`
	// KS is the largest difference between the cumulative shares at the bins' edges; 0 for
	// categories, which have no order.
	KS float64 `json:"ks"`
}

// measure compares counts by bin. Both have the missing values last, as a bin of their
// own, which KS leaves out.
func measure(reference, now []int64, ordered bool) Distance {
	var d Distance
	a, b := total(reference), total(now)
	if a == 0 || b == 0 {
		return d
	}
	// Half a row in each bin keeps empty ones from an infinite index.
	bins := float64(len(reference))
	smoothA, smoothB := float64(a)+bins/2, float64(b)+bins/2
	js := 0.0
	for i := range reference {
		p, q := (float64(reference[i])+0.5)/smoothA, (float64(now[i])+0.5)/smoothB
		d.PSI += (q - p) * math.Log(q/p)
		p, q = float64(reference[i])/float64(a), float64(now[i])/float64(b)
		js += half(p, (p+q)/2) + half(q, (p+q)/2)
	}
	d.JS = math.Sqrt(max(js, 0) / 2)
	if ordered {
		d.KS = steps(reference[:len(reference)-1], now[:len(now)-1])
	}
	return d
}

func half(p, m float64) float64 {
	if p == 0 {
		return 0
	}
	return p * math.Log2(p/m)
}

func steps(reference, now []int64) float64 {
	a, b := total(reference), total(now)
	if a == 0 || b == 0 {
		return 0
	}
	var sumA, sumB int64
	largest := 0.0
	for i := range reference {
		sumA, sumB = sumA+reference[i], sumB+now[i]
		largest = max(largest, math.Abs(float64(sumA)/float64(a)-float64(sumB)/float64(b)))
	}
	return largest
}

func total(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
