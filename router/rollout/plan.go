// Package rollout decides which version of a model answers a request while a new one is
// tried: first on copies whose answers are not shown, then for a growing share of the
// requests, always the same version for the same conversation. What happens to the requests
// comes back as outcomes; gates compare the two versions, and the new one is taken back by
// itself where it is worse, promoted where it was as good through all steps, and paused
// where nothing can be told. The package has no clock and starts nothing: time is an
// argument, and the owner of a Controller applies, stores and audits its transitions.
package rollout

import (
	"errors"
	"fmt"
	"time"
)

// Plan is a rollout as an operator wants it.
type Plan struct {
	ID        string `json:"id"`    // also what arms are drawn by
	Model     string `json:"model"` // the name that requests use
	Stable    string `json:"stable"`
	Candidate string `json:"candidate"` // versions

	Steps  []Step `json:"steps"`  // none: DefaultSteps
	Sticky Sticky `json:"sticky"` // "" is conversation
	Gates  Gates  `json:"gates"`

	// CopyShare is how much of the time the server that computes users' answers may give to copies beside them; 0 is 0.01, so
	// that less than one request in a hundred meets a copy. Moments without users are free.
	CopyShare float64 `json:"copy_share,omitempty"`

	// Golden are requests whose answers are known: a candidate that answers one of them otherwise has no user.
	Golden []Golden `json:"golden,omitempty"`

	// Unchecked lets a candidate have users without the check before the first one.
	Unchecked bool `json:"unchecked,omitempty"`

	// Goal is what the candidate has to be better in before it is promoted; nil: it need not be.
	Goal *Goal `json:"goal,omitempty"`

	// Compare makes it an A/B test: after the last step it waits for an operator, and it is
	// not promoted by itself.
	Compare bool `json:"compare,omitempty"`
}

// Step is a share of the requests, and what must be seen before the next one.
type Step struct {
	Shadow      float64  `json:"shadow,omitempty"` // percent of the requests that are copied to the candidate
	Percent     float64  `json:"percent"`          // of the requests that the candidate answers
	MinRequests int      `json:"min_requests"`     // that the candidate answered, or copies
	MinTime     Duration `json:"min_time"`
	MaxTime     Duration `json:"max_time"` // after it a step that cannot be judged pauses, and the candidate has no users; 0 is ten times MinTime, at least 10 min
}

// Sticky is what always gets the same arm.
type Sticky string

// The kinds of stickiness.
const (
	ByConversation Sticky = "conversation" // the tenant where the request says nothing of its conversation
	ByTenant       Sticky = "tenant"
	ByRequest      Sticky = "request"
)

// Gates are how much worse than the stable version the candidate may be. A field that is 0
// has its default, and one below 0 is no gate.
type Gates struct {
	ErrorRate     float64 `json:"error_rate,omitempty"`     // share of failed answers above the stable version's: 0.01
	DeniedRate    float64 `json:"denied_rate,omitempty"`    // share of requests answered 4xx, except for 429, as above: 0.02
	ThrottledRate float64 `json:"throttled_rate,omitempty"` // share of requests answered 429 or 503: 0.02
	EmptyRate     float64 `json:"empty_rate,omitempty"`     // share of empty answers, as above: 0.01
	LengthRate    float64 `json:"length_rate,omitempty"`    // share of answers that only their limit ended: 0.1
	RefusalRate   float64 `json:"refusal_rate,omitempty"`   // share of answers that refuse: 0.05
	TTFTRatio     float64 `json:"ttft_ratio,omitempty"`     // p95 of times to first token, or to answers in one piece, over the stable version's: 1.5
	ITLRatio      float64 `json:"itl_ratio,omitempty"`      // p95 of gaps between tokens: 1.5
	P99Ratio      float64 `json:"p99_ratio,omitempty"`      // p99 of these times: 2
	OutputRatio   float64 `json:"output_ratio,omitempty"`   // mean length of answers, longer or shorter: 2
	CostRatio     float64 `json:"cost_ratio,omitempty"`     // mean cost: 1.5
	ComputeRatio  float64 `json:"compute_ratio,omitempty"`  // computing time of a token or a row: 1.5
	BurnRate      float64 `json:"burn_rate,omitempty"`      // of the error budget of the server's objectives: 14.4
	Distance      float64 `json:"distance,omitempty"`       // mean distance of copies' answers, 0 to 1, above that of the stable version's from each other: 0.5
	MatchDrop     float64 `json:"match_drop,omitempty"`     // share of copies with the same text, below that of the stable version's; no gate by default
	SignalDrop    float64 `json:"signal_drop,omitempty"`    // mean of what is told of answers later, as a share of the stable version's below it: 0.1
	Drift         float64 `json:"drift,omitempty"`          // below 0: drift of the candidate does not take it back
}

// Duration is a time that JSON has as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("%.40q is no duration such as 90s or 5m", text)
	}
	*d = Duration(v)
	return nil
}

// DefaultSteps are those of a plan without steps of its own.
func DefaultSteps() []Step {
	steps := []Step{{Shadow: 10, MinRequests: 50, MinTime: Duration(2 * time.Minute)}}
	for _, percent := range []float64{1, 5, 25, 50, 100} {
		steps = append(steps, Step{Percent: percent, MinRequests: 100, MinTime: Duration(5 * time.Minute)})
	}
	return steps
}

