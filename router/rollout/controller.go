package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Controller holds the rollouts of a server: at most one of each model that is not over. It
// is safe for concurrent use. Transitions are what its methods have changed; the caller
// applies, stores and audits them.
type Controller struct {
	mu     sync.RWMutex
	active map[string]*lockedRollout // by model
	past   []*lockedRollout          // the last ones that are over
	killed bool

	seen    sync.Mutex // guards answers
	answers *answers
	keep    func(o *Outcome, step int) // a Journal's, in the place of answers; nil: there is none
}

// lockedRollout is a rollout with a lock of its own, so that models do not wait for each other.
type lockedRollout struct {
	mu sync.Mutex
	*Rollout
}

// maxPast is how many rollouts that are over are shown.
const maxPast = 20

// NewController has no rollouts.
func NewController() *Controller {
	return &Controller{active: make(map[string]*lockedRollout), answers: newAnswers()}
}

var (
	// ErrNone says that a model has no rollout.
	ErrNone = errors.New("no rollout of this model is under way")
	// ErrTaken says that a model has one already.
	ErrTaken = errors.New("a rollout of this model is under way")
	// ErrKilled says that rollouts are switched off.
	ErrKilled = errors.New("rollouts are switched off until the server restarts")
)

// Free says why a rollout of a model cannot begin now; nil: it can.
func (c *Controller) Free(model string) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.free(model)
}

func (c *Controller) free(model string) error {
	switch a := c.active[model]; {
	case c.killed:
		return ErrKilled
	case a != nil:
		return fmt.Errorf("%w: %s, which is %s; promote or abort it first", ErrTaken, a.plan.ID, a.state)
	}
	return nil
}

// Add takes a rollout in: a new one, or one that was kept.
func (c *Controller) Add(r *Rollout) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &lockedRollout{Rollout: r}
	if r.state.Over() {
		c.bury(g)
		return nil
	}
	err := c.free(r.plan.Model)
	if err == nil {
		c.active[r.plan.Model] = g
	}
	return err
}

// bury keeps a rollout that is over for people to see. The caller holds mu.
func (c *Controller) bury(g *lockedRollout) {
	c.past = append(c.past, g)
	if len(c.past) > maxPast {
		c.past = c.past[1:]
	}
}

func (c *Controller) of(model string) *lockedRollout {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.active[model]
}

