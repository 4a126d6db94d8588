package keychain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/state"
	"weir/telemetry/audit"
)

// FirstKey tells what the first key of a store does.
const FirstKey = "This is the store's first key: servers that use the store ask for keys from now on."

// Keychain makes, rotates and revokes keys of a store, for the command line and for the admin listener. Each change is
// in the audit log before it is made. by says who asked.
type Keychain struct {
	Config  configs.Store
	Keys    tenant.Keys                                          // of the store
	Audit   audit.Log                                            // as above
	Tenants func(ctx context.Context) (*tenant.Directory, error) // for which there may be keys
}

// Request is a key to be made. terms is JSON, as configs.ParseKeyTerms reads it; empty: none.
type Request struct {
	Tenant, Label, Scope, Expires string
	Terms                         []byte
}

// ErrRequest is a request for a key that cannot be.
var ErrRequest = errors.New("the key was not made")

// Create makes a key. first: the store had none.
func (k *Keychain) Create(ctx context.Context, by string, q Request) (issued tenant.Issued, record tenant.Key, first bool, err error) {
	record = tenant.Key{Tenant: q.Tenant, Label: q.Label, Created: time.Now().UTC().Truncate(time.Millisecond)}
	if err := k.checkTenant(ctx, q.Tenant); err != nil {
		return issued, record, false, err
	}
	if !tenant.IsName(q.Label) {
		return issued, record, false, WrongKey("label %q is not accepted; it takes %s", q.Label, tenant.NameForm)
	}
	if record.Scope, err = tenant.ParseScope(q.Scope); err != nil {
		return issued, record, false, WrongKey("%w", err)
	}
	if record.Expires, err = EndAfter(record.Created, q.Expires); err != nil {
		return issued, record, false, WrongKey("%w", err)
	}
	if record.KeyTerms, err = keyTerms(q.Terms); err != nil {
		return issued, record, false, err
	}
	before, err := k.Keys.List(ctx, "")
	if err != nil {
		return issued, record, false, err
	}
	issued, err = k.issue(&record, func() error {
		return k.change(ctx, by, state.ActionKeyCreate, &record, termsDetails(&record), func() error { return k.Keys.Create(ctx, record) })
	})
	return issued, record, len(before) == 0, err
}

