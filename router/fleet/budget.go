package fleet

import (
	"sync"
	"time"
)

// A retry is work that was done already. While few requests fail it hides the failures; while
// many fail it adds to the load that made them fail. So retries are a share of the requests.

const (
	budgetSlots = 10
	// freeRetries may be made in any window, so that a fleet with few requests has some.
	freeRetries = 10
)

// retryBudget counts requests and retries over a sliding window.
type retryBudget struct {
	share float64       // of the requests that may be retries; negative: there are none
	slot  time.Duration // a tenth of the window

	mu    sync.Mutex
	at    int64 // number of the newest slot
	slots [budgetSlots]struct{ requests, retries int }
}

func newBudget(share float64, window time.Duration) *retryBudget {
	return &retryBudget{share: share, slot: max(window/budgetSlots, 1)}
}

// request counts one.
func (b *retryBudget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots[b.move(now)].requests++
}

// take counts a retry, and reports whether it may be made.
func (b *retryBudget) take(now time.Time) bool {
	if b.share < 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.move(now)
	requests, retries := 0, 0
	for _, s := range b.slots {
		requests += s.requests
		retries += s.retries
	}
	if float64(retries+1) > max(freeRetries, b.share*float64(requests)) {
		return false
	}
	b.slots[i].retries++
	return true
}

// move empties the slots that are too old, and returns the index of now's.
func (b *retryBudget) move(now time.Time) int {
	at := now.UnixNano() / int64(b.slot)
	for n := 0; b.at < at && n < budgetSlots; n++ {
		b.at = max(b.at+1, at-budgetSlots+1)
		b.slots[b.at%budgetSlots] = struct{ requests, retries int }{}
	}
	return int(b.at % budgetSlots)
}
