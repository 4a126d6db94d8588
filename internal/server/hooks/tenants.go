package hooks

import (
	"net/http"
	"time"

	"weir/api/edge"
	"weir/api/tenant"
	"weir/scheduler/admission"
	"weir/telemetry"
)

// tenantHooks count by the caller's tenant, write the access log, and note who was denied.
type tenantHooks struct {
	metrics *telemetry.Metrics
	Access  *accessLog
	service *admission.Service // which fair queues divide by
	signIns *signIns           // nil: no store, and so no audit log
}

func (t *tenantHooks) hooks() edge.Hooks {
	m := t.metrics
	return edge.Hooks{
		OnFirstToken: func(r *edge.RequestStart, since time.Duration) {
			if isTimed(r) {
				m.ObserveTenantFirstToken(r.Tenant, since.Seconds())
			}
		},
		OnRequestFinish: func(f edge.RequestFinish) {
			e := tenantEnd(&f)
			m.CountTenantEnd(&e)
			t.Access.finished(&f)
		},
		OnWork: func(w edge.Work) {
			t.service.Charge(w.Tenant.Name, w.Tenant.Class, w.Tenant.Weight, uint64(w.Took.Nanoseconds()))
			if !w.Started {
				m.CountTenantWork(w.Tenant.Name, w.Model, w.Took.Seconds())
			}
		},
		OnRefused: t.refused,
	}
}

func (t *tenantHooks) refused(r edge.Refusal) {
	t.metrics.CountTenantRefusal(r.Tenant, r.Known, r.Status, r.Code)
	if r.Early && r.Known {
		t.metrics.CountTenantEnd(&telemetry.TenantEnd{
			Tenant: r.Tenant, Outcome: refusalOutcome(r.Status), Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Code: r.Code,
		})
	}
	if !r.Started {
		t.Access.refused(&r, time.Now())
	}
	if r.Status == http.StatusUnauthorized && r.Reason != "" {
		t.Denied("api", r.Reason, r.Remote)
	}
}

// Denied notes a caller who is no tenant. Who shows nothing does not try to sign in, and is in the metrics only.
func (t *tenantHooks) Denied(listener, reason, remote string) {
	kind := tenant.DenialKind(reason)
	t.metrics.CountDenied(listener, kind)
	if t.signIns != nil && kind != tenant.DeniedNothing {
		t.signIns.denied(kind, remote)
	}
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
