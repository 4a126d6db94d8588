package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/internal/server/state"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/configs"
	"weir/scheduler/quota"
	"weir/telemetry"
)

// seen counts what the hooks see by the caller's tenant, writes the access log, and notes who was denied.
func (s *Server) seen(h edge.Hooks) edge.Hooks {
	m := s.metrics
	first, finish, refused := h.OnFirstToken, h.OnRequestFinish, h.OnRefused
	h.OnFirstToken = func(r *edge.RequestStart, since time.Duration) {
		if first != nil {
			first(r, since)
		}
		if isTimed(r) {
			m.ObserveTenantFirstToken(r.Tenant, since.Seconds())
		}
	}
	h.OnRequestFinish = func(f edge.RequestFinish) {
		finish(f)
		e := tenantEnd(&f)
		m.CountTenantEnd(&e)
		s.access.finished(&f)
	}
	h.OnWork = func(w edge.Work) { // fair queues count it, too
		s.service.Charge(w.Tenant.Name, w.Tenant.Class, w.Tenant.Weight, uint64(w.Took.Nanoseconds()))
		if !w.Started {
			m.CountTenantWork(w.Tenant.Name, w.Model, w.Took.Seconds())
		}
	}
	h.OnRefused = func(r edge.Refusal) {
		refused(r)
		m.CountTenantRefusal(r.Tenant, r.Known, r.Status, r.Code)
		if r.Early && r.Known {
			m.CountTenantEnd(&telemetry.TenantEnd{
				Tenant: r.Tenant, Outcome: refusalOutcome(r.Status), Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Code: r.Code,
			})
		}
		if !r.Started {
			s.access.refused(&r, time.Now())
		}
		if r.Status == http.StatusUnauthorized && r.Reason != "" {
			s.denied("api", r.Reason, r.Remote)
		}
	}
	return h
}

// denied notes a caller who is nobody. Who shows nothing does not try to sign in, and is in the metrics only.
func (s *Server) denied(listener, reason, remote string) {
	kind := tenant.DenialKind(reason)
	s.metrics.CountDenied(listener, kind)
	if s.signIns != nil && kind != tenant.DeniedNothing {
		s.signIns.denied(kind, remote)
	}
}

// noteDenied adds an entry about callers who were denied.
func (s *Server) noteDenied(more state.Details) {
	if err := s.audit(context.Background(), actor, state.ActionDenied, s.listener.Addr().String(), more); err != nil {
		s.log.Error("callers who were denied are not in the audit log", zap.Error(errors.Unwrap(err)))
	}
}

// accessRate is the live part of the access log.
func (s *Server) accessRate(c configs.Config) (commit func(), err error) {
	return func() { s.access.setRate(c.Log.AccessPerSecond) }, nil
}

func tenantEnd(f *edge.RequestFinish) telemetry.TenantEnd {
	e := telemetry.TenantEnd{
		Tenant: f.Tenant, Outcome: answerOf(f).Outcome, Model: f.Model, Version: f.Version, Arm: f.Arm.Name, Code: f.Code,
	}
	r, ok := used(f)
	if !ok {
		return e
	}
	e.Prompt, e.Cached, e.Output = r.Input, r.Cached, r.Output
	if f.Prediction {
		e.Prompt, e.Rows = 0, r.Input
	}
	e.ComputeSeconds, e.Cost = r.Compute.Seconds(), f.Cost.Units()
	return e
}

// addTenants publishes the limits of the configured tenants.
func (s *Server) addTenants(m meter.Meter) error {
	callers, trouble := s.callers.authenticator, &quietly{every: troubleEvery}
	return s.metrics.AddTenants(func(name string) bool { return callers.Directory().Lists(name) }, func() (list []telemetry.TenantLimit) {
		for _, t := range callers.Directory().List() {
			standings, err := meter.Standings(m, t, nil)
			if err != nil {
				trouble.do(func(held int) {
					s.log.Warn("the metrics lack what tenants have used of their limits", zap.Error(err), zap.Int("times_before", held))
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
