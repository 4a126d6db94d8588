package admission

import "weir/internal/inference"

// maxCost bounds one charge, so that counters do not overflow: 18 minutes, where
// the unit is a nanosecond.
const maxCost = 1 << 40

// unitScale is the service of one unit of cost at weight 1. It is divisible by
// enough that weights up to MaxWeight keep a precision below one part in 256.
const unitScale = 1 << 20

// rebaseAbove is the service above which a class queue's counters are moved down.
const rebaseAbove = 1 << 60

// flow is one tenant within one class: its line and its virtual counter of
// compute time. It lives while it has requests waiting or running, and longer
// while its counter is above what it would be lifted to on return.
type flow struct {
	key     flowKey
	scale   uint64 // service per unit: unitScale / weight
	service uint64 // virtual counter; only grows, except by rebasing
	rank    uint64 // the service that the heap was ordered by; at most service
	turn    uint64 // breaks ties of rank: the arrival that made the flow backlogged
	credit  uint64 // cost charged in advance that was not incurred: later charges use it up
	line    line   // the entries whose turn comes, first come first
	aside   line   // the entries that were set aside
	piles   piles  // the entries that may give way
	dated   dates  // the entries in line that are due some time
	hurried int    // turns in a row of entries that were due or preferred, before the oldest one
	listed  int    // entries of both
	waiting int    // entries, followers of groups included
	choices int    // of these
	tokens  int    // of these
	work    uint64 // of these, expected
	refs    int    // requests waiting or running
	places  uint64 // entries ever listed
	pos     int32  // index in the class queue's heap; none when not on it
	parked  bool   // taken off the heap by the scan in progress
	scanned bool   // the cursors are those of the scan in progress
	cursor  int32  // the scan's next entry in line
	second  int32  // the scan's next entry of those set aside
	looked  int    // entries the scan skipped here
	prev    int32  // idle list
	next    int32
	idle    bool
	report  int32 // index in Queue.charged; none when nothing is to be reported
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
	if q.classes[it.Class].refs == 0 {
		q.Exchange() // what others charged while nobody was here does not count
	}
	key := flowKey{it.Tenant, it.Class}
	i, ok := q.byKey[key]
	if !ok {
		i = q.open(key)
	}
	f := q.flows.at(i)
	if f.idle {
		q.classes[it.Class].idle.remove(q, i)
	}
	f.refs++
	q.classes[it.Class].refs++
	f.scale = unitScale / it.share()
	return i
}

// open makes a flow.
func (q *Queue) open(key flowKey) int32 {
	i := q.flows.take()
	*q.flows.at(i) = flow{
		key: key, line: emptyLine, aside: emptyLine, piles: emptyPiles, dated: dates{by: due},
		pos: none, cursor: none, second: none, report: none,
	}
	q.byKey[key] = i
	return i
}

// append adds an entry to a flow and makes the flow backlogged.
func (q *Queue) append(fi, e int32) {
	q.entries.at(e).flow = fi
	if !q.join(fi, e) {
		q.list(fi, e)
	}
	f, n := q.flows.at(fi), q.entries.at(e)
	f.waiting++
	f.choices += n.item.Choices
	f.tokens += n.item.Tokens
	f.work += n.item.work()
	if f.waiting == 1 {
		f.service = max(f.service, q.lift(f.key.class))
		f.turn = n.number
		f.hurried = 0
		q.push(fi)
	}
}

// list puts an entry at the end of its flow's line.
func (q *Queue) list(fi, e int32) {
	f, n := q.flows.at(fi), q.entries.at(e)
	f.places++
	f.listed++
	n.where, n.place = inLine, f.places
	q.link(&f.line, e)
	if n.item.Due != 0 {
		q.pushDate(&f.dated, e)
	}
	if f.scanned && f.cursor == none {
		f.cursor = e
	}
}

// detach removes an entry from its flow, and the flow from the heap when it
// was the last one. The next request of its group takes its place in the flow,
// at the end of the line.
func (q *Queue) detach(e int32) {
	n := q.entries.at(e)
	fi := n.flow
	f := q.flows.at(fi)
	f.waiting--
	f.choices -= n.item.Choices
	f.tokens -= n.item.Tokens
	f.work -= n.item.work()
	if n.where == follows {
		g := q.groups.at(n.group)
		g.left++
		q.unlinkFrom(&g.rest, e)
		return
	}
	q.unlist(e)
	if n.group != none {
		q.succeed(fi, n.group)
	}
	if f.waiting == 0 && f.pos != none {
		q.removeFlow(f.key.class, f.pos)
	}
}

