package keychain

import (
	"context"

	"weir/api/tenant"
	"weir/configs"
)

// Records are the records of tenants in a store.
type Records interface {
	Tenants(ctx context.Context) ([]tenant.Record, error)
}

// Tenants are the tenants that were made by the API. One whose record this weir cannot read is among the faults.
func Tenants(ctx context.Context, s Records) (list []tenant.Tenant, faults map[string]error, err error) {
	records, err := s.Tenants(ctx)
	faults = make(map[string]error)
	for i := range records {
		t, err := configs.ParseTenant("the record", records[i].Spec)
		if err != nil {
			faults[records[i].Name] = err
			continue
		}
		list = append(list, t)
	}
	return list, faults, err
}
