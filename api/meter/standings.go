package meter

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/api/tenant"
	"weir/api/usage"
	"weir/scheduler/quota"
)

// Standings are all limits of a tenant that hold for several requests together, those of all models first, and how much of
// each is used; where a key has limits of its own, those come last. key may be nil.
func Standings(m Meter, t *tenant.Tenant, key *tenant.Key) ([]quota.LimitUsage, error) {
	holders := []quota.Holder{{Tenant: t.Name, Limits: &t.Limits}}
	for _, model := range slices.Sorted(maps.Keys(t.ModelLimits)) {
		holders = append(holders, quota.Holder{Tenant: t.Name, Model: model, ModelLimits: t.LimitsOf(model)})
	}
	if key != nil {
		holders = append(holders, key.Holder())
	}
	var list []quota.LimitUsage
	for _, who := range holders {
		if who.Unlimited() {
			continue
		}
		of, err := m.Standings(who)
		if err != nil {
			return nil, fmt.Errorf("limits of tenant %q: %w", t.Name, err)
		}
		list = append(list, of...)
	}
	return list, nil
}

// LimitView is one limit as the APIs show it, and how much of it is used. Values are requests, tokens, or money in the unit
// of the prices.
type LimitView struct {
	Limit    string     `json:"limit"` // its key in the configuration
	Model    string     `json:"model,omitempty"`
	Key      string     `json:"key,omitempty"` // id of the key whose limit it is
	Value    any        `json:"value"`
	Used     any        `json:"used"`
	Left     any        `json:"left"`
	ResetsAt *time.Time `json:"resets_at,omitempty"` // when all of it is left, if nothing more is asked for
}

// ViewOf is how the APIs show limits.
func ViewOf(standings []quota.LimitUsage) []LimitView {
	views := make([]LimitView, len(standings))
	for i := range standings {
		st, v := &standings[i], &views[i]
		*v = LimitView{Limit: st.Kind.String(), Model: st.Model, Key: st.Key, Value: st.Limit, Used: st.Used, Left: st.Left}
		if st.Kind == quota.DailyCost || st.Kind == quota.MonthlyCost {
			v.Value, v.Used, v.Left = usage.Money(st.Limit), usage.Money(st.Used), usage.Money(st.Left)
		}
		if !st.Resets.IsZero() {
			at := st.Resets.UTC()
			v.ResetsAt = &at
		}
	}
	return views
}
