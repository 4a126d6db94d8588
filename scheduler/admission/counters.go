package admission

import (
	"weir/internal/heap"
	"weir/internal/inference"
)

// counters are the service counters of the tenants, class by class: how much each has had, by weight, and which of those that wait has had least.
//
// A class queue's heap orders backlogged flows by (rank, turn). A flow's service
// only grows between two looks at the top, so ranks are lower bounds: the top
// is the least served flow once its rank is up to date.
type counters struct {
	cfg     Config
	flows   slab[flow]
	byKey   map[flowKey]int32
	classes [inference.NumClasses]classQueue

	charged   []charge // since the last exchange with other lanes
	elsewhere []charge // scratch: what they charged
}

// maxCost bounds one charge, so that counters do not overflow: 18 minutes, where
// the unit is a nanosecond.
const maxCost = 1 << 40

// unitScale is the service of one unit of cost at weight 1. It is divisible by
// enough that weights up to MaxWeight keep a precision below one part in 256.
const unitScale = 1 << 20

// rebaseAbove is the service above which a class queue's counters are moved down.
const rebaseAbove = 1 << 60

// FlowID names the flow that an admitted request is charged to. It is valid
// from Take until Done.
type FlowID int32

type flowKey struct {
	tenant string
	class  inference.Class
}

// classQueue is one class: the flows that wait in it, least served first.
type classQueue struct {
	backlog   []int32 // binary heap of flow indices by (key, turn)
	floor     uint64  // service of the last flow whose turn came: the lift when none waits
	waiting   int
	overQuota int      // of these, entries that give way like those of a lower class
	refs      int      // requests waiting or running
	credit    uint64   // hundredths of the cost owed by the guaranteed share
	idle      idleList // flows without requests whose debt is remembered
}

// Debt is how much more service a tenant has had in a class than the least served
// tenant that waits there, in units of cost at weight 1; 0 for a tenant that is
// not known, and where none waits.
func (ct *counters) Debt(tenant string, c inference.Class) uint64 {
	i, known := ct.byKey[flowKey{tenant, c}]
	least, any := ct.leastServed(c)
	if !known || !any {
		return 0
	}
	own, floor := ct.flows.at(i).service, ct.flows.at(least).service
	return (own - min(floor, own)) / unitScale
}

// flowOf finds or makes the flow of an item and adds a reference.
func (ct *counters) flowOf(it Item) int32 {
	if ct.classes[it.Class].refs == 0 {
		ct.Exchange() // what others charged while the class was empty does not count
	}
	key := flowKey{it.Tenant, it.Class}
	i, ok := ct.byKey[key]
	if !ok {
		i = ct.openFlow(key)
	}
	f := ct.flows.at(i)
	if f.isIdle {
		ct.classes[it.Class].idle.remove(ct, i)
	}
	f.refs++
	ct.classes[it.Class].refs++
	f.scale = unitScale / it.weight()
	return i
}

// openFlow makes a flow.
func (ct *counters) openFlow(key flowKey) int32 {
	i := ct.flows.take()
	*ct.flows.at(i) = flow{
		key: key, line: emptyLine, aside: emptyLine, shedLists: emptyShedLists, due: dates{by: due},
		pos: none, cursor: none, asideCursor: none, report: none,
	}
	ct.byKey[key] = i
	return i
}

// lift is the counter that a flow starts from when it becomes backlogged: time
// spent idle earns no credit. The least served flow may be below the floor when
// scans passed over it; a newcomer is not, since its own counter may have been
// forgotten below the floor.
func (ct *counters) lift(c inference.Class) uint64 {
	floor := ct.classes[c].floor
	if fi, ok := ct.leastServed(c); ok {
		return max(floor, ct.flows.at(fi).service)
	}
	return floor
}

// Charge adds to what an admitted request has cost its flow. O(1): the heap is
// put right when the flow next comes to its top.
func (ct *counters) Charge(id FlowID, cost uint64) { ct.serve(int32(id), cost) }

