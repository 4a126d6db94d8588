package edge_test

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api/edge"
	"weir/internal/inference"
)

// What a backend refuses with is told to clients of every protocol in the same way.
func ExampleFault() {
	for _, err := range []error{
		fmt.Errorf("%w: waiting requests 1025, limit 1024", inference.ErrQueueFull),
		fmt.Errorf("%w: the first token is due in 20ms", inference.ErrDeadlineUnreachable),
	} {
		fault := edge.Fault(err)
		fmt.Println(fault.Status, fault.Code, fault.Message)
	}
	// Output:
	// 503 server_is_overloaded queue is full: waiting requests 1025, limit 1024
	// 429 deadline_unreachable deadline cannot be met: the first token is due in 20ms
}

// How long a client says that it waits may come in several headers; the soonest counts.
func ExampleClientTimeout() {
	var h fasthttp.RequestHeader
	h.Set("X-Stainless-Timeout", "60")
	fmt.Println(edge.ClientTimeout(&h))
	fmt.Println(edge.Sooner(edge.ClientTimeout(&h), 10*time.Second))
	// Output:
	// 1m0s
	// 10s
}
