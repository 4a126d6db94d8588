// Package brownout decides when a server that has more to do than it can lowers the
// quality of its answers, before it refuses requests. The steps come from the
// configuration, mildest first; what a step changes is applied at the edge.
//
// The controller is pure: time is an argument. It goes up or down one step at a
// time. A step is entered after its Enter thresholds were exceeded all through
// EnterAfter, and left after its Leave thresholds were kept all through LeaveAfter;
// what lies between the two changes nothing. So the steps that are in force change
// no faster than the configured times, whatever the load does.
package brownout

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"weir/internal/inference"
)

// Load is what a server is measured by, or the thresholds of it. In thresholds 0 is
// not looked at.
type Load struct {
	QueueWait    time.Duration // how long a request that comes now is expected to wait
	KVPercent    int           // KV blocks that live sequences hold, of all
	QueuePercent int           // places of the waiting queue that are taken, of all
}

// Step is one row of the configuration.
type Step struct {
	Name       string
	Enter      Load          // the step is entered where any of these is reached
	Leave      Load          // and left where all are below these; what is 0 is 3/4 of Enter's
	EnterAfter time.Duration // for so long; default 5 s
	LeaveAfter time.Duration // for so long; default 30 s

	// What is changed while the step is in force. A later step's changes count
	// before those of the steps below it.
	MaxTokens   [inference.NumClasses]int // most output tokens of a choice, by class; 0 is no limit
	Models      map[string]string         // a smaller model that answers instead, by the name that is asked for
	Speculation inference.Toggle
}

// The defaults of a step's times, and the bounds of a configuration.
const (
	DefaultEnterAfter = 5 * time.Second
	DefaultLeaveAfter = 30 * time.Second

	MaxSteps     = 16
	leavePercent = 75
	// longestGap is the time between two observations beyond which nothing is
	// believed of what lay between.
	longestGap = 10 * time.Second
)

// complete fills in the defaults.
func (s Step) complete() Step {
	if s.EnterAfter == 0 {
		s.EnterAfter = DefaultEnterAfter
	}
	if s.LeaveAfter == 0 {
		s.LeaveAfter = DefaultLeaveAfter
	}
	if s.Leave.QueueWait == 0 {
		s.Leave.QueueWait = s.Enter.QueueWait * leavePercent / 100
	}
	if s.Leave.KVPercent == 0 {
		s.Leave.KVPercent = s.Enter.KVPercent * leavePercent / 100
	}
	if s.Leave.QueuePercent == 0 {
		s.Leave.QueuePercent = s.Enter.QueuePercent * leavePercent / 100
	}
	return s
}

// Validate reports all that is wrong with the steps.
func Validate(steps []Step) error {
	var errs []error
	if len(steps) > MaxSteps {
		errs = append(errs, fmt.Errorf("there are %d steps; %d are allowed", len(steps), MaxSteps))
	}
	names := make(map[string]bool)
	for i, s := range steps {
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("brownout[%d] %.80q: %w", i, s.Name, err))
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("there are two steps called %.80q; keep one", s.Name))
		}
		names[s.Name] = true
	}
	return errors.Join(errs...)
}

func (s Step) validate() error {
	c := s.complete()
	switch {
	case !IsName(s.Name):
		return fmt.Errorf("name must be %s", NameForm)
	case s.Enter == Load{}:
		return errors.New("no threshold is set; set queue_wait, kv_percent or queue_percent")
	case s.Enter.below(Load{}) || s.Leave.below(Load{}) || c.EnterAfter < 0 || c.LeaveAfter < 0:
		return errors.New("a threshold or time is negative")
	case s.Enter.KVPercent > 100 || s.Enter.QueuePercent > 100:
		return errors.New("a threshold is above 100 percent, which is never reached")
	case !c.Leave.under(s.Enter):
		return errors.New("a threshold to leave is not below the one to enter; the step would come and go")
	case !s.changes():
		return errors.New("the step changes nothing; set max_tokens, models or speculation")
	}
	for class, n := range s.MaxTokens {
		if n < 0 {
			return fmt.Errorf("max_tokens of class %d is %d; it must be at least 1, or 0 for no limit", class, n)
		}
	}
	return nil
}

