package tenants_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/tenant"
	"weir/internal/store"
	"weir/internal/store/storetest"
	"weir/internal/store/tenants"
)

// The store has a key's hash, by which the key is recognised, and never the key itself.
func ExampleKeys() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	pepper, err := tenant.NewPepper([]byte("32 random bytes, apart from keys"))
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, issued := tenants.NewKeys(db), pepper.Issue()
	err = keys.Create(ctx, tenant.Key{
		ID: issued.ID, Tenant: "acme", Label: "laptop", Scope: tenant.ScopeInference, Hash: issued.Hash,
		Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, hash, err := pepper.Open(issued.Text) // as a client shows it
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := keys.Find(ctx, id)
	fmt.Println(k.Tenant, k.Label, k.Scope, k.Hash.Equal(hash), err)
	// Output: acme laptop inference true <nil>
}
