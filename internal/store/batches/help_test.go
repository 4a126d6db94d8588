package batches

import (
	"testing"

	"weir/internal/store"
	"weir/internal/store/storetest"
)

type opts struct{}

// batchesOf has a name that no method has.
type batchesOf = Batches

// Store is a store with files and batches.
type Store struct {
	*store.DB
	*batchesOf
	*Cipher
}

func openStore(t *testing.T, url string, _ opts) *Store {
	t.Helper()
	db := storetest.Open(t, url, store.Options{})
	return &Store{db, New(db), NewCipher(db)}
}
