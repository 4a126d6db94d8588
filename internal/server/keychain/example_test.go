package keychain_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
)

// A key is made for a tenant, and takes its end; the audit log says who did it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := configs.Store{URL: state.SqliteScheme + filepath.Join(dir, "weir.db")}
	s, err := state.Open(ctx, c, state.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer state.Close(s) // the folder goes with it
	k := keychain.Keychain{Config: c, Keys: s.Keys, Audit: s.Audit, Tenants: func(context.Context) (*tenant.Directory, error) { return tenant.NewDirectory(nil) }}
	_, key, first, err := k.Create(ctx, "ann", keychain.Request{Tenant: "acme", Label: "laptop", Scope: "inference", Expires: "90d"})
	fmt.Println(key.Tenant, key.Label, key.Scope, key.Expires.Sub(key.Created), first, err)
	key, err = k.Revoke(ctx, "ann", key.ID)
	fmt.Println(keychain.State(&key, key.Revoked), err)
	found, err := k.Find(ctx, key.ID)
	fmt.Println(found.Revoked.Equal(key.Revoked), err)
	for e := range s.Audit.Entries(ctx, 0) {
		fmt.Println(e.Actor, e.Action, e.Object == key.ID)
	}
	// Output:
	// acme laptop inference 2160h0m0s true <nil>
	// revoked <nil>
	// true <nil>
	// ann key.create true
	// ann key.revoke true
}
