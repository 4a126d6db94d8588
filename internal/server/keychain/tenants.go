package keychain

import (
	"context"
	"weir/internal/server/state"

	"weir/api/tenant"
	"weir/configs"
)

// Tenants are the tenants that were made by the API. One whose record this weir cannot read is among the faults.
func Tenants(ctx context.Context, s *state.Store) (list []tenant.Tenant, faults map[string]error, err error) {
	records, err := s.Tenants.Tenants(ctx)
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