// unlist takes an entry out of its flow's lists.
func (q *Queue) unlist(e int32) {
	n := q.entries.at(e)
	f := q.flows.at(n.flow)
	if f.cursor == e {
		f.cursor = n.next
	}
	if f.second == e {
		f.second = n.next
	}
	f.listed--
	if n.passed {
		q.unpass(e)
	}
	q.removeDate(&f.dated, e)
	if n.where == aside {
		q.unlinkFrom(&f.aside, e)
	} else {
		q.unlinkFrom(&f.line, e)
	}
}

// firstPlace is the place of the first listed entry of a backlogged flow.
func (q *Queue) firstPlace(f *flow) uint64 {
	switch {
	case f.line.head == none:
		return q.entries.at(f.aside.head).place
	case f.aside.head == none:
		return q.entries.at(f.line.head).place
	}
	return min(q.entries.at(f.line.head).place, q.entries.at(f.aside.head).place)
}

// lift is the counter that a flow starts from when it becomes backlogged: time
// spent idle earns no credit. The least served flow may be below the floor when
// scans passed over it; a newcomer is not, since its own counter may have been
// forgotten below the floor.
func (q *Queue) lift(c inference.Class) uint64 {
	floor := q.classes[c].floor
	if fi, ok := q.leastServed(c); ok {
		return max(floor, q.flows.at(fi).service)
	}
	return floor
}

// Charge adds to what an admitted request has cost its flow. O(1): the heap is
// put right when the flow next comes to its top.
func (q *Queue) Charge(id FlowID, cost uint64) { q.serve(int32(id), cost) }

// Refund takes back a charge that turned out too high. A counter never falls,
// so that the flow's next charges are less instead.
func (q *Queue) Refund(id FlowID, cost uint64) {
	f := q.flows.at(int32(id))
	f.credit = min(f.credit+cost, maxCost)
}

func (q *Queue) serve(fi int32, cost uint64) {
	f := q.flows.at(fi)
	cost = min(cost, maxCost)
	refunded := min(cost, f.credit)
	f.credit -= refunded
	f.service += (cost - refunded) * f.scale
	q.report(fi, cost-refunded)
	if f.service > rebaseAbove {
		q.rebase(f.key.class)
	}
}

// rebase moves a class queue's counters down by the least of them, so that they never
// overflow. Differences are kept, and with them the order.
func (q *Queue) rebase(c inference.Class) {
	base := q.classes[c].floor
	if fi, ok := q.leastServed(c); ok {
		base = min(base, q.flows.at(fi).service)
	}
	for i := range q.flows.slots {
		s := &q.flows.slots[i]
		if !s.live || s.value.key.class != c {
			continue
		}
		f := &s.value
		f.service = min(f.service-min(base, f.service), rebaseAbove)
		f.rank -= min(base, f.rank)
	}
	q.classes[c].floor -= min(base, q.classes[c].floor)
}

// Done ends the charging of an admitted request. What it consumed stays on its
// tenant's counter, also after a cancel.
func (q *Queue) Done(id FlowID) { q.release(int32(id)) }

// release drops one reference.
func (q *Queue) release(fi int32) {
	f := q.flows.at(fi)
	f.refs--
	l := &q.classes[f.key.class]
	l.refs--
	if f.refs == 0 {
		l.idle.append(q, fi)
		q.forget(f.key.class)
	}
}

// forget drops flows without requests, longest idle first: those whose counter is
// below the class queue's floor, since they would be lifted at least that far on
// return; until then a debt is remembered, for at most MaxIdleTenants tenants.
func (q *Queue) forget(c inference.Class) {
	l := &q.classes[c]
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

// idleList is a doubly linked list of idle flows, longest idle first.
type idleList struct {
	head, tail int32
	n          int
}

func (l *idleList) append(q *Queue, fi int32) {
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

func (l *idleList) remove(q *Queue, fi int32) {
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
