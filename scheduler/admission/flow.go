package admission

import "weir/internal/inference"

// Cost units of one token. The ratio of prefill to decode is the 1:2 of the
// VTC paper; a cached prompt token costs a tenth of a computed one.
const (
	unitsPerPrefillToken = 10
	unitsPerCachedToken  = 1
	unitsPerDecodeToken  = 20
)

// unitScale is the service of one unit at weight 1. It is divisible by enough
// that weights up to MaxWeight keep a precision below one part in 256.
const unitScale = 1 << 20

// rebaseAbove is the service above which a lane's counters are moved down.
const rebaseAbove = 1 << 60

// flow is one tenant within one class: its first-come list and its virtual
// token counter. It lives while it has requests waiting or running, and longer
// while its counter is above what it would be lifted to on return.
type flow struct {
	key     flowKey
	scale   uint64 // service per unit: unitScale / weight
	service uint64 // virtual counter; only grows, except by rebasing
	rank    uint64 // the service that the heap was ordered by; at most service
	turn    uint64 // breaks ties of rank: the arrival that made the flow backlogged
	head    int32
	tail    int32
	waiting int
	refs    int    // requests waiting or running
	places  uint64 // items ever appended
	pos     int32  // index in the lane's heap; none when not on it
	parked  bool   // taken off the heap by the scan in progress
	cursor  int32  // the scan's next entry
	looked  int    // entries the scan skipped here
	prev    int32  // idle list
	next    int32
	idle    bool
}

type flowKey struct {
	tenant string
	class  inference.Class
}

// FlowID names the flow that an admitted request is charged to. It is valid
// from Take until Done.
type FlowID int32

// flowOf finds or makes the flow of an item and adds a reference.
func (q *Queue) flowOf(it Item) int32 {
	key := flowKey{it.Tenant, it.Class}
	i, ok := q.byKey[key]
	if !ok {
		i = q.flows.take()
		*q.flows.at(i) = flow{key: key, head: none, tail: none, pos: none, cursor: none}
		q.byKey[key] = i
	}
	f := q.flows.at(i)
	if f.idle {
		q.lanes[it.Class].idle.remove(q, i)
	}
	f.refs++
	f.scale = unitScale / uint64(min(max(it.Weight, 1), MaxWeight))
	return i
}

// append adds an entry to the end of a flow and makes the flow backlogged.
func (q *Queue) append(fi, e int32) {
	f, n := q.flows.at(fi), q.entries.at(e)
	n.flow, n.prev, n.next = fi, f.tail, none
	f.places++
	n.place = f.places
	if f.tail == none {
		f.head = e
	} else {
		q.entries.at(f.tail).next = e
	}
	f.tail = e
	f.waiting++
	if f.waiting == 1 {
		f.service = max(f.service, q.lift(f.key.class))
		f.turn = n.number
		q.push(fi)
	}
}

// detach removes an entry from its flow, and the flow from the heap when it
// was the last one.
func (q *Queue) detach(e int32) {
	n := q.entries.at(e)
	f := q.flows.at(n.flow)
	if f.cursor == e {
		f.cursor = n.next
	}
	if n.prev == none {
		f.head = n.next
	} else {
		q.entries.at(n.prev).next = n.next
	}
	if n.next == none {
		f.tail = n.prev
	} else {
		q.entries.at(n.next).prev = n.prev
	}
	f.waiting--
	if f.waiting == 0 && f.pos != none {
		q.removeFlow(f.key.class, f.pos)
	}
}

// lift is the counter that a flow starts from when it becomes backlogged: time
// spent idle earns no credit.
func (q *Queue) lift(c inference.Class) uint64 {
	if fi, ok := q.leastServed(c); ok {
		return q.flows.at(fi).service
	}
	return q.lanes[c].floor
}

// Charge adds decoded tokens of an admitted request to its flow. O(1): the
// heap is put right when the flow next comes to its top.
func (q *Queue) Charge(id FlowID, tokens int) {
	q.serve(int32(id), uint64(max(tokens, 0))*unitsPerDecodeToken)
}

func (q *Queue) serve(fi int32, units uint64) {
	f := q.flows.at(fi)
	f.service += units * f.scale
	if f.service > rebaseAbove {
		q.rebase(f.key.class)
	}
}

// rebase moves a lane's counters down by the least of them, so that they never
// overflow. Differences are kept, and with them the order.
func (q *Queue) rebase(c inference.Class) {
	base := q.lift(c)
	for i := range q.flows.slots {
		s := &q.flows.slots[i]
		if !s.live || s.value.key.class != c {
			continue
		}
		f := &s.value
		f.service = min(f.service-min(base, f.service), rebaseAbove)
		f.rank -= min(base, f.rank)
	}
	q.lanes[c].floor -= min(base, q.lanes[c].floor)
}

// Done ends the charging of an admitted request. What it consumed stays on its
// tenant's counter, also after a cancel.
func (q *Queue) Done(id FlowID) { q.release(int32(id)) }

// release drops one reference. A flow without requests is forgotten once its
// counter is below the lane's floor, since it would be lifted at least that far
// on return; until then its debt is remembered, for at most MaxIdleTenants
// tenants.
func (q *Queue) release(fi int32) {
	f := q.flows.at(fi)
	f.refs--
	if f.refs > 0 {
		return
	}
	l := &q.lanes[f.key.class]
	l.idle.append(q, fi)
	for l.idle.n > 0 {
		oldest := l.idle.head
		if l.idle.n <= q.cfg.MaxIdleTenants && q.flows.at(oldest).service > l.floor {
			return
		}
		l.idle.remove(q, oldest)
		delete(q.byKey, q.flows.at(oldest).key)
		q.flows.put(oldest)
	}
}

// list is a doubly linked list of idle flows, longest idle first.
type list struct {
	head, tail int32
	n          int
}

func (l *list) append(q *Queue, fi int32) {
	f := q.flows.at(fi)
	f.prev, f.next, f.idle = l.tail, none, true
	if l.tail == none {
		l.head = fi
	} else {
		q.flows.at(l.tail).next = fi
	}
	l.tail = fi
	l.n++
}

func (l *list) remove(q *Queue, fi int32) {
	f := q.flows.at(fi)
	if f.prev == none {
		l.head = f.next
	} else {
		q.flows.at(f.prev).next = f.next
	}
	if f.next == none {
		l.tail = f.prev
	} else {
		q.flows.at(f.next).prev = f.prev
	}
	f.idle = false
	l.n--
}
