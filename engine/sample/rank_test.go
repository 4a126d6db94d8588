package sample_test

import (
	"testing"

	"weir/engine/sample"
	"weir/internal/inference"
)

// TestRankCountsWhatIsLikelier: equal tokens share a rank.
func TestRankCountsWhatIsLikelier(t *testing.T) {
	logits := []float32{1, 3, 2, 3, -1}
	for id, want := range []int32{4, 1, 3, 1, 5} {
		if got := sample.Rank(logits, inference.TokenID(id)); got != want {
			t.Errorf("token %d has rank %d, want %d", id, got, want)
		}
	}
}