const (
	maxSteps    = 32
	maxStepTime = 30 * 24 * time.Hour
	leastMax    = 10 * time.Minute
)

// WithDefaults fills in what a plan leaves out, or says what is wrong with it.
func (p Plan) WithDefaults() (Plan, error) {
	if len(p.Steps) == 0 {
		p.Steps = DefaultSteps()
	}
	p.Steps = append([]Step(nil), p.Steps...)
	if p.Sticky == "" {
		p.Sticky = ByConversation
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; s.MaxTime == 0 {
			s.MaxTime = max(10*s.MinTime, Duration(leastMax))
		}
	}
	p.Gates.fill()
	if p.CopyShare == 0 {
		p.CopyShare = 0.01
	}
	if err := p.check(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return p, nil
}

// fill gives the gates that are not set their defaults.
func (g *Gates) fill() {
	for _, one := range []struct {
		p     *float64
		usual float64
	}{
		{&g.ErrorRate, 0.01}, {&g.DeniedRate, 0.02}, {&g.ThrottledRate, 0.02}, {&g.EmptyRate, 0.01}, {&g.LengthRate, 0.1}, {&g.RefusalRate, 0.05},
		{&g.TTFTRatio, 1.5}, {&g.ITLRatio, 1.5}, {&g.P99Ratio, 2}, {&g.OutputRatio, 2}, {&g.CostRatio, 1.5}, {&g.ComputeRatio, 1.5},
		{&g.BurnRate, 14.4}, {&g.Distance, 0.5}, {&g.MatchDrop, -1}, {&g.SignalDrop, 0.1}, {&g.Drift, 1},
	} {
		if *one.p == 0 {
			*one.p = one.usual
		}
	}
}

// goalStep is the last step in which both versions answer, where the goal has to be shown; -1: there is no goal or no such step.
func (p *Plan) goalStep() int {
	for i := len(p.Steps) - 1; i >= 0 && p.Goal != nil; i-- {
		if s := &p.Steps[i]; s.Percent > 0 && s.Percent < 100 {
			return i
		}
	}
	return -1
}

var (
	// ErrPlan says that a plan cannot be carried out.
	ErrPlan = errors.New("this is no plan of a rollout")
	// ErrCheck says that a candidate answers wrongly before it has users.
	ErrCheck = errors.New("the candidate does not pass its check, and no user gets it")
)

func (p *Plan) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case p.Model == "" || p.Stable == "" || p.Candidate == "" || p.ID == "":
		wrong("a rollout needs an id, a model, its stable version and a candidate")
	case p.Stable == p.Candidate:
		wrong("the candidate %q is the stable version", p.Candidate)
	}
	if p.Sticky != ByConversation && p.Sticky != ByTenant && p.Sticky != ByRequest {
		wrong("sticky is %.40q; it must be conversation, tenant or request", string(p.Sticky))
	}
	if !(p.CopyShare > 0 && p.CopyShare <= 1) {
		wrong("copy_share is %g; it must be above 0 and at most 1", p.CopyShare)
	}
	if len(p.Steps) > maxSteps {
		wrong("there are %d steps, limit %d", len(p.Steps), maxSteps)
	}
	last := 0.0
	for i, s := range p.Steps {
		switch {
		case !(s.Percent >= 0 && s.Percent <= 100) || !(s.Shadow >= 0 && s.Shadow <= 100) || s.Percent == 0 && s.Shadow == 0:
			wrong("step %d: percent is %g and shadow %g; they must be from 0 to 100, and not both 0", i+1, s.Percent, s.Shadow)
		case s.Percent < last:
			wrong("step %d: percent is %g, below the %g of the step before; shares only grow", i+1, s.Percent, last)
		case s.MinRequests < 1 || s.MinRequests > 1e9:
			wrong("step %d: min_requests is %d; it must be at least 1", i+1, s.MinRequests)
		case time.Duration(s.MaxTime) > maxStepTime || s.MaxTime < s.MinTime:
			wrong("step %d: max_time is %v; it must be from min_time to %v", i+1, time.Duration(s.MaxTime), maxStepTime)
		}
		last = max(last, s.Percent)
	}
	for _, g := range []struct {
		name  string
		value float64
	}{
		{"ttft_ratio", p.Gates.TTFTRatio}, {"itl_ratio", p.Gates.ITLRatio}, {"p99_ratio", p.Gates.P99Ratio}, {"output_ratio", p.Gates.OutputRatio},
		{"cost_ratio", p.Gates.CostRatio}, {"compute_ratio", p.Gates.ComputeRatio},
	} {
		if g.value >= 0 && g.value < 1 {
			wrong("%s is %g; it must be at least 1, or below 0 for no gate", g.name, g.value)
		}
	}
	if g := p.Goal; g != nil && !(g.Signal < numSignals && g.Gain >= 0 && g.Gain < 1) {
		wrong("the goal's gain is %g; it must be from 0 to below 1", g.Gain)
	}
	if p.Gates.SignalDrop >= 1 {
		wrong("signal_drop is %g; it must be below 1, or below 0 for no gate", p.Gates.SignalDrop)
	}
	if p.Goal != nil && p.goalStep() < 0 {
		wrong("the goal needs a step in which both versions answer: one with percent above 0 and below 100")
	}
	errs = append(errs, checkGolden(p.Golden))
	return errors.Join(errs...)
}
