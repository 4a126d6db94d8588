package replay_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/replay"
)

// The first request of a key executes; a repetition gets its answer; another body under the same key is told apart.
func Example() {
	ctx, claims := context.Background(), replay.NewMemory(1<<20)
	ask := func(body string) replay.Request {
		return replay.Request{Tenant: "acme", Key: "8e03978e", Fingerprint: replay.Fingerprint("/v1/completions", []byte(body)), TTL: time.Hour}
	}
	first, err := claims.Begin(ctx, ask(`{"prompt": "a"}`))
	fmt.Println(first.State == replay.Begun, err)
	again, err := claims.Look(ctx, ask(`{"prompt": "a"}`))
	fmt.Println(again.State == replay.InFlight, err)

	answer := replay.Answer{Status: 200, ContentType: "application/json", Body: []byte(`{"id": "cmpl-1"}`)}
	stored, err := answer.Encode()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(claims.Finish(ctx, first.Claim, stored))
	again, err = claims.Look(ctx, ask(`{"prompt": "a"}`))
	fmt.Println(again.State == replay.Answered, err)
	got, err := replay.Decode(again.Answer)
	fmt.Printf("%d %s %v\n", got.Status, got.Body, err)
	other, err := claims.Look(ctx, ask(`{"prompt": "b"}`))
	fmt.Println(other.State == replay.Differs, err)
	// Output:
	// true <nil>
	// true <nil>
	// <nil>
	// true <nil>
	// 200 {"id": "cmpl-1"} <nil>
	// true <nil>
}

// What one tenant asked for is no hit for another one.
func ExampleCache() {
	c := replay.NewCache[string](replay.CacheConfig{Bytes: 1 << 20, MaxAge: time.Hour})
	hash := replay.Fingerprint("/v1/completions", []byte(`{"prompt": "a", "seed": 1}`))
	c.Put("acme", hash, "an answer", 9)
	for _, tenant := range []string{"acme", "other"} {
		v, ok := c.Get(tenant, hash)
		fmt.Printf("%q %v\n", v, ok)
	}
	// Output:
	// "an answer" true
	// "" false
}
