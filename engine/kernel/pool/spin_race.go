//go:build race

package pool

import "time"

// Under the race detector parking is what the tests are to see more of.
const (
	spinTime  = 10 * time.Microsecond
	spinPolls = 4
)
