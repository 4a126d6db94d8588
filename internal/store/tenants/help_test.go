package tenants

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/internal/store"
	"weir/internal/store/storetest"
)

type opts struct{}

// Store is a store with tenants and keys.
type Store struct {
	*store.DB
	*Keys
	*Records
}

func openStore(t *testing.T, url string, _ opts) *Store {
	t.Helper()
	db := storetest.Open(t, url, store.Options{})
	return &Store{db, NewKeys(db), NewRecords(db)}
}
func testKey(id, name, label string, created time.Time) tenant.Key {
	k := tenant.Key{ID: fmt.Sprintf("%010s", id), Tenant: name, Label: label, Scope: tenant.ScopeInference | tenant.ScopeMetrics, Created: created}
	copy(k.Hash[:], rand.Text())
	return k
}