// Choose decides for a request; ok is false where its model has no rollout. Where the request may not go to the
// candidate (mayGo; nil: it may), it is in no arm, and neither copied nor counted: the stable version answers it.
func (c *Controller) Choose(model, tenant, conversation, request string, mayGo func(version string) bool) (d Decision, ok bool) {
	g := c.of(model)
	if g == nil {
		return d, false
	}
	if mayGo != nil && !mayGo(g.plan.Candidate) {
		return g.plan.inPlace(), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Choose(g.plan.key(tenant, conversation, request)), true
}

// Stable is the stable version of a model's rollout, in place of its candidate. What it answers that way counts for no arm:
// it is no sample of its own requests.
func (c *Controller) Stable(model string) (d Decision, ok bool) {
	g := c.of(model)
	if g == nil {
		return d, false
	}
	return g.plan.inPlace(), true
}

// inPlace is the decision for the stable version in place of the candidate.
func (p *Plan) inPlace() Decision { return Decision{Version: p.Stable} }

// Spare reports whether the stable version may be asked for a request that the candidate has failed.
func (c *Controller) Spare(model, id string) (may bool) {
	g := c.of(model)
	if g == nil || g.plan.ID != id {
		return true // it is over, and has harmed enough
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spare()
}

// key is what gets the same arm each time.
func (p *Plan) key(tenant, conversation, request string) string {
	switch p.Sticky {
	case ByRequest:
		return request
	case ByConversation:
		if conversation != "" {
			return tenant + "\x00" + conversation
		}
	case ByTenant:
	}
	return tenant
}

// do works on a model's rollout, and gives its transitions.
func (c *Controller) do(model string, f func(r *Rollout) error) ([]Transition, error) {
	g := c.of(model)
	if g == nil {
		return nil, fmt.Errorf("%w: %q", ErrNone, model)
	}
	g.mu.Lock()
	err := f(g.Rollout)
	list, over := g.Take(), g.state.Over()
	g.mu.Unlock()
	if over {
		c.mu.Lock()
		if c.active[model] == g {
			delete(c.active, model)
			c.bury(g)
		}
		c.mu.Unlock()
	}
	return list, err
}

// Observe takes in what happened to a request, if the rollout that chose its arm runs still.
func (c *Controller) Observe(model string, now time.Time, o *Outcome) []Transition {
	list, _ := c.do(model, func(r *Rollout) error { // no rollout, no news
		if r.plan.ID == o.Rollout {
			c.remember(model, r.step, o)
			r.Observe(now, o)
		}
		return nil
	})
	return list
}

// remember notes whose answer an id is, for signals.
func (c *Controller) remember(model string, step int, o *Outcome) {
	if o.ID == "" || o.harms() || o.Arm >= numArms {
		return
	}
	if c.keep != nil {
		c.keep(o, step)
		return
	}
	c.seen.Lock()
	defer c.seen.Unlock()
	c.answers.add(o.Tenant, o.ID, answer{model: model, rollout: o.Rollout, arm: o.Arm, step: step})
}

// Tell takes in what is told of an answer later. The same word told again changes nothing,
// and another one replaces it.
func (c *Controller) Tell(now time.Time, s *Signal) ([]Transition, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	c.seen.Lock()
	one := c.answers.of(s.Tenant, s.ID) // what was told of it belongs to its rollout, and has that one's lock
	c.seen.Unlock()
	if one == nil {
		return nil, fmt.Errorf("%w: %.80q", ErrUnknownAnswer, s.ID)
	}
	known := false
	list, _ := c.do(one.model, func(r *Rollout) error {
		if known = r.plan.ID == one.rollout; known {
			r.tell(now, one.arm, one.step, s.Kind, one.tell(s.Kind, s.Value))
		}
		return nil
	})
	if !known {
		return nil, fmt.Errorf("%w: %.80q; its rollout is over", ErrUnknownAnswer, s.ID)
	}
	return list, nil
}

// count takes in a word that a Journal has kept, if the rollout of the id is under way.
func (c *Controller) count(id string, now time.Time, u *UncountedOutcome) []Transition {
	if u.Arm >= numArms || u.Kind >= numSignals {
		return nil // of another weir
	}
	more := boundedStats{1, u.Value}
	if u.Before != nil {
		more = boundedStats{0, u.Value - *u.Before}
	}
	if u.Kind == Conversion { // answers without one count as such
		more.N = 0
	}
	list, _ := c.do(c.ModelOf(id), func(r *Rollout) error { // no rollout, no news
		if r.plan.ID == id {
			r.tell(now, u.Arm, u.Step, u.Kind, more)
		}
		return nil
	})
	return list
}

// ModelOf is the model of a rollout that is not over; "": there is none.
func (c *Controller) ModelOf(id string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for model, g := range c.active {
		if g.plan.ID == id {
			return model
		}
	}
	return ""
}

// Compare takes in what happened to a copy, if the rollout that it was made for runs still.
func (c *Controller) Compare(model string, now time.Time, o *Copied) []Transition {
	list, _ := c.do(model, func(r *Rollout) error {
		if r.plan.ID == o.Rollout {
			r.Compare(now, o)
		}
		return nil
	})
	return list
}

// Alarm takes a candidate back. version is whose alarm it is.
func (c *Controller) Alarm(model, version, rule, why string, now time.Time) []Transition {
	list, _ := c.do(model, func(r *Rollout) error {
		if r.plan.Candidate == version {
			r.Alarm(now, rule, why)
		}
		return nil
	})
	return list
}

// Begun gives the transitions with which a model's rollout began, unless Tick or another call gave them already: after Add, the rollout
// is the controller's, and what reads it needs its lock.
func (c *Controller) Begun(model string) []Transition {
	list, _ := c.do(model, func(*Rollout) error { return nil })
	return list
}

// Tick moves all rollouts on.
func (c *Controller) Tick(now time.Time) (all []Transition) {
	for _, model := range c.models() {
		list, _ := c.do(model, func(r *Rollout) error { r.Tick(now); return nil })
		all = append(all, list...)
	}
	return all
}

func (c *Controller) models() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var list []string
	for model := range c.active {
		list = append(list, model)
	}
	slices.Sort(list)
	return list
}

// Decide is an operator's word: "promote", "abort", "pause", "resume".
func (c *Controller) Decide(model, what, by string, now time.Time) ([]Transition, error) {
	return c.do(model, func(r *Rollout) error {
		switch what {
		case "promote":
			return r.Promote(now, by)
		case "abort":
			return r.Abort(now, by, "aborted")
		case "pause":
			return r.Pause(now, by)
		case "resume":
			return r.Resume(now, by)
		}
		return fmt.Errorf("%w: the action is %.40q; it must be promote, abort, pause or resume", ErrPlan, what)
	})
}

// Replace ends what rollouts of a model's past say: an operator has moved the name to a version, so that a restart must not promote again,
// nor withhold the name from a candidate that was taken back.
func (c *Controller) Replace(model, label, by string, now time.Time) (all []Transition) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, g := range c.past {
		if g.plan.Model != model {
			continue
		}
		g.mu.Lock()
		_ = g.Replace(now, label, by) // the others stay as they are
		all = append(all, g.Take()...)
		g.mu.Unlock()
	}
	return all
}

// Kill aborts all rollouts and takes no new ones.
func (c *Controller) Kill(by string, now time.Time) (all []Transition) {
	c.mu.Lock()
	c.killed = true
	c.mu.Unlock()
	for _, model := range c.models() {
		list, _ := c.do(model, func(r *Rollout) error { return r.Abort(now, by, "all rollouts were switched off") })
		all = append(all, list...)
	}
	return all
}

// List describes all rollouts, those that are under way first.
func (c *Controller) List(now time.Time) []Status {
	c.mu.RLock()
	var list []*lockedRollout
	for _, g := range c.active {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *lockedRollout) int { return strings.Compare(a.plan.Model, b.plan.Model) })
	for _, g := range slices.Backward(c.past) {
		list = append(list, g)
	}
	c.mu.RUnlock()
	var all []Status
	for _, g := range list {
		g.mu.Lock()
		all = append(all, g.Status(now))
		g.mu.Unlock()
	}
	return all
}

// Record is what a Store keeps of the rollout of an id.
func (c *Controller) Record(id string, now time.Time) (StoredRecord, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, g := range c.active {
		if g.plan.ID == id {
			return g.record(now)
		}
	}
	for _, g := range c.past {
		if g.plan.ID == id {
			return g.record(now)
		}
	}
	return StoredRecord{}, fmt.Errorf("%w: %s", ErrNone, id)
}

// Seen is how much has been seen of each rollout that is not over, by its id: what is kept
// of it is to be kept again where this has changed.
func (c *Controller) Seen() map[string]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	seen := make(map[string]int, len(c.active))
	for _, g := range c.active {
		g.mu.Lock()
		seen[g.plan.ID] = g.seen
		g.mu.Unlock()
	}
	return seen
}

func (g *lockedRollout) record(now time.Time) (StoredRecord, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, err := g.Record(now)
	return StoredRecord{g.state, text}, err
}