func keyTerms(spec []byte) (tenant.KeyTerms, error) {
	if len(spec) == 0 {
		return tenant.KeyTerms{}, nil
	}
	var given struct {
		Limits map[string]json.RawMessage `json:"limits"`
		Models json.RawMessage            `json:"models"`
	}
	if json.Unmarshal(spec, &given) == nil { // else ParseKeyTerms says what is wrong
		for name, value := range given.Limits {
			if text := strings.Trim(string(value), `"`); text != "" && strings.Trim(text, "0.") == "" {
				return tenant.KeyTerms{}, WrongKey("the key's limit %s is %s, which would be no limit at all; leave it out, or let it be above 0: a key that may do nothing is revoked", name, text)
			}
		}
		if string(given.Models) == "null" { // of its tenant, all
			spec, _ = configs.Merge(map[string]any{}, spec)
		}
	}
	terms, err := configs.ParseKeyTerms("the key", spec)
	if err != nil {
		return terms, WrongKey("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return terms, nil
}

// termsDetails are a key's terms as the audit log has them.
func termsDetails(k *tenant.Key) state.Details {
	if k.Plain() {
		return nil
	}
	return state.Details{"limits": k.Limits, "models": k.Models}
}

// kindOf is an error that is another one, too, whose text it does not repeat.
type kindOf struct {
	error
	kind error
}

func (k kindOf) Is(target error) bool { return target == k.kind }

func (k kindOf) Unwrap() error { return k.error }

// WrongKey is an error of what was asked for: it wraps ErrRequest.
func WrongKey(format string, args ...any) error {
	return kindOf{fmt.Errorf(format, args...), ErrRequest}
}

// checkTenant refuses names that no server with this configuration would know.
func (k *Keychain) checkTenant(ctx context.Context, name string) error {
	directory, err := k.Tenants(ctx)
	if err != nil {
		return err
	}
	if !tenant.IsName(name) {
		return WrongKey("tenant %q is not accepted; it takes %s", name, tenant.NameForm)
	}
	if _, ok := directory.Find(name); ok {
		return nil
	}
	var names []string
	for _, t := range directory.List() {
		names = append(names, t.Name)
	}
	return WrongKey("tenant %q is not among tenants in the configuration, which has %s; add it there, or an entry *, or make it with POST /admin/tenants",
		name, strings.Join(names, ", "))
}

// UnlistedNote is what the operator who makes a key for a tenant that was not made should know; "" for others.
func UnlistedNote(d *tenant.Directory, name string) string {
	if d.Lists(name) {
		return ""
	}
	return fmt.Sprintf("The tenant %s was not made: it has the settings of the entry * of the configuration, or no limits where there is none. POST /admin/tenants makes it.", name)
}

// issue makes a key and has it written under an id that is free.
func (k *Keychain) issue(record *tenant.Key, write func() error) (tenant.Issued, error) {
	pepper, err := state.Pepper(k.Config)
	if err != nil {
		return tenant.Issued{}, err
	}
	for range 3 {
		issued := pepper.Issue()
		record.ID, record.Hash = issued.ID, issued.Hash
		err = write()
		if err == nil || !errors.Is(err, tenant.ErrKeyExists) {
			return issued, keysAtMost(err, record)
		}
	}
	return tenant.Issued{}, err
}

// change makes a change of a key, once the audit log has it.
func (k *Keychain) change(ctx context.Context, by, action string, key *tenant.Key, more state.Details, do func() error) error {
	all := state.Details{"tenant": key.Tenant, "label": key.Label, "scope": key.Scope.String(), "expires": When(key.Expires)}
	maps.Copy(all, more)
	if _, err := state.AddEntry(ctx, k.Audit, by, action, key.ID, all); err != nil {
		return err
	}
	err := do()
	if err != nil {
		all["failed"] = err.Error()
		if _, wrong := state.AddEntry(ctx, k.Audit, by, action, key.ID, all); wrong != nil {
			err = errors.Join(err, fmt.Errorf("that it failed is not in the audit log: %w", wrong))
		}
	}
	return err
}

// keysAtMost says what to do about too many keys.
func keysAtMost(err error, record *tenant.Key) error {
	if !errors.Is(err, tenant.ErrKeysAtMost) {
		return err
	}
	return WrongKey("tenant %s has %d live keys with the label %s, as many as it may; revoke one (weir keys list %s), or use another --label",
		record.Tenant, tenant.MaxLiveKeys, record.Label, record.Tenant)
}

// Rotate makes the key that takes another's place, and tells when that one ends.
func (k *Keychain) Rotate(ctx context.Context, by, id, grace, expires string) (issued tenant.Issued, next tenant.Key, ends time.Time, err error) {
	old, err := k.Find(ctx, id)
	if err != nil {
		return issued, next, ends, err
	}
	next = tenant.Key{Created: time.Now().UTC().Truncate(time.Millisecond)}
	next.Follow(&old)
	if ends, err = EndAfter(next.Created, grace); err != nil {
		return issued, next, ends, WrongKey("%w", err)
	}
	if next.Expires, err = EndAfter(next.Created, expires); err != nil {
		return issued, next, ends, WrongKey("%w", err)
	}
	if !old.Expires.IsZero() && old.Expires.Before(ends) {
		ends = old.Expires
	}
	issued, err = k.issue(&next, func() error {
		more := state.Details{"replaces": old.ID, "old_ends": ends.Format(time.RFC3339)}
		return k.change(ctx, by, state.ActionKeyRotate, &next, more, func() error { return k.Keys.Rotate(ctx, old.ID, ends, next) })
	})
	if errors.Is(err, tenant.ErrNoKey) {
		err = WrongKey("key %s is %s already; weir keys create makes another", old.ID, State(&old, next.Created))
	}
	return issued, next, ends, err
}

// Patch changes a key: terms lies over what it has, as RFC 7396 has it; ends sets its end, zero for never.
type Patch struct {
	Terms []byte
	Ends  *time.Time
}

// Alter changes what a key may, and its end. One that has ended already stays as it is.
func (k *Keychain) Alter(ctx context.Context, by, id string, p Patch) (tenant.Key, error) {
	old, err := k.Find(ctx, id)
	if err != nil {
		return old, err
	}
	apply := func(key *tenant.Key) error {
		if now := time.Now(); !key.Live(now) {
			return WrongKey("key %s is %s already; weir keys create makes another", key.ID, State(key, now))
		}
		spec, err := configs.Merge(configs.KeySpec(&key.KeyTerms), p.Terms)
		if err != nil {
			return WrongKey("%w", err)
		}
		if p.Ends != nil {
			key.Expires = *p.Ends
		}
		key.KeyTerms, err = keyTerms(spec)
		return err
	}
	next := old
	if err := apply(&next); err != nil {
		return old, err
	}
	err = k.change(ctx, by, state.ActionKeyChange, &next, state.Details{"limits": next.Limits, "models": next.Models}, func() error {
		next, err = k.Keys.Change(ctx, id, apply)
		return err
	})
	return next, err
}

// Revoke ends a key, and returns it as it is then. One that was revoked before keeps its time.
func (k *Keychain) Revoke(ctx context.Context, by, id string) (tenant.Key, error) {
	key, err := k.Find(ctx, id)
	if err != nil {
		return key, err
	}
	at := time.Now().UTC().Truncate(time.Microsecond) // as stores have it
	err = k.change(ctx, by, state.ActionKeyRevoke, &key, nil, func() error { return k.Keys.Revoke(ctx, key.ID, at) })
	if err == nil && key.Revoked.IsZero() {
		key.Revoked = at
	}
	return key, err
}

// Find is a key by its id.
func (k *Keychain) Find(ctx context.Context, id string) (tenant.Key, error) {
	if !tenant.IsKeyID(id) {
		return tenant.Key{}, WrongKey("that is no id of a key, which has 10 characters; weir keys list shows them")
	}
	key, err := k.Keys.Find(ctx, id)
	if errors.Is(err, tenant.ErrNoKey) {
		return key, kindOf{fmt.Errorf("there is no key %s; weir keys list shows those that there are", id), tenant.ErrNoKey}
	}
	return key, err
}
