package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What choices take until each of their ends is the sum over them, counted one by one.
func TestWindowGrowthIsTheSumOverChoices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		pages, most := 1+rng.IntN(7), rng.IntN(60)
		w := newWindowGrowth(pages, most)
		for range 2 { // once again after reset
			ends := make([]int, 1+rng.IntN(40))
			for i := range ends {
				ends[i] = rng.IntN(20)
			}
			slices.SortFunc(ends, func(a, b int) int { return b - a })
			var mosts []int
			w.reset()
			for i, end := range ends {
				mosts = append(mosts, rng.IntN(most+1))
				want := 0
				for _, m := range mosts {
					want += min(m, end*pages)
				}
				if got := w.until(end, mosts[i]); got != want {
					t.Fatalf("%d pages, ends %v, at most %v: %d, want %d", pages, ends[:i+1], mosts, got, want)
				}
			}
		}
	}
}
