package rollout

import "time"

// Place is where a rollout stands that several servers carry out together.
type Place struct {
	State State
	Step  int // from 1
	By    string
	Why   string
}

// Follow takes the rollout to where other servers have it. It never goes back a step.
func (r *Rollout) Follow(now time.Time, at Place) {
	if r.state.Over() || at.Step < 1 || at.Step > len(r.plan.Steps) {
		return
	}
	if at.State.Over() {
		r.end(now, at.State, at.By, at.Why)
		return
	}
	if at.Step-1 > r.step || at.State == Running && r.state == Paused {
		r.enter(now, max(at.Step-1, r.step))
		r.set(now, Running, at.By, at.Why)
		r.why = ""
	}
	if at.State == Paused && r.state == Running && at.Step-1 >= r.step {
		r.set(now, Paused, at.By, at.Why)
	}
}

// Follow takes the rollout of an id to where other servers have it, if it is under way.
func (c *Controller) Follow(model, id string, at Place, now time.Time) []Transition {
	list, _ := c.do(model, func(r *Rollout) error { // no rollout, no news
		if r.plan.ID == id {
			r.Follow(now, at)
		}
		return nil
	})
	return list
}
