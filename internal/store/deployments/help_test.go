package deployments

import (
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/internal/store/storetest"
)

type opts struct{ Lease time.Duration }

// rolloutsOf has a name that no method has.
type rolloutsOf = Rollouts

// Store is a store with deployments and rollouts.
type Store struct {
	*store.DB
	*Records
	*rolloutsOf
	log *auditlog.Log
}

func openStore(t *testing.T, url string, o opts) *Store {
	t.Helper()
	return storeOf(t, storetest.Open(t, url, store.Options{Lease: o.Lease}))
}

func storeOf(t *testing.T, db *store.DB) *Store {
	t.Helper()
	log, err := auditlog.Open(t.Context(), db, auditlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records := NewRecords(db, log)
	return &Store{db, records, NewRollouts(records), log}
}
