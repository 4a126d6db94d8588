package admission

// line is a doubly linked list of entries.
type line struct{ head, tail int32 }

var emptyLine = line{none, none}

// link appends an entry to a list.
func (q *Queue) link(l *line, e int32) {
	n := q.entries.at(e)
	n.prev, n.next = l.tail, none
	if l.tail == none {
		l.head = e
	} else {
		q.entries.at(l.tail).next = e
	}
	l.tail = e
}

// insert puts an entry into a list that is in the order of places: at its end,
// unless entries that came later are there already.
func (q *Queue) insert(l *line, e int32) {
	n := q.entries.at(e)
	after := l.tail
	for after != none && q.entries.at(after).place > n.place {
		after = q.entries.at(after).prev
	}
	if after == l.tail {
		q.link(l, e)
		return
	}
	n.prev, n.next = after, l.head
	if after != none {
		n.next = q.entries.at(after).next
		q.entries.at(after).next = e
	} else {
		l.head = e
	}
	q.entries.at(n.next).prev = e
}

// unlinkFrom takes an entry out of the list it is in.
func (q *Queue) unlinkFrom(l *line, e int32) {
	n := q.entries.at(e)
	if n.prev == none {
		l.head = n.next
	} else {
		q.entries.at(n.prev).next = n.next
	}
	if n.next == none {
		l.tail = n.prev
	} else {
		q.entries.at(n.next).prev = n.prev
	}
}
