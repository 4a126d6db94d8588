package telemetry

import (
	"sync"
	"time"
)

// LogLimiter limits how often something is logged: one call per interval passes.
type LogLimiter struct {
	mu    sync.Mutex
	Every time.Duration
	last  time.Time
	held  int // calls since last that were not passed
}

// Do calls f with the number of calls that were held back, or counts this one.
func (q *LogLimiter) Do(f func(held int)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.last) >= q.Every {
		f(q.held)
		q.last, q.held = now, 0
		return
	}
	q.held++
}

// TroubleEvery is the least time between two log lines about connections, so that
// a flood of connections does not flood the log.
const TroubleEvery = 10 * time.Second
