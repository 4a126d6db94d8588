package generation

import (
	"time"

	"weir/api/edge"
	"weir/api/meter"
)

// Runner runs generations: what all of one server have in common.
type Runner struct {
	Hooks          *edge.Hooks
	Running        *edge.Running
	Estimates      *meter.Estimates // of the lengths of answers
	Heartbeat      Heartbeat        // what a quiet stream sends
	HeartbeatEvery time.Duration    // after this long without a byte
	ProgressEvery  time.Duration    // how often a stream that asked for progress looks for news
}

// Heartbeat is what a stream sends while no token is generated, so that proxies
// and clients keep it open.
type Heartbeat string

// Kinds of heartbeat. A comment is ignored by every client that follows the
// SSE standard; HeartbeatChunk, a chunk without choices, is for clients that fail
// on comments.
const (
	HeartbeatComment Heartbeat = "comment"
	HeartbeatChunk   Heartbeat = "chunk"
	HeartbeatOff     Heartbeat = "off"
)
