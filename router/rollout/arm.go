package rollout

import (
	"math"
	"time"
)

// Outcome is what became of a request that an arm answered.
type Outcome struct {
	Rollout string // that chose the arm, by its plan's ID: requests of one that is over say nothing of the next
	Arm     Arm
	Failed  bool          // an error of the server's, before or in the answer
	Missed  bool          // it missed an objective, or failed
	Empty   bool          // the answer is empty
	Length  bool          // only its limit ended it
	Refused bool          // the answer refuses
	TTFT    time.Duration // 0: not measured
	Whole   time.Duration // until the end of an answer that came in one piece, so that it has no TTFT; 0: not measured
	ITL     time.Duration // mean gap between tokens; 0: not measured
	Output  int           // tokens
	Cost    float64
}

// Copied is what became of a copy, beside the answer that the client got.
type Copied struct {
	Rollout  string // likewise
	Failed   bool
	Empty    bool
	Distance float64       // of the texts, 0 to 1
	ITL      time.Duration // of the candidate's answer; 0: not measured
	Stable   time.Duration // likewise, of the stable version's
	Output   int
	Before   int // tokens of the stable version's answer
}

// Arm is one of the two versions.
type Arm uint8

// The arms.
const (
	Stable Arm = iota
	Candidate
	numArms
)

func (a Arm) String() string {
	if a == Candidate {
		return "candidate"
	}
	return "stable"
}

// ArmOf is the arm of a name; the stable version's of any other.
func ArmOf(name string) Arm {
	if name == Candidate.String() {
		return Candidate
	}
	return Stable
}

// window counts the outcomes of one arm.
type window struct {
	n                                      int
	failed, missed, empty, length, refused int
	answered                               int // with at least a token
	output, cost                           float64
	ttft, whole, itl                       histogram
	distance                               float64
}

func (w *window) add(o *Outcome) {
	w.n++
	count := func(p *int, yes bool) {
		if yes {
			*p++
		}
	}
	count(&w.failed, o.Failed)
	count(&w.missed, o.Missed || o.Failed)
	count(&w.empty, o.Empty && !o.Failed)
	count(&w.length, o.Length)
	count(&w.refused, o.Refused)
	if !o.Failed {
		w.answered++
		w.output += float64(o.Output)
		w.cost += o.Cost
	}
	w.ttft.add(o.TTFT)
	w.whole.add(o.Whole)
	w.itl.add(o.ITL)
}

func (w *window) merge(o *window) {
	w.n += o.n
	w.failed += o.failed
	w.missed += o.missed
	w.empty += o.empty
	w.length += o.length
	w.refused += o.refused
	w.answered += o.answered
	w.output += o.output
	w.cost += o.cost
	w.distance += o.distance
	w.ttft.merge(&o.ttft)
	w.whole.merge(&o.whole)
	w.itl.merge(&o.itl)
}

// histogram holds times in buckets that grow by 5 %.
type histogram struct {
	n       int
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
	i := int(math.Log(d.Seconds()/leastBucket) / math.Log(growth))
	h.buckets[min(max(i, 0), numBuckets-1)]++
	h.n++
}

func (h *histogram) merge(o *histogram) {
	h.n += o.n
	for i := range h.buckets {
		h.buckets[i] += o.buckets[i]
	}
}

// rank is the time of the n-th sample, from 0, in seconds.
func (h *histogram) rank(n int) float64 {
	n = min(max(n, 0), h.n-1)
	for i, c := range h.buckets {
		if n -= int(c); n < 0 {
			return leastBucket * math.Pow(growth, float64(i)+0.5)
		}
	}
	return 0
}

// quantile is the time below which a share of the samples lies, moved by z standard
// deviations of its rank: with z below 0 a time that the true quantile is hardly below,
// with z above 0 one that it is hardly above.
func (h *histogram) quantile(share, z float64) float64 {
	n := float64(h.n)
	return h.rank(int(math.Round(n*share + z*math.Sqrt(n*share*(1-share)) - 0.5)))
}

// series are an arm's outcomes: of the step, and of the last moments.
type series struct {
	step   window
	recent [2]window // this span and the one before
	began  time.Time // of this span
	total  window    // of the whole rollout, for people
	harmed int       // requests that failed or got nothing, of the whole rollout
}

// span is how long outcomes count as recent, at the least; at the most twice as long.
const span = 20 * time.Second

func (s *series) add(now time.Time, o *Outcome) {
	s.turn(now)
	s.step.add(o)
	s.total.add(o)
	s.recent[0].add(o)
	if o.Failed || o.Empty {
		s.harmed++
	}
}

// turn begins another span where this one is over.
func (s *series) turn(now time.Time) {
	switch gone := now.Sub(s.began); {
	case gone < span:
		return
	case gone < 2*span:
		s.recent[1] = s.recent[0]
	default:
		s.recent[1] = window{}
	}
	s.recent[0], s.began = window{}, now
}

// last are the recent outcomes.
func (s *series) last() *window {
	sum := s.recent[0]
	sum.merge(&s.recent[1])
	return &sum
}
