package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
	"weir/telemetry/audit"
)

// tenantControl makes tenants and keys by the admin listener. It implements admin.Tenants.
type tenantControl struct {
	s       *Server
	meter   meter.Meter
	keys    tenant.Keys
	audit   audit.Log
	records tenantRecords
}

// tenantRecords are the tenants in the store, which the API makes and changes.
type tenantRecords interface {
	keychain.Records
	CreateTenant(ctx context.Context, name string, spec []byte, at time.Time) (tenant.Record, error)
	// ChangeTenant changes the record that has the revision.
	ChangeTenant(ctx context.Context, name string, revision int64, spec []byte, at time.Time) (tenant.Record, error)
	DeleteTenant(ctx context.Context, name string, at time.Time) error
}

// newTenantControl is nil without a store, which keeps what it makes.
func newTenantControl(s *Server, m meter.Meter) admin.Tenants {
	if s.store == nil {
		return nil
	}
	return &tenantControl{s: s, meter: m, keys: s.store.Keys, audit: s.store.Audit, records: s.store.Tenants}
}

func (c *tenantControl) chain() *keychain.Keychain {
	return &keychain.Keychain{Config: c.s.config.Store, Keys: c.keys, Audit: c.audit, Tenants: func(context.Context) (*tenant.Directory, error) {
		return c.s.callers.authenticator.Directory(), nil
	}}
}

// List implements admin.Tenants: those of the file first, in its order.
func (c *tenantControl) List(ctx context.Context) ([]admin.TenantView, error) {
	configured, stored := c.s.callers.origins()
	var list []admin.TenantView
	for _, t := range configured.List() {
		list = append(list, admin.TenantView{Name: t.Name, Origin: admin.FromFile, Spec: configs.TenantSpec(t)})
	}
	records, err := c.records.Tenants(ctx)
	for i := range records {
		list = append(list, recordView(&records[i], stored[records[i].Name]))
	}
	return list, err
}

func recordView(r *tenant.Record, fault error) admin.TenantView {
	v := admin.TenantView{Name: r.Name, Origin: admin.FromAPI, Revision: r.Revision, Created: &r.Created, Changed: &r.Changed}
	if err := json.Unmarshal(r.Spec, &v.Spec); err != nil {
		fault = errors.Join(fault, err)
	}
	if fault != nil {
		v.Error = fault.Error()
	}
	return v
}

// Get implements admin.Tenants.
func (c *tenantControl) Get(ctx context.Context, name string) (admin.TenantView, error) {
	list, err := c.List(ctx)
	if err != nil {
		return admin.TenantView{}, err
	}
	i := slices.IndexFunc(list, func(v admin.TenantView) bool { return v.Name == name })
	if i < 0 {
		return admin.TenantView{}, c.noTenant(name)
	}
	if t, ok := c.s.callers.authenticator.Directory().Find(name); ok {
		standings, err := meter.Standings(c.meter, t, nil)
		if err != nil {
			return list[i], err
		}
		list[i].Limits = meter.ViewOf(standings)
	}
	return list[i], nil
}

func (c *tenantControl) noTenant(name string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "tenant_not_found",
		Message: fmt.Sprintf("there is no tenant %.80q; GET /admin/tenants lists them", name)}
}

func conflict(code, format string, args ...any) *api.Error {
	return &api.Error{Status: http.StatusConflict, Type: api.TypeInvalidRequest, Code: code, NoRetry: true, Message: fmt.Sprintf(format, args...)}
}

// isConfigured refuses changes of a tenant of the file.
func (c *tenantControl) isConfigured(name string) error {
	if configured, _ := c.s.callers.origins(); !configured.Lists(name) {
		return nil
	}
	return conflict("tenant_is_configured", "tenant %q stands in the configuration file, whose list tenants it is changed in; POST /admin/reload then takes it", name)
}

// Create implements admin.Tenants.
func (c *tenantControl) Create(ctx context.Context, by string, spec []byte) (view admin.TenantView, err error) {
	t, err := c.parse(spec)
	if err != nil {
		return view, err
	}
	if err := c.isConfigured(t.Name); err != nil {
		return view, err
	}
	if records, err := c.records.Tenants(ctx); err != nil || slices.ContainsFunc(records, func(r tenant.Record) bool { return r.Name == t.Name }) {
		return view, errors.Join(err, conflict("tenant_exists", "there is a tenant %q; PATCH /admin/tenants/%s changes it", t.Name, t.Name))
	}
	if err := c.fits(&t); err != nil {
		return view, err
	}
	return c.write(ctx, by, state.ActionTenantCreate, &t, func(text []byte) (tenant.Record, error) {
		return c.records.CreateTenant(ctx, t.Name, text, time.Now())
	})
}

