package quota

import "time"

// Spending is what was spent of the running day and month, as read from where it is kept: of a tenant, of its use of
// one model, or with one key.
type Spending struct {
	Model      string // "" is of all models
	Account    string // of a key; "" is the tenant's
	Day, Month Spent
}

// spendingOf is a part's among a tenant's; nothing where it is not among them.
func spendingOf(p *part, list []Spending) Spending {
	for i := range list {
		if list[i].Model == p.model && list[i].Account == p.account {
			return list[i]
		}
	}
	return Spending{}
}

// Counted reports whether the meter knows what a holder has spent of its budgets: it counted, or was told, since they
// are there.
func (m *Meter) Counted(now time.Time, who Holder) bool {
	m.advance(now)
	for _, p := range who.parts() {
		if p.limits.hasBudget() {
			if e := m.states.byKey[p.in(who.Tenant)]; e == nil || !e.state.Counted {
				return false
			}
		}
	}
	return true
}

// Seed tells what a holder's tenant has spent before its budgets were counted. What the meter knows itself stays if
// it is more. The error is ErrFull.
func (m *Meter) Seed(now time.Time, who Holder, list []Spending) error {
	m.advance(now)
	var o openGrant
	if err := m.find(&who, &o); err != nil {
		return err
	}
	of := o.accounts()
	for _, a := range of.all() {
		if a.limits.hasBudget() {
			s := spendingOf(&a.part, list)
			a.state.seed(s.Day, s.Month)
		}
	}
	return nil
}

// SeedsOf is what a tenant has spent of parts, one for each.
func SeedsOf(parts []Part, list []Spending) []Spending {
	seeds := make([]Spending, len(parts))
	for i := range parts {
		seeds[i] = spendingOf(&parts[i].part, list)
	}
	return seeds
}
