//go:build !race

package pool

import "time"

// spinTime is how long a waiting worker stays awake: more than the gaps between
// two products of one step, and little next to a step.
const spinTime = 100 * time.Microsecond

// spinPolls is how often a spinning worker looks before it asks for the time,
// about once in a microsecond or two.
const spinPolls = 32
