package admission

import (
	"slices"

	"weir/internal/inference"
)

// scan is one walk over a class in the order of turns. Flows whose requests
// were all skipped are parked off the heap until the scan ends.
type scan struct {
	class   inference.Class
	aside   bool  // entries that were set aside are looked at, too
	current int32 // entry that Next returned last; none when taken or skipped
	skipped int
	parked  []int32
	touched []int32 // flows whose cursor is set
	passed  []int32 // entries that were skipped and are off their flow's dated

	preferred bool // current took the turn of an older one of its flow
}

// maxDueTurns is how many turns in a row requests may get because they are due, before the oldest one
// of their tenant gets its own.
const maxDueTurns = 4

// Order returns the classes in the order in which they are to be tried: lower
// classes whose guaranteed share is due first, then by precedence.
func (q *Queue) Order() [inference.NumClasses]inference.Class {
	var order [inference.NumClasses]inference.Class
	n := 0
	for pass := range 2 {
		for c := range inference.Class(inference.NumClasses) {
			if q.owed(c) == (pass == 0) {
				order[n] = c
				n++
			}
		}
	}
	return order
}

// owed reports whether a class has been passed over for so much work that its
// next request is paid for by its guaranteed share.
func (q *Queue) owed(c inference.Class) bool {
	l := &q.classes[c]
	if l.credit == 0 {
		return false
	}
	fi, ok := q.leastServed(c)
	if !ok {
		return false
	}
	f := q.flows.at(fi)
	first := f.line.head
	if first == none {
		first = f.aside.head
	}
	return l.credit >= 100*q.entries.at(first).item.Cost
}

// Scan starts a walk over the waiting requests of a class, with those that were
// set aside or without. It must be ended with EndScan before the next Offer,
// Expire or Scan.
func (q *Queue) Scan(c inference.Class, aside bool) {
	q.scan.class, q.scan.aside, q.scan.current, q.scan.skipped = c, aside, none, 0
}

// Next returns the request whose turn it is among those not skipped, until
// LookAhead requests were skipped, half of that in one tenant while others
// wait. The answer must be followed by Take, Skip, SetAside or Remove of that
// request.
func (q *Queue) Next() (ref uint64, t Ticket, ok bool) {
	s := &q.scan
	for s.skipped < q.cfg.LookAhead {
		fi, ok := q.leastServed(s.class)
		if !ok {
			return 0, 0, false
		}
		e := q.cursor(fi)
		if e == none || len(q.classes[s.class].backlog)+len(s.parked) > 1 && q.flows.at(fi).skipped >= (q.cfg.LookAhead+1)/2 {
			q.park(fi)
			continue
		}
		s.current, s.preferred = e, false
		return q.entries.at(e).item.Ref, Ticket(q.entries.id(e)), true
	}
	return 0, 0, false
}

// cursor is the entry of a flow that the scan looks at next: the one that is due
// first, or else of those in line and those set aside the one that came first.
func (q *Queue) cursor(fi int32) int32 {
	s, f := &q.scan, q.flows.at(fi)
	if !f.scanned {
		f.scanned, f.cursor, f.asideCursor = true, f.line.head, none
		if s.aside {
			f.asideCursor = f.aside.head
		}
		s.touched = append(s.touched, fi)
	}
	if len(f.due.heap) > 0 && (f.jumped < maxDueTurns || f.skipped > 0) {
		return f.due.heap[0]
	}
	for f.cursor != none && q.entries.at(f.cursor).passed {
		f.cursor = q.entries.at(f.cursor).next
	}
	if f.asideCursor != none && (f.cursor == none || q.entries.at(f.asideCursor).place < q.entries.at(f.cursor).place) {
		return f.asideCursor
	}
	return f.cursor
}

// park takes a flow that the scan has seen off the heap.
func (q *Queue) park(fi int32) {
	f := q.flows.at(fi)
	q.removeFlow(f.key.class, f.pos)
	f.parked = true
	q.scan.parked = append(q.scan.parked, fi)
}

