package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/store"
)

// A store is a SQLite file or a PostgreSQL database. Each subject of it has a package below this one; what they share is transactions.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, "weir.db"), store.Options{
		Failed: func(err error) { fmt.Println("in the background:", err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var tables int
	err = db.Transact(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name LIKE 'weir_%'").Scan(&tables)
	})
	fmt.Println("migrated:", tables > 0, err)
	findings, err := db.Verify(ctx, func(context.Context) ([]string, error) { return nil, nil })
	fmt.Println(findings, err)
	fmt.Println(db.Close(ctx))
	// Output:
	// migrated: true <nil>
	// [] <nil>
	// <nil>
}
