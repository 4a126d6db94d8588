package meter

import (
	"fmt"
	"maps"
	"slices"

	"weir/api/tenant"
	"weir/scheduler/quota"
)

// Standings are all limits of a tenant that hold for several requests together, those of all models first, and how much of
// each is used.
func Standings(m Meter, t *tenant.Tenant) ([]quota.Standing, error) {
	holders := []quota.Holder{{Tenant: t.Name, Limits: &t.Limits}}
	for _, model := range slices.Sorted(maps.Keys(t.ModelLimits)) {
		holders = append(holders, quota.Holder{Tenant: t.Name, Model: model, ModelLimits: t.LimitsOf(model)})
	}
	var list []quota.Standing
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
