package quota

import "time"

// account is a state beside the limits that it is held against.
type account struct {
	part
	state *State
}

// accounts are those that a request counts for, of its parts that have limits.
type accounts struct {
	list [numParts]account
	n    int
}

func (a *accounts) add(x account) {
	a.list[a.n] = x
	a.n++
}

func (a *accounts) all() []account { return a.list[:a.n] }

// need is what the accounts have to have for what is asked: estimates are
// shortened to what can be had at all.
func (a *accounts) need(ask Ask) demand {
	tokens, money := false, false
	for _, x := range a.all() {
		tokens = tokens || x.limits.StrictTokens()
		money = money || x.limits.StrictMoney()
	}
	n := ask.need(tokens, money)
	for _, x := range a.all() {
		x.state.fit(x.limits, &n)
	}
	return n
}

// refusal is why a need cannot be had now, nil if it can.
func (a *accounts) refusal(n *demand) *Refusal {
	var worst *Refusal
	for _, x := range a.all() {
		if r := x.state.refusal(x.limits, n); r != nil {
			r.Model, r.Key = x.model, x.key
			worst = worse(worst, r)
		}
	}
	if worst != nil {
		worst.Remaining = a.remaining()
	}
	return worst
}

func (a *accounts) remaining() Remaining {
	var r Remaining
	for _, x := range a.all() {
		r.add(x.state, x.limits)
	}
	return r
}

func (a *accounts) refresh(now time.Time) {
	for _, x := range a.all() {
		x.state.refresh(x.limits, now)
	}
}
