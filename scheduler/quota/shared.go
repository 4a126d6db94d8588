package quota

// What a meter needs that keeps states elsewhere, in Redis, where a script does what
// the methods of State do. The script decides; what stands here explains to the
// client what it decided, from the states that it returns.

// Part is one of the states that a request counts for.
type Part struct {
	Model  string // "" is the tenant's state, of all models
	Limits *Limits
}

// Parts are the states that a holder's requests count for: the tenant's first, then
// the tenant's of the model, as far as they have limits.
func (h *Holder) Parts() []Part {
	var list []Part
	for _, p := range h.parts() {
		if !p.limits.Unlimited() {
			list = append(list, Part{p.model, p.limits})
		}
	}
	return list
}

func accountsOf(parts []Part, states []State) accounts {
	var of accounts
	for i, p := range parts {
		of.add(account{p.Model, p.Limits, &states[i]})
	}
	return of
}

// Clamped is the ask with counts that can be.
func (a Ask) Clamped() Ask { return a.clamped() }

// Clamped is the use with counts that can be.
func (u Use) Clamped() Use { return u.clamped() }

// Money is what an ask reserves of budgets in money, and the least with which an
// answer begins.
func (a Ask) Money() (all, least Money) {
	return a.Price.Cost(a.Input, 0, a.Output), a.Price.Cost(a.Input, 0, min(a.Output, 1))
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
	o := open{input: g.Ask.Input, output: g.Ask.Output, money: g.Money, price: g.Ask.Price}
	r := newRaise(&o, generated, generated)
	return of.fitRaise(&r)
}

// RemainingOf is what states have left, one for each part.
func RemainingOf(parts []Part, states []State) Remaining {
	of := accountsOf(parts, states)
	return of.remaining()
}