// Skip passes over the request that Next returned: it cannot run yet.
func (q *Queue) Skip() {
	s := &q.scan
	if s.current == none {
		return
	}
	n := q.entries.at(s.current)
	f := q.flows.at(n.flow)
	switch {
	case n.where == aside:
		f.asideCursor = n.next
	case n.item.Due != 0:
		n.passed = true
		q.entries.removeDate(&f.due, s.current)
		s.passed = append(s.passed, s.current)
	default:
		f.cursor = n.next
	}
	f.skipped++
	s.skipped++
	s.current = none
}

// Pass leaves the tenant of the request that Next returned out of the rest of the scan.
func (q *Queue) Pass() {
	s := &q.scan
	if s.current == none {
		return
	}
	q.park(q.entries.at(s.current).flow)
	s.current = none
}

// SetAside moves the request that Next returned out of the line: scans pass
// over it, without counting it among the skipped, until one asks for such
// requests. It keeps its place.
func (q *Queue) SetAside() {
	s := &q.scan
	if s.current == none {
		return
	}
	n := q.entries.at(s.current)
	if n.where == aside {
		q.Skip()
		return
	}
	f := q.flows.at(n.flow)
	q.unlist(s.current)
	f.listed++
	n.where = aside
	q.entries.insert(&f.aside, s.current)
	s.current = none
}

// Take admits the request that Next returned and charges its tenant. The flow
// is for Charge, Refund and Done.
func (q *Queue) Take(cost uint64) FlowID {
	s := &q.scan
	e := s.current
	if e == none {
		return none
	}
	s.current = none
	fi := q.entries.at(e).flow
	f := q.flows.at(fi)
	switch {
	case e == f.line.head:
		f.jumped = 0
	case s.preferred, q.entries.at(e).pos[due] != none:
		f.jumped++
	}
	l := &q.classes[s.class]
	l.floor = max(l.floor, f.service)
	cost = min(cost, maxCost)
	q.bookShares(s.class, cost)
	q.unlink(e)
	q.serve(fi, cost)
	return FlowID(fi)
}

// unpass forgets that an entry was skipped: it is leaving.
func (q *Queue) unpass(e int32) {
	s := &q.scan
	q.entries.at(e).passed = false
	s.passed = slices.DeleteFunc(s.passed, func(o int32) bool { return o == e })
}

// EndScan puts the parked flows back, and entries that were skipped among those
// that are due.
func (q *Queue) EndScan() {
	s := &q.scan
	for _, e := range s.passed {
		n := q.entries.at(e)
		n.passed = false
		q.entries.pushDate(&q.flows.at(n.flow).due, e)
	}
	for _, fi := range s.touched {
		f := q.flows.at(fi)
		f.scanned, f.cursor, f.asideCursor, f.skipped = false, none, none, 0
	}
	for _, fi := range s.parked {
		f := q.flows.at(fi)
		f.parked = false
		if f.waiting > 0 {
			q.push(fi)
		}
	}
	s.touched, s.parked, s.passed, s.current = s.touched[:0], s.parked[:0], s.passed[:0], none
}

// Rival is a waiting request that may take the turn of an older one of its tenant.
type Rival struct {
	Ref    uint64
	Ticket Ticket
}

// maxPreferredTurns is how many turns in a row requests may get because they are preferred or due, before the
// oldest one of their tenant gets its own.
const maxPreferredTurns = 12

// Rivals appends to list the requests behind the one that Next returned which may take its
// turn, oldest first, until list is full: those of its tenant in line with no
// date. There are none where others have taken the oldest one's turn favour times in a row, or
// where the turn goes by date.
func (q *Queue) Rivals(list []Rival) []Rival {
	e := q.scan.current
	if e == none {
		return list
	}
	n := q.entries.at(e)
	f := q.flows.at(n.flow)
	if f.jumped >= maxPreferredTurns || n.where != inLine || n.item.Due != 0 {
		return list
	}
	for e = n.next; e != none && len(list) < cap(list); {
		rival := q.entries.at(e)
		if rival.item.Due == 0 {
			list = append(list, Rival{rival.item.Ref, Ticket(q.entries.id(e))})
		}
		e = rival.next
	}
	return list
}

// Prefer gives the turn of the request that Next returned to one of its Rivals: Take takes
// that one. A tenant's oldest request loses its turn favour times in a row at most.
func (q *Queue) Prefer(t Ticket) {
	if e, ok := q.entries.index(uint64(t)); ok && q.scan.current != none {
		q.scan.current, q.scan.preferred = e, true
	}
}
