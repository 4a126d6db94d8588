package bench

import (
	"math"
	"slices"
)

// rankSum is the two-sided p value of the Mann-Whitney U test: how often two
// sets of samples of the same distribution would differ at least as much as a
// and b. It asks nothing of the distribution's form. Without ties and for small
// sets it is exact; else it is the normal approximation with tie correction.
func rankSum(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	u, ties := uStatistic(a, b)
	n, m := len(a), len(b)
	if ties == 0 && n <= 25 && m <= 25 {
		return exactP(u, n, m)
	}
	total := float64(n + m)
	center := float64(n*m) / 2
	variance := float64(n*m) / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1
	}
	z := max(0, math.Abs(u-center)-0.5) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// uStatistic counts the pairs in which a is larger; equal ones count one half.
// ties is the sum of t³-t over groups of t equal values.
func uStatistic(a, b []float64) (u, ties float64) {
	all := slices.Concat(a, b)
	slices.Sort(all)
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j] == all[i] {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = max(j, i+1)
	}
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				u++
			case x == y:
				u += 0.5
			}
		}
	}
	return u, ties
}

// exactP counts, of all ways to interleave n and m samples, those whose U is at
// least as far from the centre.
func exactP(u float64, n, m int) float64 {
	// ways[k][s]: choices of k of the values seen so far with U sum s.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, n*m+1)
	}
	ways[0][0] = 1
	for rank := range n + m {
		for k := min(n, rank+1); k >= 1; k-- {
			below := rank - (k - 1) // of the other set, if the value at rank is the k-th
			if below < 0 || below > m {
				continue
			}
			for s := n * m; s >= below; s-- {
				ways[k][s] += ways[k-1][s-below]
			}
		}
	}
	center := float64(n*m) / 2
	far, all := 0.0, 0.0
	for s, w := range ways[n] {
		all += w
		if math.Abs(float64(s)-center) >= math.Abs(u-center) {
			far += w
		}
	}
	return far / all
}