func (s Step) changes() bool {
	return s.MaxTokens != [inference.NumClasses]int{} || len(s.Models) > 0 || s.Speculation != inference.ToggleUnset
}

// below reports whether any part of l is smaller.
func (l Load) below(m Load) bool {
	return l.QueueWait < m.QueueWait || l.KVPercent < m.KVPercent || l.QueuePercent < m.QueuePercent
}

// under reports whether every part that m looks at is smaller.
func (l Load) under(m Load) bool {
	return (m.QueueWait == 0 || l.QueueWait < m.QueueWait) && (m.KVPercent == 0 || l.KVPercent < m.KVPercent) &&
		(m.QueuePercent == 0 || l.QueuePercent < m.QueuePercent)
}

// IsName reports whether a step may be called so.
func IsName(name string) bool {
	for _, b := range []byte(name) {
		word := b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '_'
		if !word {
			return false
		}
	}
	return name != "" && len(name) <= 40
}

// NameForm says what IsName takes.
const NameForm = "1 to 40 small letters, digits, dashes and underscores"

// Controller holds the steps and which of them are in force. It belongs to one
// goroutine.
type Controller struct {
	steps []Step
	level int // how many steps are in force
	last  time.Time
	hot   time.Time // since when the next step's Enter is reached; zero: it is not
	cool  time.Time // since when the current step's Leave is kept; zero: it is not
}

// New returns a controller without a step in force. The steps must pass Validate.
func New(steps []Step) (*Controller, error) {
	c := &Controller{}
	_, err := c.Replace(steps)
	return c, err
}

// Replace takes other steps, which must pass Validate, and returns how many of them are in
// force: as many as before, as far as there are so many, so that the quality does not jump
// while the load lasts. From there they are left and entered by their own thresholds, each
// of which waits for its whole time.
func (c *Controller) Replace(steps []Step) (level int, err error) {
	if err := Validate(steps); err != nil {
		return c.level, err
	}
	c.steps = make([]Step, len(steps))
	for i, s := range steps {
		c.steps[i] = s.complete()
	}
	c.level = min(c.level, len(steps))
	c.hot, c.cool = time.Time{}, time.Time{}
	return c.level, nil
}

// Observe takes in the load and returns how many of the steps are in force from now on.
// Times before those of earlier calls count as the latest of them.
func (c *Controller) Observe(now time.Time, l Load) (level int) {
	if now.Before(c.last) {
		now = c.last
	}
	if now.Sub(c.last) > longestGap {
		c.hot, c.cool = time.Time{}, time.Time{}
	}
	c.last = now
	hot := c.level < len(c.steps) && !l.under(c.steps[c.level].Enter)
	cool := c.level > 0 && l.under(c.steps[c.level-1].Leave)
	c.hot, c.cool = since(c.hot, hot, now), since(c.cool, cool, now)
	switch {
	case hot && now.Sub(c.hot) >= c.steps[c.level].EnterAfter:
		c.level++
	case cool && now.Sub(c.cool) >= c.steps[c.level-1].LeaveAfter:
		c.level--
	default:
		return c.level
	}
	c.hot, c.cool = time.Time{}, time.Time{} // each step waits for its own time
	return c.level
}

// since is the time from which on something holds.
func since(from time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case from.IsZero():
		return now
	}
	return from
}

// Effect is what the first level steps change together; nil where none is in force.
// The name is that of the last one.
func Effect(steps []Step, level int) *Step {
	if level == 0 {
		return nil
	}
	e := &Step{Models: make(map[string]string)}
	for _, s := range steps[:level] {
		e.Name = s.Name
		for c, n := range s.MaxTokens {
			if n > 0 {
				e.MaxTokens[c] = n
			}
		}
		maps.Copy(e.Models, s.Models)
		if s.Speculation != inference.ToggleUnset {
			e.Speculation = s.Speculation
		}
	}
	return e
}
