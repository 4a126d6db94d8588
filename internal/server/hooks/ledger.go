package hooks

import (
	"net/http"

	"weir/api/edge"
	"weir/api/usage"
)

// ledgerHooks let a ledger keep what every finished request has used.
func ledgerHooks(ledger usage.Ledger) edge.Hooks {
	return edge.Hooks{
		OnRequestFinish: func(f edge.RequestFinish) {
			if r, ok := used(&f); ok {
				ledger.Record(r)
			}
		},
		OnWork: func(w edge.Work) {
			if !w.Started {
				ledger.Record(usage.Record{Ended: w.Ended, Tenant: w.Tenant.Name, Model: w.Model, Key: w.Key, Compute: w.Took, Beside: true})
			}
		},
	}
}

// used is what a finished request has used; false where nothing was computed. What is not charged has its time alone.
func used(f *edge.RequestFinish) (r usage.Record, ok bool) {
	if f.PromptTokens+f.OutputTokens == 0 || f.FirstToken.IsZero() && f.Status != http.StatusOK {
		return r, false
	}
	r = usage.Record{
		Ended: f.Finished, Tenant: f.Tenant, Model: f.Model, Key: f.Key, Input: int64(f.PromptTokens), Cached: int64(f.CachedTokens),
		Output: int64(f.OutputTokens), Compute: f.Compute, Cost: usage.Money(f.Cost),
	}
	if f.FromCache {
		r.Output = 0 // they are charged once
	}
	if f.Prefix || f.Counted { // another server counts the request and its tokens: the replica that computes the answer, or the router that asks
		return usage.Record{Ended: r.Ended, Tenant: r.Tenant, Model: r.Model, Key: r.Key, Compute: r.Compute, Beside: true}, true
	}
	if !f.Charged() {
		r.Input, r.Cached, r.Output = 0, 0, 0
	}
	return r, true
}
