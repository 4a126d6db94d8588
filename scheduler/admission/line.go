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