// Change implements admin.Tenants.
func (c *tenantControl) Change(ctx context.Context, by, name string, patch []byte) (view admin.TenantView, err error) {
	if err := c.isConfigured(name); err != nil {
		return view, err
	}
	records, err := c.records.Tenants(ctx)
	if err != nil {
		return view, err
	}
	i := slices.IndexFunc(records, func(r tenant.Record) bool { return r.Name == name })
	if i < 0 {
		return view, c.noTenant(name)
	}
	var spec map[string]any
	if err := json.Unmarshal(records[i].Spec, &spec); err != nil {
		return view, fmt.Errorf("the record of %q: %w", name, err)
	}
	merged, err := configs.Merge(spec, patch)
	if err != nil {
		return view, wrongTenant(err)
	}
	t, err := c.parse(merged)
	if err != nil {
		return view, err
	}
	if t.Name != name {
		return view, wrongTenant(fmt.Errorf("the name is %q; that of a tenant stays %q", t.Name, name))
	}
	if err := c.fits(&t); err != nil {
		return view, err
	}
	view, err = c.write(ctx, by, state.ActionTenantChange, &t, func(text []byte) (tenant.Record, error) {
		return c.records.ChangeTenant(ctx, name, records[i].Revision, text, time.Now())
	})
	if err == nil {
		c.seen(ctx)
	}
	return view, err
}

func wrongTenant(err error) *api.Error {
	return api.Refuse("invalid_value", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// parse reads a tenant, and checks what a directory of others does not.
func (c *tenantControl) parse(spec []byte) (tenant.Tenant, error) {
	t, err := configs.ParseTenant("the body", spec)
	if err != nil {
		return t, wrongTenant(err)
	}
	for _, claim := range t.Claims {
		if !slices.ContainsFunc(c.s.config.Issuers, func(i tenant.Issuer) bool { return i.Name == claim.Issuer }) {
			return t, wrongTenant(fmt.Errorf("claims names the issuer %q, which is not in the configuration's list issuers", claim.Issuer))
		}
	}
	return t, nil
}

// fits reports whether a tenant can stand beside the others.
func (c *tenantControl) fits(t *tenant.Tenant) error {
	configured, _ := c.s.callers.origins()
	var others []tenant.Tenant
	for _, o := range c.s.callers.authenticator.Directory().List() {
		if !configured.Lists(o.Name) && o.Name != t.Name {
			others = append(others, *o)
		}
	}
	with, _ := configured.With(others)
	if _, faults := with.With([]tenant.Tenant{*t}); len(faults) > 0 {
		return wrongTenant(faults[0].Err)
	}
	return nil
}

// write notes a change, makes it, and puts it into force here; other servers see it within seconds.
func (c *tenantControl) write(ctx context.Context, by, action string, t *tenant.Tenant, do func(spec []byte) (tenant.Record, error)) (view admin.TenantView, err error) {
	spec := configs.TenantSpec(t)
	text, err := json.Marshal(spec)
	if err != nil {
		return view, err
	}
	if err := c.s.audit.Add(ctx, by, action, t.Name, state.Details{"keys": slices.Sorted(maps.Keys(spec)), "limits": t.Limits}); err != nil {
		return view, err
	}
	record, err := do(text)
	if err != nil {
		c.s.audit.Failed(ctx, by, action, t.Name, nil, err)
	}
	switch {
	case errors.Is(err, tenant.ErrTenantExists):
		return view, conflict("tenant_exists", "there is a tenant %q; PATCH /admin/tenants/%s changes it", t.Name, t.Name)
	case errors.Is(err, tenant.ErrTenantChanged):
		return view, conflict("tenant_changed", "tenant %q was changed meanwhile; read it and try again", t.Name)
	case errors.Is(err, tenant.ErrNoTenant):
		return view, c.noTenant(t.Name)
	case errors.Is(err, tenant.ErrTenantsAtMost):
		return view, conflict("too_many_tenants", "the store has %d tenants, as many as it may; delete one", tenant.MaxRecords)
	case err != nil:
		return view, err
	}
	return recordView(&record, nil), c.s.callers.refresh(ctx)
}

// Delete implements admin.Tenants.
func (c *tenantControl) Delete(ctx context.Context, by, name string) (revokedKeys int, err error) {
	if err := c.isConfigured(name); err != nil {
		return 0, err
	}
	if _, err := c.Get(ctx, name); err != nil {
		return 0, err
	}
	if err := c.s.audit.Add(ctx, by, state.ActionTenantDelete, name, nil); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			c.s.audit.Failed(ctx, by, state.ActionTenantDelete, name, nil, err)
		}
	}()
	keys, err := c.keys.List(ctx, name)
	if err != nil {
		return 0, err
	}
	for i := range keys { // first: where names that are not listed are tenants, its keys would go on without limits
		if !keys[i].Live(time.Now()) {
			continue
		}
		if _, err := c.revoke(ctx, by, keys[i].ID); err != nil {
			return revokedKeys, err
		}
		revokedKeys++
	}
	if err := c.records.DeleteTenant(ctx, name, time.Now()); err != nil && !errors.Is(err, tenant.ErrNoTenant) {
		return revokedKeys, err
	}
	return revokedKeys, c.s.callers.refresh(ctx)
}
