package batches_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/batch"
	"weir/internal/store"
	"weir/internal/store/batches"
	"weir/internal/store/storetest"
)

// A batch of a file waits until a server takes it by a lease, and no other one gets it.
func Example() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	s := batches.New(db)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	file := batch.File{ID: "file-1", Tenant: "acme", Place: "disk-1", Purpose: batch.PurposeBatch, Name: "lines.jsonl", Bytes: 5000, Created: now}
	if err := s.AddFile(ctx, file, 1<<20); err != nil {
		fmt.Println(err)
		return
	}
	b := batch.Batch{ID: "batch-1", Tenant: "acme", Place: "disk-1", Input: "file-1", Status: batch.StatusValidating, Created: now, Endpoint: "/v1/completions"}
	if err := s.AddBatch(ctx, b, 10); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		leased, found, err := s.LeaseBatch(ctx, "disk-1", nil, nil)
		fmt.Println(leased.ID, leased.Endpoint, found, err)
	}
	// Output:
	// batch-1 /v1/completions true <nil>
	//   false <nil>
}
