package bench

import (
	"cmp"
	"time"

	"weir/internal/heap"
	"weir/router/balance"
)

// fleetEvent is something that happens at a time.
type fleetEvent struct {
	at      time.Duration
	order   uint64
	kind    fleetEventKind
	replica int
	life    int
	number  int // of a conversation or a fault
	turn    int
	request *fleetRequest
	report  balance.Report
}

type fleetEventKind uint8

const (
	turnComes fleetEventKind = iota
	retryComes
	stepEnds
	reportIsTaken
	reportComes
	replicaDies
	deathIsNoticed
	replicaReturns
	returnIsNoticed
	scalingLooks
	replicaStarts
)

// fleetEvents is a heap of those to come, the soonest first.
type fleetEvents []fleetEvent

func (e fleetEvents) Len() int { return len(e) }

func (e fleetEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

func (e fleetEvents) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}

func (e *fleetEvents) add(x fleetEvent) {
	*e = append(*e, x)
	heap.Up(*e, len(*e)-1)
}

// next takes the soonest.
func (e *fleetEvents) next() fleetEvent {
	x, last := (*e)[0], len(*e)-1
	e.Swap(0, last)
	(*e)[last] = fleetEvent{}
	*e = (*e)[:last]
	heap.Down(*e, 0)
	return x
}
