package storetest

import (
	"context"
	"os"
	"path/filepath"

	"weir/internal/store"
)

// Fresh is a new, empty store in a folder of its own, for an Example, which has no test that would close it. done closes and removes it.
func Fresh(ctx context.Context, options store.Options) (db *store.DB, done func()) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	db, err = store.Open(ctx, "sqlite:"+filepath.Join(dir, "weir.db"), options)
	if err != nil {
		panic(err)
	}
	return db, func() {
		if err := db.Close(ctx); err != nil {
			panic(err)
		}
		os.RemoveAll(dir)
	}
}
