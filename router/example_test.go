package router_test

import (
	"fmt"
	"net/http"
	"time"

	"weir/router"
)

// A server is asked for a load that it tells in the header of its answers.
func ExampleParseReport() {
	r, err := router.ParseReport("running=3, waiting=1, kv=0.25")
	fmt.Println(r.Running, r.Waiting, r.KVShare, r.PrefillRate < 0, err)
	fmt.Println(r)
	// Output:
	// 3 1 0.25 true <nil>
	// running=3, waiting=1, kv=0.25
}

// A refusal says when another attempt is worth while, and whether one is at all.
func ExampleRetryAdviceOf() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fmt.Println(router.RetryAdviceOf(429, http.Header{"Retry-After": {"2.5"}}, now))
	fmt.Println(router.RetryAdviceOf(503, http.Header{"X-Should-Retry": {"false"}}, now))
	// Output:
	// {2.5s false}
	// {0s true}
}
