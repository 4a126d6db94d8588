package quota

import "time"

// LimitUsage is one limit of a holder, and how much of it is used.
type LimitUsage struct {
	Kind  Kind
	Model string // of which the limit is; "" where it is for all models
	Key   string // id of the key whose limit it is; "" where it is the tenant's
	Limit int64  // requests or tokens; millionths of the currency for costs
	Used  int64  // of a budget what was spent, which may be above the limit
	Left  int64  // what a new request meets: without what running requests have reserved
	// Resets is when all of it is left if nothing more is asked for: of a budget the next
	// day or month. Zero where all of it is left, and for requests at once.
	Resets time.Time
}

// Standings are the limits of a holder, in the order of their kinds, the tenant's before
// the model's, and those before the key's.
func (m *Meter) Standings(now time.Time, who Holder) []LimitUsage {
	m.advance(now)
	var fresh [numParts]State
	of := m.look(&who, &fresh)
	return of.standings()
}

// StandingsOf is Standings of states that are kept elsewhere, one for each part.
func StandingsOf(parts []Part, states []State) []LimitUsage {
	of := accountsOf(parts, states)
	return of.standings()
}

func (a *accounts) standings() []LimitUsage {
	var list []LimitUsage
	for _, x := range a.all() {
		for k := range numKinds {
			if s, ok := x.state.standing(x.limits, k); ok {
				s.Model, s.Key = x.model, x.key
				list = append(list, s)
			}
		}
	}
	return list
}

// standing is false where there is no such limit, or it is one of a single request.
func (s *State) standing(l *Limits, k Kind) (LimitUsage, bool) {
	at := time.UnixMilli(s.At).UTC()
	st := LimitUsage{Kind: k, Limit: l.bucket(k)}
	switch {
	case st.Limit > 0:
		w := s.window(l, k)
		st.Left, st.Used = w.Left, st.Limit-s.room(k, st.Limit)
		if w.Reset > 0 {
			st.Resets = at.Add(w.Reset)
		}
		return st, true
	case k == Streams:
		st.Limit, st.Used = l.MaxStreams, s.Streams
		st.Left = max(st.Limit-st.Used, 0)
		return st, st.Limit > 0
	case !k.Budget():
		return st, false
	}
	for _, pair := range [][2]budget{s.tokenBudgets(l), s.moneyBudgets(l)} {
		for _, b := range pair {
			if b.kind == k {
				st.Limit, st.Left = b.limit, max(b.left, 0)
			}
		}
	}
	st.Used = s.spentOf(k)
	st.Resets = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
	if k == MonthlyTokens || k == MonthlyCost {
		st.Resets = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return st, st.Limit > 0
}

func (s *State) spentOf(k Kind) int64 {
	switch k {
	case DailyTokens:
		return s.DaySpent.Tokens
	case MonthlyTokens:
		return s.MonthSpent.Tokens
	case DailyCost:
		return int64(s.DaySpent.Money)
	default: // MonthlyCost
		return int64(s.MonthSpent.Money)
	}
}
