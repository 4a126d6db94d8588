package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/server/keychain"
)

// Keys implements admin.Tenants.
func (c *tenantControl) Keys(ctx context.Context, name string) ([]admin.KeyView, error) {
	keys, err := c.keys.List(ctx, name)
	list := make([]admin.KeyView, len(keys))
	for i := range keys {
		list[i] = viewOfKey(&keys[i])
	}
	return list, err
}

// Key implements admin.Tenants.
func (c *tenantControl) Key(ctx context.Context, id string) (admin.KeyView, error) {
	key, err := c.chain().Find(ctx, id)
	if err != nil {
		return admin.KeyView{}, keyFault(err)
	}
	view, err := c.withLimits(&key)
	if err == nil {
		view.Usage, err = c.usageOf(ctx, &key)
	}
	return view, err
}

// withLimits shows a key and what its limits have left.
func (c *tenantControl) withLimits(key *tenant.Key) (admin.KeyView, error) {
	view := viewOfKey(key)
	standings, err := c.meter.Standings(key.Holder())
	view.Limits = meter.ViewOf(standings)
	return view, err
}

// usageOf is what was used with a key on the running day and in the month; nil where no usage is kept.
func (c *tenantControl) usageOf(ctx context.Context, key *tenant.Key) (*admin.KeyUsage, error) {
	if c.s.quotas.ledger == nil {
		return nil, nil
	}
	today := time.Now().UTC()
	q := usage.Query{Tenant: key.Tenant, Alone: true, Key: key.ID, Keys: true, To: usage.DayOf(today), From: usage.DayOf(today.AddDate(0, 0, 1-today.Day()))}
	report, err := c.s.quotas.ledger.Report(ctx, q)
	if err != nil {
		return nil, err
	}
	of := &admin.KeyUsage{Month: report.Total}
	for i := range report.Rows {
		if report.Rows[i].Day == q.To {
			of.Day.Add(report.Rows[i].Sums)
		}
	}
	return of, nil
}

// ChangeKey implements admin.Tenants.
func (c *tenantControl) ChangeKey(ctx context.Context, by, id string, patch []byte) (admin.KeyView, error) {
	p, err := readKeyPatch(patch, time.Now())
	var key tenant.Key
	if err == nil {
		key, err = c.chain().Alter(ctx, by, id, p)
	}
	if err != nil {
		return admin.KeyView{}, keyFault(err)
	}
	c.s.callers.authenticator.Forget(id)
	c.seen(ctx)
	view, err := c.withLimits(&key)
	view.Warnings = c.modelNotes(&key)
	return view, err
}

// modelNotes are those of modelNotes about a key, by the models that are served here.
func (c *tenantControl) modelNotes(key *tenant.Key) []string {
	of, _ := c.s.callers.authenticator.Directory().Find(key.Tenant)
	known := c.s.edge.Names()
	if known == nil { // models are loading
		return nil
	}
	return keychain.ModelNotes(key, of, append(known, c.s.predictors.names()...))
}

// seen waits until the servers on the store have seen a change, or would have: when an operator is answered, it counts.
func (c *tenantControl) seen(ctx context.Context) {
	timer := time.NewTimer(tenant.FollowEvery * 3 / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readKeyPatch takes the end out of a patch, whose rest are terms.
func readKeyPatch(patch []byte, now time.Time) (p keychain.Patch, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil || fields == nil {
		return p, keychain.WrongKey(`the body is no JSON object; send {"limits": {"daily_cost": "5"}}`)
	}
	if text, given := fields["expires"]; given {
		var span *string // null is never
		if err := json.Unmarshal(text, &span); err != nil || span != nil && *span == "" {
			return p, keychain.WrongKey("expires is %.40s; it takes a duration from now such as \"90d\", or null for never", text)
		}
		p.Ends = new(time.Time)
		if span != nil {
			if *p.Ends, err = keychain.EndAfter(now.UTC().Truncate(time.Millisecond), *span); err != nil {
				return p, keychain.WrongKey("%w", err)
			}
		}
		delete(fields, "expires")
	}
	p.Terms, err = json.Marshal(fields)
	return p, err
}

// CreateKey implements admin.Tenants.
func (c *tenantControl) CreateKey(ctx context.Context, by string, q admin.KeyRequest) (made admin.NewKey, err error) {
	issued, key, first, err := c.chain().Create(ctx, by, keychain.Request{Tenant: q.Tenant, Label: q.Label, Scope: q.Scope, Expires: q.Expires, Terms: q.Terms()})
	if err != nil {
		return made, keyFault(err)
	}
	made = admin.NewKey{Secret: issued.Text, KeyView: viewOfKey(&key)}
	if note := keychain.UnlistedNote(c.s.callers.authenticator.Directory(), key.Tenant); note != "" {
		made.Warnings = append(made.Warnings, note)
	}
	made.Warnings = append(made.Warnings, c.modelNotes(&key)...)
	if first {
		made.Warnings = append(made.Warnings, keychain.FirstKey)
		if !key.Scope.Has(tenant.ScopeAdmin) {
			made.Warnings = append(made.Warnings, "It lacks the scope admin, without which this listener answers no key any more: weir keys create TENANT --scope admin makes one that has it.")
		}
	}
	return made, nil
}

// RotateKey implements admin.Tenants.
func (c *tenantControl) RotateKey(ctx context.Context, by, id string, q admin.KeyRotation) (made admin.NewKey, err error) {
	issued, next, ends, err := c.chain().Rotate(ctx, by, id, q.Grace, q.Expires)
	if err != nil {
		return made, keyFault(err)
	}
	c.s.callers.authenticator.Forget(id)
	return admin.NewKey{Secret: issued.Text, KeyView: viewOfKey(&next), OldEnds: moment(ends)}, nil
}

// RevokeKey implements admin.Tenants.
func (c *tenantControl) RevokeKey(ctx context.Context, by, id string) (admin.KeyView, error) {
	key, err := c.revoke(ctx, by, id)
	if err != nil {
		return admin.KeyView{}, keyFault(err)
	}
	c.seen(ctx)
	return viewOfKey(&key), nil
}

// revoke ends a key, here at once.
func (c *tenantControl) revoke(ctx context.Context, by, id string) (tenant.Key, error) {
	key, err := c.chain().Revoke(ctx, by, id)
	if err == nil {
		c.s.callers.authenticator.Forget(id)
	}
	return key, err
}

// keyFault is what a client is told of an error of a keychain.
func keyFault(err error) error {
	switch {
	case errors.Is(err, tenant.ErrNoKey):
		return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "key_not_found", Message: err.Error()}
	case errors.Is(err, keychain.ErrRequest):
		return api.Refuse("invalid_value", err.Error())
	}
	return err
}

func viewOfKey(k *tenant.Key) admin.KeyView {
	return admin.KeyView{
		ID: k.ID, Tenant: k.Tenant, Label: k.Label, Scope: k.Scope.String(), State: keychain.State(k, time.Now()), Created: k.Created,
		Expires: moment(k.Expires), Revoked: moment(k.Revoked), LastUsed: moment(k.LastUsed), Spec: configs.KeySpec(&k.KeyTerms),
	}
}

// moment is a time that may not be.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
