package trace_test

import (
	"fmt"

	"weir/telemetry/trace"
)

// A request takes its place below the span that its caller names, and is the parent of what an upstream does for it.
func Example() {
	c := trace.Begin("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", 0)
	fmt.Println(c.ID(), c.Sampled)

	below := trace.Begin(c.Header(), c.State, 0) // in the upstream
	fmt.Println(below.Trace == c.Trace, below.Parent == c.Span)
	// Output:
	// 0af7651916cd43dd8448eb211c80319c true
	// true true
}
