package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/tenant"
)

// Keys implements admin.Tenants.
func (c *tenantControl) Keys(ctx context.Context, name string) ([]admin.KeyView, error) {
	keys, err := c.s.store.List(ctx, name)
	list := make([]admin.KeyView, len(keys))
	for i := range keys {
		list[i] = viewOfKey(&keys[i])
	}
	return list, err
}

// Key implements admin.Tenants.
func (c *tenantControl) Key(ctx context.Context, id string) (admin.KeyView, error) {
	key, err := c.chain().find(ctx, id)
	return viewOfKey(&key), keyFault(err)
}

// CreateKey implements admin.Tenants.
func (c *tenantControl) CreateKey(ctx context.Context, by string, q admin.KeyRequest) (made admin.NewKey, err error) {
	issued, key, first, err := c.chain().create(ctx, by, keyRequest{q.Tenant, q.Label, q.Scope, q.Expires})
	if err != nil {
		return made, keyFault(err)
	}
	made = admin.NewKey{Secret: issued.Text, KeyView: viewOfKey(&key)}
	if first {
		made.Warnings = append(made.Warnings, firstKey)
		if !key.Scope.Has(tenant.ScopeAdmin) {
			made.Warnings = append(made.Warnings, "It lacks the scope admin, without which this listener answers nobody any more: weir keys create TENANT --scope admin makes one that has it.")
		}
	}
	return made, nil
}

// RotateKey implements admin.Tenants.
func (c *tenantControl) RotateKey(ctx context.Context, by, id string, q admin.KeyRotation) (made admin.NewKey, err error) {
	issued, next, ends, err := c.chain().rotate(ctx, by, id, q.Grace, q.Expires)
	if err != nil {
		return made, keyFault(err)
	}
	c.s.callers.authenticator.Forget(id)
	return admin.NewKey{Secret: issued.Text, KeyView: viewOfKey(&next), OldEnds: moment(ends)}, nil
}

// RevokeKey implements admin.Tenants.
func (c *tenantControl) RevokeKey(ctx context.Context, by, id string) (admin.KeyView, error) {
	if _, err := c.revoke(ctx, by, id); err != nil {
		return admin.KeyView{}, keyFault(err)
	}
	return c.Key(ctx, id)
}

// revoke ends a key, here at once.
func (c *tenantControl) revoke(ctx context.Context, by, id string) (tenant.Key, error) {
	key, err := c.chain().revoke(ctx, by, id)
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
	case errors.Is(err, errKeyRequest):
		return api.Refuse("invalid_value", err.Error())
	}
	return err
}

func viewOfKey(k *tenant.Key) admin.KeyView {
	return admin.KeyView{
		ID: k.ID, Tenant: k.Tenant, Label: k.Label, Scope: k.Scope.String(), State: keyState(k, time.Now()), Created: k.Created,
		Expires: moment(k.Expires), Revoked: moment(k.Revoked), LastUsed: moment(k.LastUsed),
	}
}

// moment is a time that may not be.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
