package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"weir/api"
	"weir/api/meter"
	"weir/api/usage"
)

// Tenants are the tenants of a server and their keys, for operators. What a request cannot have is an *api.Error; other
// errors are of the store. by says who asked. Implementations are safe for concurrent use.
type Tenants interface {
	List(ctx context.Context) ([]TenantView, error)
	Get(ctx context.Context, name string) (TenantView, error)
	// Create makes a tenant from a JSON object with the keys of the configuration's list.
	Create(ctx context.Context, by string, spec []byte) (TenantView, error)
	// Change lays a patch over a tenant, as RFC 7396 has it.
	Change(ctx context.Context, by, name string, patch []byte) (TenantView, error)
	// Delete removes a tenant and revokes its keys.
	Delete(ctx context.Context, by, name string) (revokedKeys int, err error)

	Keys(ctx context.Context, tenant string) ([]KeyView, error) // "": of all tenants
	Key(ctx context.Context, id string) (KeyView, error)
	CreateKey(ctx context.Context, by string, q KeyRequest) (NewKey, error)
	// ChangeKey lays a patch over a key's limits, models and end, as RFC 7396 has it.
	ChangeKey(ctx context.Context, by, id string, patch []byte) (KeyView, error)
	RotateKey(ctx context.Context, by, id string, q KeyRotation) (NewKey, error)
	RevokeKey(ctx context.Context, by, id string) (KeyView, error)
}

// The origins of tenants.
const (
	FromFile = "file" // the configuration's list
	FromAPI  = "api"
)

// TenantView is a tenant as the admin listener shows it.
type TenantView struct {
	Name     string            `json:"name"`
	Origin   string            `json:"origin"` // FromFile or FromAPI
	Spec     map[string]any    `json:"spec"`   // its settings, except for the usual ones
	Revision int64             `json:"revision,omitempty"`
	Created  *time.Time        `json:"created,omitempty"`
	Changed  *time.Time        `json:"changed,omitempty"`
	Error    string            `json:"error,omitempty"`  // why it is not in force
	Limits   []meter.LimitView `json:"limits,omitempty"` // of one that was asked for
}

// KeyView is a key as it is shown: without its secret.
type KeyView struct {
	ID       string     `json:"id"`
	Tenant   string     `json:"tenant"`
	Label    string     `json:"label"`
	Scope    string     `json:"scope"`
	State    string     `json:"state"` // live, expired, revoked
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires,omitempty"`
	Revoked  *time.Time `json:"revoked,omitempty"`
	LastUsed *time.Time `json:"last_used,omitempty"`

	Spec   map[string]any    `json:"spec,omitempty"`   // limits and models of its own
	Limits []meter.LimitView `json:"limits,omitempty"` // of one that was asked for, and how much of each is used
	Usage  *KeyUsage         `json:"usage,omitempty"`  // of one that was asked for

	Warnings []string `json:"warnings,omitempty"` // what is odd about one that was made or changed
}

// KeyUsage is what was used with a key.
type KeyUsage struct {
	Day   usage.Sums `json:"day"` // of UTC, the running one
	Month usage.Sums `json:"month"`
}

// KeyRequest is a key to be made.
type KeyRequest struct {
	Tenant  string `json:"tenant"`
	Label   string `json:"label"`   // "default" where it is left out
	Scope   string `json:"scope"`   // "inference" where it is left out
	Expires string `json:"expires"` // a time such as 90d; never where it is left out

	Limits json.RawMessage `json:"limits,omitempty"` // as a tenant's in the configuration
	Models []string        `json:"models,omitempty"` // names that it may use; all of the tenant's where they are left out
}

// Terms are limits and models as one object; nil where there are none.
func (q *KeyRequest) Terms() []byte {
	terms := map[string]any{}
	if len(q.Limits) > 0 {
		terms["limits"] = q.Limits
	}
	if len(q.Models) > 0 {
		terms["models"] = q.Models
	}
	if len(terms) == 0 {
		return nil
	}
	text, _ := json.Marshal(terms) //nolint:errchkjson // it was JSON
	return text
}

// KeyRotation says how a key is replaced.
type KeyRotation struct {
	Grace   string `json:"grace"`   // for which the old key stays good; 24h where it is left out
	Expires string `json:"expires"` // of the new key
}

