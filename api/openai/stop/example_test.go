package stop_test

import (
	"fmt"

	"weir/api/openai/stop"
)

// A text comes in pieces. What may be the beginning of a stop string waits for the next piece.
func Example() {
	m := stop.NewMatcher(stop.NewSet([]string{"END", "\n\n"}, false))
	for _, piece := range []string{"one E", "ven", " two E", "ND three"} {
		out, match := m.Append(nil, []byte(piece))
		fmt.Printf("%q\n", out)
		if match != nil {
			fmt.Printf("stopped by %q\n", match.Text)
			return
		}
	}
	// Output:
	// "one "
	// "Even"
	// " two "
	// ""
	// stopped by "END"
}
