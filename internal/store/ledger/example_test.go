package ledger_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/usage"
	"weir/internal/store"
	"weir/internal/store/ledger"
	"weir/internal/store/storetest"
)

// Record returns at once, and a report has all that was recorded before it.
func Example() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	l := ledger.New(db, ledger.Options{})
	ended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, output := range []int64{50, 7} {
		l.Record(usage.Record{Ended: ended, Tenant: "acme", Model: "llama", Input: 200, Output: output})
	}
	r, err := l.Report(ctx, usage.Query{From: usage.DayOf(ended), To: usage.DayOf(ended)})
	for _, row := range r.Rows {
		fmt.Println(row.Day, row.Tenant, row.Model, row.Requests, row.Input, row.Output)
	}
	fmt.Println(err)
	// Output:
	// 2026-03-01 acme llama 2 400 57
	// <nil>
}