// NewKey is a key with its secret, which is shown this once.
type NewKey struct {
	Secret string `json:"key"`
	KeyView
	OldEnds *time.Time `json:"old_key_ends,omitempty"`
}

const (
	tenantsPath = "/admin/tenants"
	keysPath    = "/admin/keys"
)

// handleTenants adds the paths of tenants and keys.
func (c Config) handleTenants(mux *http.ServeMux) {
	t := c.Tenants
	mux.HandleFunc("GET "+tenantsPath, func(w http.ResponseWriter, r *http.Request) {
		list, err := t.List(r.Context())
		answer(w, http.StatusOK, map[string]any{"tenants": orEmpty(list)}, err)
	})
	mux.HandleFunc("POST "+tenantsPath, func(w http.ResponseWriter, r *http.Request) {
		withBody(w, r, func(body []byte) {
			view, err := t.Create(r.Context(), by(r), body)
			answer(w, http.StatusCreated, view, err)
		})
	})
	mux.HandleFunc("GET "+tenantsPath+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		view, err := t.Get(r.Context(), r.PathValue("name"))
		answer(w, http.StatusOK, view, err)
	})
	mux.HandleFunc("PATCH "+tenantsPath+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		withBody(w, r, func(body []byte) {
			view, err := t.Change(r.Context(), by(r), r.PathValue("name"), body)
			answer(w, http.StatusOK, view, err)
		})
	})
	mux.HandleFunc("DELETE "+tenantsPath+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		revoked, err := t.Delete(r.Context(), by(r), r.PathValue("name"))
		answer(w, http.StatusOK, map[string]any{"deleted": true, "revoked_keys": revoked}, err)
	})
	mux.HandleFunc("GET "+keysPath, func(w http.ResponseWriter, r *http.Request) {
		list, err := t.Keys(r.Context(), r.URL.Query().Get("tenant"))
		answer(w, http.StatusOK, map[string]any{"keys": orEmpty(list)}, err)
	})
	mux.HandleFunc("POST "+keysPath, func(w http.ResponseWriter, r *http.Request) {
		q := KeyRequest{Label: "default", Scope: "inference"}
		withJSON(w, r, &q, func() {
			key, err := t.CreateKey(r.Context(), by(r), q)
			answer(w, http.StatusCreated, key, err)
		})
	})
	mux.HandleFunc("GET "+keysPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		key, err := t.Key(r.Context(), r.PathValue("id"))
		answer(w, http.StatusOK, key, err)
	})
	mux.HandleFunc("PATCH "+keysPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		withBody(w, r, func(body []byte) {
			key, err := t.ChangeKey(r.Context(), by(r), r.PathValue("id"), body)
			answer(w, http.StatusOK, key, err)
		})
	})
	mux.HandleFunc("POST "+keysPath+"/{id}/rotate", func(w http.ResponseWriter, r *http.Request) {
		q := KeyRotation{Grace: "24h"}
		withJSON(w, r, &q, func() {
			key, err := t.RotateKey(r.Context(), by(r), r.PathValue("id"), q)
			answer(w, http.StatusCreated, key, err)
		})
	})
	mux.HandleFunc("DELETE "+keysPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		key, err := t.RevokeKey(r.Context(), by(r), r.PathValue("id"))
		answer(w, http.StatusOK, key, err)
	})
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// answer writes a value, or why there is none.
func answer(w http.ResponseWriter, status int, v any, err error) {
	switch fault, ok := errors.AsType[*api.Error](err); {
	case err == nil:
		write(w, status, v)
	case ok:
		refuse(w, fault)
	default:
		refuse(w, api.Refuse("store_unavailable", "the store: "+err.Error()))
	}
}

// withBody gives a request's body, which is small.
func withBody(w http.ResponseWriter, r *http.Request, do func(body []byte)) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChangeBytes))
	if err != nil {
		refuse(w, api.Refuse("invalid_value", fmt.Sprintf("the body cannot be read, or has more than %d bytes: %v", maxChangeBytes, err)))
		return
	}
	do(body)
}

// withJSON reads a request's body, which may be empty, into a value.
func withJSON(w http.ResponseWriter, r *http.Request, into any, do func()) {
	withBody(w, r, func(body []byte) {
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err := readBody(r, into); err != nil {
				refuse(w, api.Refuse("invalid_value", err.Error()))
				return
			}
		}
		do()
	})
}
