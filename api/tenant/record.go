package tenant

import (
	"context"
	"errors"
	"time"
)

// Record is a tenant as the store keeps it: one that was made by the API.
type Record struct {
	Name     string
	Spec     []byte // JSON, in the words of the configuration's list of tenants
	Revision int64  // of all tenants together: a later change has a higher one
	Created  time.Time
	Changed  time.Time
}

// MaxRecords is how many tenants a store keeps.
const MaxRecords = 100_000

// What a store of tenants answers.
var (
	ErrNoTenant      = errors.New("there is no such tenant")
	ErrTenantExists  = errors.New("there is a tenant with this name")
	ErrTenantChanged = errors.New("the tenant was changed meanwhile")
	ErrTenantsAtMost = errors.New("there are as many tenants as may be") // MaxRecords
)

// Records is a store of tenants; internal/store has it. All methods may be called at the
// same time, also from several processes.
type Records interface {
	// TenantRevision is that of the last change of any tenant; 0: there never was one.
	TenantRevision(ctx context.Context) (int64, error)
	// Tenants are all of them, in the order of their names.
	Tenants(ctx context.Context) ([]Record, error)
	// CreateTenant adds one. ErrTenantExists: there is one of that name.
	CreateTenant(ctx context.Context, name string, spec []byte, at time.Time) (Record, error)
	// ChangeTenant replaces what was there at a revision. ErrNoTenant: there is none.
	// ErrTenantChanged: it has another revision.
	ChangeTenant(ctx context.Context, name string, revision int64, spec []byte, at time.Time) (Record, error)
	// DeleteTenant removes one. ErrNoTenant: there is none.
	DeleteTenant(ctx context.Context, name string, at time.Time) error
}
