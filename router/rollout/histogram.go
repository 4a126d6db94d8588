package rollout

import (
	"encoding/json"
	"errors"
	"math"
	"time"
)

// histogram holds times in buckets that grow by 5 %.
type histogram struct {
	N       int
	buckets [numBuckets]uint32
}

const (
	numBuckets  = 400
	growth      = 1.05
	leastBucket = 10e-6 // seconds; the last one is beyond 50 minutes
)

func (h *histogram) add(d time.Duration) {
	if d <= 0 {
		return
	}
	h.buckets[bucketOf(d.Seconds())]++
	h.N++
}

func bucketOf(seconds float64) int {
	return min(max(int(math.Log(seconds/leastBucket)/math.Log(growth)), 0), numBuckets-1)
}

// above is how many samples are in buckets above that of a time.
func (h *histogram) above(seconds float64) (n int) {
	for _, c := range h.buckets[bucketOf(seconds)+1:] {
		n += int(c)
	}
	return n
}

func (h *histogram) merge(o *histogram) {
	if o.N == 0 {
		return
	}
	h.N += o.N
	for i := range h.buckets {
		h.buckets[i] += o.buckets[i]
	}
}

// rank is the time of the n-th sample, from 0, in seconds.
func (h *histogram) rank(n int) float64 {
	n = min(max(n, 0), h.N-1)
	for i, c := range h.buckets {
		if n -= int(c); n < 0 {
			return leastBucket * math.Pow(growth, float64(i)+0.5)
		}
	}
	return 0
}

// quantile is the time below which a share of the samples lies; 0 of none.
func (h *histogram) quantile(share float64) float64 {
	if h.N == 0 {
		return 0
	}
	return h.rank(int(math.Round(float64(h.N)*share - 0.5)))
}

// MarshalJSON writes the buckets that have something: their places and counts by turns.
func (h histogram) MarshalJSON() ([]byte, error) {
	pairs := []uint32{}
	for i, c := range h.buckets {
		if c > 0 {
			pairs = append(pairs, uint32(i), c) //nolint:gosec // few
		}
	}
	return json.Marshal(pairs)
}

var errHistogram = errors.New("a rollout's times are no pairs of a bucket and a count")

// UnmarshalJSON reads them.
func (h *histogram) UnmarshalJSON(data []byte) error {
	var pairs []uint32
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	*h = histogram{}
	if len(pairs)%2 != 0 {
		return errHistogram
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] >= numBuckets {
			return errHistogram
		}
		h.buckets[pairs[i]] += pairs[i+1]
		h.N += int(pairs[i+1])
	}
	return nil
}
