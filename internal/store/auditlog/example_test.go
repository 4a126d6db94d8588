package auditlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

// A change is durable once Append returns. The last entry is noted in a file apart from the store.
func Example() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	dir, err := os.MkdirTemp("", "heads")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	log, err := auditlog.Open(ctx, db, auditlog.Options{
		Key: audit.NewKey([]byte("32 random bytes, apart from logs")), Heads: audit.NewHeads(filepath.Join(dir, "head")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e, err := log.Append(ctx, audit.Change{Time: at, Actor: "command line", Action: "key.create", Object: "acme"})
	fmt.Println(e.Sequence, err)
	head, err := log.Verify(ctx)
	fmt.Println(head == e.Head(), err)
	noted, err := log.NotedHead()
	fmt.Println(noted == head, err)
	// Output:
	// 1 <nil>
	// true <nil>
	// true <nil>
}