// Refund takes back a charge that turned out too high. A counter never falls,
// so that the flow's next charges are less instead.
func (ct *counters) Refund(id FlowID, cost uint64) {
	f := ct.flows.at(int32(id))
	f.credit = min(f.credit+cost, maxCost)
}

func (ct *counters) serve(fi int32, cost uint64) {
	f := ct.flows.at(fi)
	cost = min(cost, maxCost)
	refunded := min(cost, f.credit)
	f.credit -= refunded
	f.service += (cost - refunded) * f.scale
	ct.report(fi, cost-refunded)
	if f.service > rebaseAbove {
		ct.rebase(f.key.class)
	}
}

// rebase moves a class queue's counters down by the least of them, so that they never
// overflow. Differences are kept, and with them the order.
func (ct *counters) rebase(c inference.Class) {
	base := ct.classes[c].floor
	if fi, ok := ct.leastServed(c); ok {
		base = min(base, ct.flows.at(fi).service)
	}
	for i := range ct.flows.slots {
		s := &ct.flows.slots[i]
		if !s.live || s.value.key.class != c {
			continue
		}
		f := &s.value
		f.service = min(f.service-min(base, f.service), rebaseAbove)
		f.rank -= min(base, f.rank)
	}
	ct.classes[c].floor -= min(base, ct.classes[c].floor)
}

// Done ends the charging of an admitted request. What it consumed stays on its
// tenant's counter, also after a cancel.
func (ct *counters) Done(id FlowID) { ct.release(int32(id)) }

// release drops one reference.
func (ct *counters) release(fi int32) {
	f := ct.flows.at(fi)
	f.refs--
	l := &ct.classes[f.key.class]
	l.refs--
	if f.refs == 0 {
		l.idle.append(ct, fi)
		ct.forget(f.key.class)
	}
}

// forget drops flows without requests, longest idle first: those whose counter is
// below the class queue's floor, since they would be lifted at least that far on
// return; until then a debt is remembered, for at most MaxIdleTenants tenants.
func (ct *counters) forget(c inference.Class) {
	l := &ct.classes[c]
	for l.idle.n > 0 {
		oldest := l.idle.head
		if l.idle.n <= ct.cfg.MaxIdleTenants && ct.flows.at(oldest).service > l.floor {
			return
		}
		l.idle.remove(ct, oldest)
		delete(ct.byKey, ct.flows.at(oldest).key)
		ct.flows.put(oldest)
	}
}

// leastServed brings the least served backlogged flow of a class to the top.
func (ct *counters) leastServed(c inference.Class) (int32, bool) {
	l := &ct.classes[c]
	for len(l.backlog) > 0 {
		f := ct.flows.at(l.backlog[0])
		if f.rank == f.service {
			return l.backlog[0], true
		}
		f.rank = f.service
		heap.Down(backlog{ct, l}, 0)
	}
	return none, false
}

func (ct *counters) push(fi int32) {
	f := ct.flows.at(fi)
	f.rank = f.service
	l := &ct.classes[f.key.class]
	l.backlog = append(l.backlog, fi)
	f.pos = int32(len(l.backlog) - 1)
	heap.Up(backlog{ct, l}, int(f.pos))
}

func (ct *counters) removeFlow(c inference.Class, pos int32) {
	l := &ct.classes[c]
	last := len(l.backlog) - 1
	backlog{ct, l}.Swap(int(pos), last)
	ct.flows.at(l.backlog[last]).pos = none
	l.backlog = l.backlog[:last]
	if int(pos) < last {
		heap.Fix(backlog{ct, l}, int(pos))
	}
}

// backlog is the heap of a class's backlogged flows, the least served first.
type backlog struct {
	counters *counters
	class    *classQueue
}

func (b backlog) Len() int { return len(b.class.backlog) }

func (b backlog) Less(i, j int) bool {
	x, y := b.counters.flows.at(b.class.backlog[i]), b.counters.flows.at(b.class.backlog[j])
	if x.rank != y.rank {
		return x.rank < y.rank
	}
	return x.turn < y.turn
}

