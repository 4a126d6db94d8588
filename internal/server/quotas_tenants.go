package server

import (
	"go.uber.org/zap"

	"weir/api/meter"
	"weir/api/tenant"
	"weir/scheduler/quota"
	"weir/telemetry"
)

// addTenantLimits publishes the limits of the configured tenants.
func addTenantLimits(metrics *telemetry.Metrics, callers *tenant.Authenticator, m meter.Meter, log *zap.Logger) error {
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	return metrics.AddTenants(func(name string) bool { return callers.Directory().Lists(name) }, func() (list []telemetry.TenantLimit) {
		for _, t := range callers.Directory().List() {
			standings, err := meter.Standings(m, t, nil)
			if err != nil {
				trouble.Do(func(held int) {
					log.Warn("the metrics lack what tenants have used of their limits", zap.Error(err), zap.Int("times_before", held))
				})
				return list
			}
			for _, st := range standings {
				unit := 1.0
				if st.Kind == quota.DailyCost || st.Kind == quota.MonthlyCost {
					unit = quota.Money(1).Units()
				}
				list = append(list, telemetry.TenantLimit{
					Tenant: t.Name, Model: st.Model, Limit: st.Kind.String(),
					Value: float64(st.Limit) * unit, Used: float64(st.Used) * unit, Left: float64(st.Left) * unit,
				})
			}
		}
		return list
	})
}
