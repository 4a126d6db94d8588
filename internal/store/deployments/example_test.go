package deployments_test

import (
	"context"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/internal/store/deployments"
	"weir/internal/store/storetest"
	"weir/router/deployment"
)

// What a model is to answer with is changed by compare-and-set, and all servers of the store see it.
func Example() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	log, err := auditlog.Open(ctx, db, auditlog.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := deployments.NewRecords(db, log)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, version := range []string{"v1", "v2"} {
		err := s.ChangeDeployment(ctx, "chat", func(old *deployment.Record) (*deployment.Record, error) {
			r := deployment.Apply(old, deployment.Spec{Model: "chat", Version: version}, "", "ann", now)
			return &r, nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	r, ok, err := s.Deployment(ctx, "chat")
	fmt.Println(r.Wanted.Version, r.Generation, ok, err)
	// Output: v2 2 true <nil>
}
