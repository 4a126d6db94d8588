package tenant

import (
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
