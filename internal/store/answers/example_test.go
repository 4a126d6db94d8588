package answers_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/replay"
	"weir/internal/store"
	"weir/internal/store/answers"
	"weir/internal/store/storetest"
)

// The first request of an idempotency key executes, and its answer is there for repetitions, also on other servers of the store.
func ExampleClaims() {
	ctx := context.Background()
	db, done := storetest.Fresh(ctx, store.Options{})
	defer done()
	claims := answers.NewClaims(db, 1<<20)
	r := replay.Request{Tenant: "acme", Key: "8e03978e", Fingerprint: replay.Fingerprint("/v1/completions", []byte(`{"prompt": "a"}`)), TTL: time.Hour}
	first, err := claims.Begin(ctx, r)
	fmt.Println(first.State == replay.Begun, err)
	fmt.Println(claims.Finish(ctx, first.Claim, []byte("the answer")))
	again, err := claims.Look(ctx, r)
	fmt.Println(again.State == replay.Answered, string(again.Answer), err)
	// Output:
	// true <nil>
	// <nil>
	// true the answer <nil>
}
