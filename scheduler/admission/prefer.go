package admission

// Rival is a waiting request that may take the turn of an older one of its tenant.
type Rival struct {
	Ref    uint64
	Ticket Ticket
}

// favour is how many turns in a row requests may get because they are preferred or due, before the
// oldest one of their tenant gets its own.
const favour = 12

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
	if f.hurried >= favour || n.where != inLine || n.item.Due != 0 {
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
