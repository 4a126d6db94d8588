package hooks

import (
	"sync/atomic"

	"weir/api/edge"
	"weir/internal/inference"
)

// foreground counts the requests that run or wait and are not of the lowest class, predictions among them: batches make room for them.
type foreground struct {
	n    atomic.Int64
	came atomic.Bool // since running was asked the last time: predictions are over before a batch asks
}

// Running is how many there are, or were since the call before.
func (o *foreground) Running() int {
	n := int(o.n.Load())
	if o.came.Swap(false) {
		return max(n, 1)
	}
	return n
}

// isOther tells requests that the machine computes for and that are not of the lowest class. What is passed on to other
// servers is theirs to refuse.
func isOther(r *edge.RequestStart) bool { return r.Class != inference.Batch && !r.Relayed }

// hooks count.
func (o *foreground) hooks() edge.Hooks {
	return edge.Hooks{
		OnRequestStart: func(r edge.RequestStart) {
			if isOther(&r) {
				o.n.Add(1)
				o.came.Store(true)
			}
		},
		OnRequestFinish: func(f edge.RequestFinish) {
			if isOther(&f.RequestStart) {
				o.n.Add(-1)
			}
		},
	}
}
