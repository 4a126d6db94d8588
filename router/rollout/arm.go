package rollout

import (
	"time"
)

// Outcome is what happened to a request that an arm answered.
type Outcome struct {
	Rollout   string // that chose the arm, by its plan's ID: requests of one that is over say nothing of the next
	Arm       Arm
	ID        string // of the answer, and whose it is: signals name it
	Tenant    string
	Key       uint64        // of the request's draw: see Decision
	Failed    bool          // an error of the server's, before or in the answer
	Throttled bool          // 429 or 503
	Denied    bool          // another 4xx: the arm refuses the request
	Missed    bool          // it missed an objective, or failed
	Empty     bool          // the answer is empty
	Length    bool          // only its limit ended it
	Refused   bool          // the answer refuses
	TTFT      time.Duration // 0: not measured
	Whole     time.Duration // until the end of an answer that came in one piece, so that it has no TTFT; 0: not measured
	ITL       time.Duration // mean gap between tokens; 0: not measured
	Compute   time.Duration // for a token of the answer, or a row; 0: not measured
	Output    int           // tokens
	Cost      float64
}

// harms reports whether the caller got no answer.
func (o *Outcome) harms() bool { return o.Failed || o.Empty || o.Denied || o.Throttled }

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
	N         int `json:"n"`
	Failed    int `json:"failed,omitempty"`
	Throttled int `json:"throttled,omitempty"`
	Denied    int `json:"denied,omitempty"`
	Missed    int `json:"missed,omitempty"`
	Empty     int `json:"empty,omitempty"`
	Length    int `json:"length,omitempty"`
	Refused   int `json:"refused,omitempty"`

	Output  momentSums               `json:"output"` // of those that were answered, as are costs
	Cost    momentSums               `json:"cost"`
	TTFT    histogram                `json:"ttft"`
	Whole   histogram                `json:"whole"`
	ITL     histogram                `json:"itl"`
	Compute histogram                `json:"compute"`
	Signals [numSignals]boundedStats `json:"signals"`
}

func (w *window) add(o *Outcome) {
	w.N++
	count := func(p *int, yes bool) {
		if yes {
			*p++
		}
	}
	count(&w.Failed, o.Failed)
	count(&w.Throttled, o.Throttled)
	count(&w.Denied, o.Denied)
	count(&w.Missed, o.Missed || o.Failed)
	count(&w.Empty, o.Empty && !o.Failed)
	count(&w.Length, o.Length)
	count(&w.Refused, o.Refused)
	if !o.Failed && !o.Denied && !o.Throttled {
		w.Output.add(float64(o.Output))
		w.Cost.add(o.Cost)
		w.Signals[Conversion].N++ // until one is told there is none
	}
	w.TTFT.add(o.TTFT)
	w.Whole.add(o.Whole)
	w.ITL.add(o.ITL)
	w.Compute.add(o.Compute)
}

func (w *window) merge(o *window) {
	w.N += o.N
	w.Failed += o.Failed
	w.Throttled += o.Throttled
	w.Denied += o.Denied
	w.Missed += o.Missed
	w.Empty += o.Empty
	w.Length += o.Length
	w.Refused += o.Refused
	w.Output.merge(o.Output)
	w.Cost.merge(o.Cost)
	w.TTFT.merge(&o.TTFT)
	w.Whole.merge(&o.Whole)
	w.ITL.merge(&o.ITL)
	w.Compute.merge(&o.Compute)
	for i := range w.Signals {
		w.Signals[i].merge(o.Signals[i])
	}
}

// series are an arm's outcomes: of the step, and of the last moments.
type series struct {
	step   window
	recent [2]window // this span and the one before
	began  time.Time // of this span
	total  window    // of the whole rollout, for people
	harmed int       // requests that failed or got nothing, of the whole rollout

	denied map[uint64]struct{} // keys that the arm refused something in this step
}

// span is how long outcomes count as recent, at the least; at the most twice as long.
const span = 20 * time.Second

// maxDenied bounds the keys that are remembered.
const maxDenied = 4096

func (s *series) add(now time.Time, o *Outcome) {
	s.turn(now)
	s.total.add(o)
	if o.harms() {
		s.harmed++
	}
	if (o.Denied || o.Throttled) && !s.first(o.Key) {
		return
	}
	s.step.add(o)
	s.recent[0].add(o)
}

// first reports whether a key is refused something for the first time in the step: one
// caller who asks wrongly again and again, always of the same arm, says nothing of the
// version.
func (s *series) first(key uint64) bool {
	if _, again := s.denied[key]; again || len(s.denied) >= maxDenied {
		return false
	}
	if s.denied == nil {
		s.denied = make(map[uint64]struct{})
	}
	s.denied[key] = struct{}{}
	return true
}

// signal takes in a later word about an answer of this step (fresh) or of one before.
func (s *series) signal(kind SignalKind, fresh bool, more boundedStats) {
	s.total.Signals[kind].merge(more)
	if fresh {
		s.step.Signals[kind].merge(more)
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
