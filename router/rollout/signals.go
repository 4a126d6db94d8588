package rollout

import (
	"container/list"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
)

// SignalKind is what is told of an answer later: by the user who got it, or by what came
// to be known. Each is from 0 to 1, and more is better.
type SignalKind uint8

// The kinds.
const (
	Conversion SignalKind = iota // what was hoped for came of it; an answer of which nothing is told has none
	Thumbs                       // the reader liked it, or not
	Label                        // how right it was
	numSignals
)

var signalNames = [numSignals]string{"conversion", "thumbs", "label"}

func (k SignalKind) String() string { return signalNames[k] }

// MarshalText implements encoding.TextMarshaler.
func (k SignalKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *SignalKind) UnmarshalText(text []byte) error {
	for i, name := range signalNames {
		if string(text) == name {
			*k = SignalKind(i) //nolint:gosec // few
			return nil
		}
	}
	return fmt.Errorf("%.40q is no signal; it must be one of %s", text, strings.Join(signalNames[:], ", "))
}

// Signal is a later word about an answer.
type Signal struct {
	ID     string // of the answer
	Tenant string // whose it is
	Kind   SignalKind
	Value  float64 // 0 to 1
}

// check says what is wrong with a signal; nil: nothing.
func (s *Signal) check() error {
	if s.Kind >= numSignals || !(s.Value >= 0 && s.Value <= 1) {
		return fmt.Errorf("%w: its value is %g; it must be from 0 to 1", ErrSignal, s.Value)
	}
	return nil
}

var (
	// ErrUnknownAnswer says that nothing is known of an answer's id: it is too old, is
	// another tenant's, or belongs to no rollout.
	ErrUnknownAnswer = errors.New("no answer of this id belongs to a rollout that is under way")
	// ErrSignal says that a signal cannot be taken.
	ErrSignal = errors.New("this is no signal about an answer")
)

// Goal is what a candidate has to be better in, before it is promoted.
type Goal struct {
	Signal SignalKind `json:"signal"`
	Gain   float64    `json:"gain"` // by at least so much of the stable version's mean above it: 0.05 is 5 % more
}

// judgeSignals takes a candidate back whose signals are worse. It compares answers of one
// step alone: what comes of an answer takes its time, and older ones have had more.
func (g *Gates) judgeSignals(stable, candidate *window) verdictReason {
	all := verdictReason{verdict: good}
	for kind := range numSignals {
		all.take(judgeDrop(kind, g.SignalDrop, stable.Signals[kind], candidate.Signals[kind]))
	}
	return all
}

func judgeDrop(kind SignalKind, gate float64, s, c boundedStats) verdictReason {
	if gate < 0 || c.mean() >= (1-gate)*s.mean() {
		return verdictReason{verdict: good} // or no outcomes are reported
	}
	j := verdictReason{why: fmt.Sprintf("%s is %.3g of %d, and %.3g of %d for the stable version; the gate is %g of that below it", kind, c.mean(), c.N, s.mean(), s.N, gate)}
	switch e := evidenceOfLess(s, c, 1-gate); {
	case e >= sure:
		j.verdict = bad
	case e < doubt:
		j.verdict = good // such signals are rare, and vary
	}
	return j
}

// doubt is the evidence from which a step waits for more signals.
const doubt = 1.0

// sureOfGoal is the evidence that a goal is reached: by chance one in twenty times.
const sureOfGoal = 3.0

// judge reports whether the candidate is better by the gain.
func (g *Goal) judge(s, c boundedStats) verdictReason {
	if evidenceOfMore(s, c, 1+g.Gain) >= sureOfGoal {
		return verdictReason{verdict: good}
	}
	return verdictReason{why: fmt.Sprintf("the goal is not shown yet: %s is %.3g of %d, and %.3g of %d for the stable version; it must be clearly more than %g times that",
		g.Signal, c.mean(), c.N, s.mean(), s.N, 1+g.Gain)}
}

// answers remembers which arm gave the last answers, by their ids: signals come later.
type answers struct {
	seed maphash.Seed
	byID map[uint64]*list.Element
	age  list.List // of *answer, the oldest first
}

// answer is what is remembered of one.
type answer struct {
	id      uint64
	model   string
	rollout string
	arm     Arm
	step    int
	told    [numSignals]bool
	value   [numSignals]float64
}

// maxAnswers bounds the memory of answers: about 12 MB.
const maxAnswers = 1 << 16

func newAnswers() *answers {
	return &answers{seed: maphash.MakeSeed(), byID: make(map[uint64]*list.Element)}
}

// key is made of an answer's id and its tenant, so that a tenant reports outcomes of its own answers only.
func (a *answers) key(tenant, id string) uint64 {
	return maphash.String(a.seed, tenant+"\x00"+id)
}

func (a *answers) add(tenant, id string, one answer) {
	one.id = a.key(tenant, id)
	if old := a.byID[one.id]; old != nil {
		a.age.Remove(old) // a client used its id twice
	}
	a.byID[one.id] = a.age.PushBack(&one)
	if a.age.Len() > maxAnswers {
		oldest := a.age.Remove(a.age.Front()).(*answer)
		delete(a.byID, oldest.id)
	}
}

// of is an answer that is remembered; nil: it is not.
func (a *answers) of(tenant, id string) *answer {
	if e := a.byID[a.key(tenant, id)]; e != nil {
		return e.Value.(*answer)
	}
	return nil
}

// tell notes a signal, and gives what it adds: told again it replaces what was told.
func (a *answer) tell(kind SignalKind, value float64) boundedStats {
	more := boundedStats{1, value - a.value[kind]}
	if a.told[kind] || kind == Conversion { // answers without a conversion count as such
		more.N = 0
	}
	a.told[kind], a.value[kind] = true, value
	return more
}
