package auditlog

import (
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/storetest"
)

type opts struct {
	Audit Options
	Lease time.Duration
}

// Store is a store with the audit log.
type Store struct {
	*store.DB
	*Log
}

func openStore(t *testing.T, url string, o opts) *Store {
	t.Helper()
	db := storetest.Open(t, url, store.Options{Lease: o.Lease})
	log, err := Open(t.Context(), db, o.Audit)
	if err != nil {
		t.Fatal(err)
	}
	return &Store{db, log}
}
