package scrub_test

import (
	"fmt"

	"weir/telemetry/scrub"
)

func Example() {
	fmt.Println(scrub.Text("Ann Lee (ann@example.org, +49 171 1234567) paid with 4111 1111 1111 1111 on 2026-11-22."))
	// Output: Ann Lee ([email], [phone]) paid with [card] on 2026-11-22.
}
