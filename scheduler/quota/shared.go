package quota

import "time"

// What a meter needs that keeps states elsewhere, in Redis, where a script does what
// the methods of State do. The script decides; what stands here explains to the
// client what it decided, from the states that it returns.

// Part is one of the states that a request counts for.
type Part struct{ part }

// Limits are those that the state is held against.
func (p *Part) Limits() *Limits { return p.limits }

// Field names the state among its tenant's: "" is that of all models and keys.
func (p *Part) Field() string {
	if p.account != "" {
		return "\x00" + p.account // no model's name begins so
	}
	return p.model
}

// Parts are the states that a holder's requests count for, as far as they have limits: the tenant's first, then
// the tenant's of the model, then the key's.
func (h *Holder) Parts() []Part {
	var list []Part
	for _, p := range h.parts() {
		if !p.limits.Unlimited() {
			list = append(list, Part{p})
		}
	}
	return list
}

func accountsOf(parts []Part, states []State) accounts {
	var of accounts
	for i, p := range parts {
		of.add(account{p.part, &states[i]})
	}
	return of
}

// HasBudgets reports whether the holder has a budget of a day or a month.
func (h *Holder) HasBudgets() bool {
	for _, p := range h.parts() {
		if p.limits.hasBudget() {
			return true
		}
	}
	return false
}

// PeriodsOf are the day and the month of a time, as a State counts them.
func PeriodsOf(now time.Time) (day, month int64) { return periods(now.UnixMilli()) }

// Clamped is the ask with counts that can be.
func (a Ask) Clamped() Ask { return a.clamped() }

// Clamped is the use with counts that can be.
func (u Use) Clamped() Use { return u.clamped() }

// Needs is what an ask reserves of parts before it is shortened to what can be had: output
// tokens, money, and the least money with which an answer begins.
func (a Ask) Needs(parts []Part) (output int64, money, least Money) {
	tokens, paid := false, false
	for _, p := range parts {
		tokens = tokens || p.limits.StrictTokens()
		paid = paid || p.limits.StrictMoney()
	}
	n := a.need(tokens, paid)
	return n.output, n.money, n.leastMoney
}

// Explain is why states, one for each part, do not admit an ask now; nil if they do.
func Explain(parts []Part, states []State, ask Ask) *Refusal {
	of := accountsOf(parts, states)
	n := of.need(ask)
	return of.refusal(&n)
}

// ExplainCut is why states cut off an answer that has generated so many tokens of
// what a grant reserved; nil if they do not.
func ExplainCut(parts []Part, states []State, g *Grant, generated int64) *Refusal {
	of := accountsOf(parts, states)
	o := openGrant{input: g.Ask.Input, output: g.Ask.Output, most: g.Ask.Most, money: g.Money, price: g.Ask.Price}
	r := newRaise(&o, generated, generated)
	return of.fitRaise(&r)
}

// RemainingOf is what states have left, one for each part.
func RemainingOf(parts []Part, states []State) Remaining {
	of := accountsOf(parts, states)
	return of.remaining()
}
