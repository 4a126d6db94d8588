package ledger

import (
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/storetest"
)

type opts struct {
	FlushEvery time.Duration
	Failed     func(error)
}

// Store is a store with the ledger.
type Store struct {
	*store.DB
	*Ledger
}

func openStore(t *testing.T, url string, o opts) *Store {
	t.Helper()
	db := storetest.Open(t, url, store.Options{Failed: o.Failed})
	return &Store{db, New(db, Options{FlushEvery: o.FlushEvery})}
}
