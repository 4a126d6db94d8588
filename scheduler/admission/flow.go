package admission

// flow is one tenant within one class: its line and its virtual counter of
// compute time. It lives while it has requests waiting or running, and longer
// while its counter is above what it would be lifted to on return.
type flow struct {
	key         flowKey
	scale       uint64    // service per unit: unitScale / weight
	service     uint64    // virtual counter; only grows, except by rebasing
	rank        uint64    // the service that the heap was ordered by; at most service
	turn        uint64    // breaks ties of rank: the arrival that made the flow backlogged
	credit      uint64    // cost charged in advance that was not incurred: later charges use it up
	line        line      // the entries whose turn comes, first come first
	aside       line      // the entries that were set aside
	shedLists   shedLists // the entries that may give way
	due         dates     // the entries in line that are due some time
	jumped      int       // turns in a row of entries that were due or preferred, before the oldest one
	listed      int       // entries of both
	waiting     int       // entries, followers of groups included
	choices     int       // of these
	tokens      int       // of these
	work        uint64    // of these, expected
	refs        int       // requests waiting or running
	places      uint64    // entries ever listed
	pos         int32     // index in the class queue's heap; none when not on it
	parked      bool      // taken off the heap by the scan in progress
	scanned     bool      // the cursors are those of the scan in progress
	cursor      int32     // the scan's next entry in line
	asideCursor int32     // the scan's next entry of those set aside
	skipped     int       // entries the scan skipped here
	prev        int32     // idle list
	next        int32
	isIdle      bool
	report      int32 // index in Queue.charged; none when nothing is to be reported
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
		f.jumped = 0
		q.push(fi)
	}
}

// list puts an entry at the end of its flow's line.
func (q *Queue) list(fi, e int32) {
	f, n := q.flows.at(fi), q.entries.at(e)
	f.places++
	f.listed++
	n.where, n.place = inLine, f.places
	q.entries.link(&f.line, e)
	if n.item.Due != 0 {
		q.entries.pushDate(&f.due, e)
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
		q.entries.unlinkFrom(&g.rest, e)
		return
	}
	q.unlist(e)
	if n.group != none {
		if next := q.next(n.group); next != none {
			q.list(fi, next)
		}
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
	if f.asideCursor == e {
		f.asideCursor = n.next
	}
	f.listed--
	if n.passed {
		q.unpass(e)
	}
	q.entries.removeDate(&f.due, e)
	if n.where == aside {
		q.entries.unlinkFrom(&f.aside, e)
	} else {
		q.entries.unlinkFrom(&f.line, e)
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