func (b backlog) Swap(i, j int) {
	list := b.class.backlog
	list[i], list[j] = list[j], list[i]
	b.counters.flows.at(list[i]).pos = int32(i)
	b.counters.flows.at(list[j]).pos = int32(j)
}

// bookShares books admitted work against the guaranteed shares: lower classes
// that wait are owed their part of it, the admitted class has received it.
func (ct *counters) bookShares(c inference.Class, cost uint64) {
	l := &ct.classes[c]
	l.credit -= min(l.credit, 100*cost)
	for lower := c + 1; lower < inference.NumClasses; lower++ {
		if o := &ct.classes[lower]; o.waiting > 0 {
			o.credit = min(o.credit+cost*uint64(ct.cfg.SharePercent[lower]), rebaseAbove)
		}
	}
}

// Exchange tells other lanes what was charged here since the last exchange, and
// books what they charged: call it at the start of a step. Without a lane it
// does nothing.
func (ct *counters) Exchange() {
	if ct.cfg.Lane == nil {
		return
	}
	for i := range ct.charged {
		ct.flows.at(ct.charged[i].flow).report = none
	}
	ct.elsewhere = ct.cfg.Lane.exchange(ct.charged, ct.elsewhere[:0])
	ct.charged = ct.charged[:0]
	for i := range ct.elsewhere {
		ct.addElsewhere(&ct.elsewhere[i])
	}
	clear(ct.elsewhere) // the names of tenants that may be gone
}

// report notes a charge for the next exchange.
func (ct *counters) report(fi int32, cost uint64) {
	if ct.cfg.Lane == nil || cost == 0 {
		return
	}
	f := ct.flows.at(fi)
	if f.report == none {
		f.report = int32(len(ct.charged))
		ct.charged = append(ct.charged, charge{key: f.key, scale: f.scale, flow: fi})
	}
	c := &ct.charged[f.report]
	c.cost, c.scale = min(c.cost+cost, maxCost), f.scale
}

// addElsewhere adds what a tenant was charged in another lane to its counter here. In a
// class in which no request waits or runs nothing is counted, since no tenant is deprived
// there. Elsewhere a tenant can fall behind by MaxDebt at most: it may have had
// another lane to itself, and is not to starve here for it.
func (ct *counters) addElsewhere(c *charge) {
	l := &ct.classes[c.key.class]
	if l.refs == 0 {
		return
	}
	fi, known := ct.byKey[c.key]
	if !known {
		fi = ct.openFlow(c.key)
		ct.flows.at(fi).service = l.floor
		l.idle.append(ct, fi)
	}
	f := ct.flows.at(fi)
	if most := l.floor + ct.maxDebt(); f.service < most {
		f.service = min(f.service+c.cost*c.scale, most)
	}
	if f.service > rebaseAbove {
		ct.rebase(f.key.class)
	}
	ct.forget(c.key.class)
}

// maxDebt is MaxDebt in units of counters.
func (ct *counters) maxDebt() uint64 { return min(ct.cfg.MaxDebt, maxCost/8) * unitScale }

// idleList is a doubly linked list of idle flows, longest idle first.
type idleList struct {
	head, tail int32
	n          int
}

func (l *idleList) append(ct *counters, fi int32) {
	f := ct.flows.at(fi)
	f.prev, f.next, f.isIdle = l.tail, none, true
	if l.tail == none {
		l.head = fi
	} else {
		ct.flows.at(l.tail).next = fi
	}
	l.tail = fi
	l.n++
}

func (l *idleList) remove(ct *counters, fi int32) {
	f := ct.flows.at(fi)
	if f.prev == none {
		l.head = f.next
	} else {
		ct.flows.at(f.prev).next = f.next
	}
	if f.next == none {
		l.tail = f.prev
	} else {
		ct.flows.at(f.next).prev = f.prev
	}
	f.isIdle = false
	l.n--
}
