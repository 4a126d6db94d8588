package admission

import (
	"sync"

	"weir/internal/inference"
)

// Service carries what tenants are charged in one lane to the queues of the
// others, so that a tenant who uses much of one lane waits in another. The
// queues stay pure structures of one goroutine each; Service is what they share,
// behind a lock that each takes once in a step.
type Service struct {
	mu    sync.Mutex
	lanes []*Lane
}

// Lane is one queue's end of a Service. A lane outlives its queue where the
// queue is built again after a fault.
type Lane struct {
	service *Service
	inbox   []charge          // from other lanes since the last exchange; guarded by Service.mu
	byKey   map[flowKey]int32 // index in inbox
}

// charge is compute time that a tenant was charged for, in one class.
type charge struct {
	key   flowKey
	scale uint64 // of the tenant's weight
	cost  uint64
	flow  int32 // of the queue that charged it
}

// maxInbox bounds the tenants whose charges a lane that makes no steps keeps for
// later. Those of further tenants do not reach it.
const maxInbox = 1 << 14

// Lane joins a queue to the others.
func (s *Service) Lane() *Lane {
	l := &Lane{service: s, byKey: make(map[flowKey]int32)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, l)
	return l
}

// Close takes the lane out of the service: nothing is carried to it any more.
func (l *Lane) Close() {
	s := l.service
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lanes {
		if s.lanes[i] == l {
			s.lanes = append(s.lanes[:i], s.lanes[i+1:]...)
			return
		}
	}
}

// Charge adds compute time that a tenant took outside of all lanes, in a class, in nanoseconds.
func (s *Service) Charge(tenant string, class inference.Class, weight int, nanoseconds uint64) {
	c := charge{key: flowKey{tenant, class}, scale: unitScale / uint64(max(weight, 1)), cost: min(nanoseconds, maxCost)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.add(&c)
	}
}

// exchange gives the other lanes what was charged here, and returns in with what
// was charged there.
func (l *Lane) exchange(out, in []charge) []charge {
	s := l.service
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.lanes {
		if other == l {
			continue
		}
		for i := range out {
			other.add(&out[i])
		}
	}
	in = append(in, l.inbox...)
	l.inbox = l.inbox[:0]
	clear(l.byKey)
	return in
}

// add puts a charge into a lane's inbox, as one with the tenant's others.
func (l *Lane) add(c *charge) {
	if i, known := l.byKey[c.key]; known {
		l.inbox[i].cost = min(l.inbox[i].cost+c.cost, maxCost)
		l.inbox[i].scale = c.scale
		return
	}
	if len(l.inbox) == maxInbox {
		return
	}
	l.byKey[c.key] = int32(len(l.inbox))
	l.inbox = append(l.inbox, *c)
}
